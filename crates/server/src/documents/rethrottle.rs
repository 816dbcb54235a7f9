//! `_rethrottle`: another rate for a running `_reindex`, `_update_by_query` or `_delete_by_query`.

use std::sync::Arc;

use super::batches::{rate, shared_rate};
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::tasks::calls::{TasksState, find_or_refuse};
use crate::tasks::listed::{self, Grouping};

/// `POST /_reindex/{id}/_rethrottle`, and those of the other two
pub(crate) async fn rethrottle(call: Call<TasksState>) -> Outcome<Answer> {
    let id = call.id();
    if call.params.text("requests_per_second").is_none() {
        return Err(Failure::illegal_argument(
            "requests_per_second is a required parameter",
        ));
    }
    let rate = rate(&call.params)?;
    let task = find_or_refuse(&call, &id)?;
    if !task.has_rate() {
        let reason = format!("task [{id}] doesn't support rethrottling");
        return Err(Failure::illegal_argument(reason));
    }
    task.set_rate(rate);
    // Its slices share the rate.
    let slices = call.state.tasks.children(task.id);
    for slice in &slices {
        slice.set_rate(shared_rate(rate, slices.len()));
    }
    let now = call.state.engine.now();
    let tasks = [Arc::clone(&task)];
    let listed = listed::list(&tasks, Grouping::Nodes, (now, false), call.state.listen);
    Ok(Answer::ok(&listed))
}
