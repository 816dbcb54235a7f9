//! The requests about running requests: list, show, cancel.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::json;

use super::listed::{self, Grouping, NODE, id_of};
use super::registry::Tasks;
use super::task::Task;
use crate::access::grant::Grant;
use crate::access::role::Action;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::http::fields::glob;
use crate::http::params::Params;

/// What these requests use of the server.
pub(crate) struct TasksState {
    pub(crate) engine: Engine,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) listen: SocketAddr,
}

/// `GET /_tasks`
pub(crate) async fn list(call: Call<TasksState>) -> Outcome<Answer> {
    let is_detailed = call.params.flag("detailed")?.unwrap_or(false);
    check_completion(&call.params)?;
    let grouping = grouping(&call.params)?;
    let tasks = selected(&call)?;
    let now = call.state.engine.now();
    let listed = listed::list(&tasks, grouping, (now, is_detailed), call.state.listen);
    Ok(Answer::ok(&listed))
}

/// `GET /_tasks/{id}`
pub(crate) async fn get(call: Call<TasksState>) -> Outcome<Answer> {
    check_completion(&call.params)?;
    let id = call.id();
    check_node(&id)?;
    if let Some(task) = find(&call, &id)? {
        let task = listed::task(&task, call.state.engine.now(), true);
        return Ok(Answer::ok(&json!({"completed": false, "task": task})));
    }
    let result = call.state.tasks.result(number(&id)?);
    let result = result.filter(|result| is_visible(&call.grant, &result.task));
    let result = result.ok_or_else(|| {
        let reason = format!("task [{id}] isn't running and hasn't stored its results");
        Failure::new(
            StatusCode::NOT_FOUND,
            "resource_not_found_exception",
            reason,
        )
    })?;
    let task = listed::task(&result.task, result.ended, true);
    let (name, outcome) = match &result.outcome {
        Ok(response) => ("response", response),
        Err(error) => ("error", error),
    };
    Ok(Answer::ok(
        &json!({"completed": true, "task": task, name: outcome}),
    ))
}

/// `POST /_tasks/{id}/_cancel`
pub(crate) async fn cancel(call: Call<TasksState>) -> Outcome<Answer> {
    check_completion(&call.params)?;
    let id = call.id();
    let task = find_or_refuse(&call, &id)?;
    if !task.is_cancellable {
        let reason = format!("task [{id}] doesn't support cancellation");
        return Err(Failure::illegal_argument(reason));
    }
    cancelled(&call, vec![task])
}

/// `POST /_tasks/_cancel`
pub(crate) async fn cancel_all(call: Call<TasksState>) -> Outcome<Answer> {
    check_completion(&call.params)?;
    let mut tasks = selected(&call)?;
    tasks.retain(|task| task.is_cancellable);
    cancelled(&call, tasks)
}

/// Cancels tasks, and answers the list of them.
fn cancelled(call: &Call<TasksState>, tasks: Vec<Arc<Task>>) -> Outcome<Answer> {
    for task in &tasks {
        tracing::info!(
            task = task.id,
            action = task.action,
            "a request is cancelled"
        );
        task.cancel();
        for child in call.state.tasks.children(task.id) {
            child.cancel();
        }
    }
    let now = call.state.engine.now();
    let listed = listed::list(&tasks, Grouping::Nodes, (now, false), call.state.listen);
    Ok(Answer::ok(&listed))
}

/// The tasks that the caller may see and the parameters select.
pub(super) fn selected(call: &Call<TasksState>) -> Outcome<Vec<Arc<Task>>> {
    let params = &call.params;
    let patterns = |name| -> Option<Vec<&str>> { Some(params.text(name)?.split(',').collect()) };
    let (actions, nodes) = (patterns("actions"), patterns("nodes"));
    let matches = |patterns: &Option<Vec<&str>>, text: &str| {
        let matches = |pattern: &&str| glob(pattern.as_bytes(), text.as_bytes());
        patterns
            .as_ref()
            .is_none_or(|patterns| patterns.iter().any(matches))
    };
    let is_here = matches(&nodes, NODE) || matches(&nodes, "_local");
    let parent = params.text("parent_task_id").map(number).transpose()?;
    let mut tasks = call.state.tasks.all();
    tasks.retain(|task| {
        is_here
            && is_visible(&call.grant, task)
            && matches(&actions, task.action)
            && parent.is_none_or(|parent| task.parent == Some(parent))
    });
    Ok(tasks)
}

/// The task of this id, if it is running and the caller may see it.
fn find(call: &Call<TasksState>, id: &str) -> Outcome<Option<Arc<Task>>> {
    let task = call.state.tasks.get(number(id)?);
    Ok(task.filter(|task| is_visible(&call.grant, task)))
}

/// As [`find`].
///
/// # Errors
/// 404 if there is none.
pub(crate) fn find_or_refuse(call: &Call<TasksState>, id: &str) -> Outcome<Arc<Task>> {
    find(call, id)?.ok_or_else(|| {
        let reason = format!("task [{id}] is not found");
        Failure::new(
            StatusCode::NOT_FOUND,
            "resource_not_found_exception",
            reason,
        )
    })
}

fn is_visible(grant: &Grant, task: &Task) -> bool {
    grant.name == task.request.token || grant.check_all(Action::Manage).is_ok()
}

/// Refuses the id of a task of another node.
fn check_node(id: &str) -> Outcome<()> {
    match id.rsplit_once(':') {
        Some((node, number)) if node != NODE && number.parse::<u64>().is_ok() => {
            let reason = format!(
                "task [{id}] belongs to the node [{node}] which isn't part of the cluster and \
                 there is no record of the task"
            );
            Err(Failure::new(
                StatusCode::NOT_FOUND,
                "resource_not_found_exception",
                reason,
            ))
        }
        _ => Ok(()),
    }
}

/// The number in the id of a task.
fn number(id: &str) -> Outcome<u64> {
    let number = id
        .strip_prefix(NODE)
        .and_then(|rest| rest.strip_prefix(':'));
    number
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| {
            let example = id_of(7);
            Failure::illegal_argument(format!(
                "malformed task id [{id}]: ids are like [{example}]"
            ))
        })
}

fn check_completion(params: &Params) -> Outcome<()> {
    let why = "what is running is answered at once";
    params.only("wait_for_completion", &["false"], why)
}

fn grouping(params: &Params) -> Outcome<Grouping> {
    match params.text("group_by") {
        None | Some("nodes") => Ok(Grouping::Nodes),
        Some("parents") => Ok(Grouping::Parents),
        Some("none") => Ok(Grouping::Nothing),
        Some(other) => Err(Failure::illegal_argument(format!(
            "parameter [group_by] can't be [{other}]: it is [nodes], [parents] or [none]"
        ))),
    }
}
