//! `_delete_by_query` and `_update_by_query`: what matches a query as of one moment is deleted, or
//! written again.

use std::sync::Arc;

use tokio::time::Instant;

use super::batches::{Act, BatchMemory, Manner, Work, batch};
use crate::collections::selection::Selection;
use crate::engine::Engine;
use crate::http::answer::Answer;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::search::filter::known;
use crate::search::query_string::take_q;
use crate::search::request::{limit_to_slice, parse, query_of};
use crate::search::state::SearchState;

/// `POST /{collection}/_delete_by_query`
pub(crate) async fn delete(call: Call<SearchState>) -> Outcome<Answer> {
    run(call, Act::Delete, "delete_by_query").await
}

/// `POST /{collection}/_update_by_query`: each document becomes a new version of itself, since
/// there are no scripts.
pub(crate) async fn update(call: Call<SearchState>) -> Outcome<Answer> {
    run(call, Act::Rewrite, "update_by_query").await
}

async fn run(call: Call<SearchState>, act: Act, name: &str) -> Outcome<Answer> {
    let begun = Instant::now();
    let selection = Selection::of(&call)?;
    let (state, params) = (call.state.clone(), call.params.clone());
    let running = Arc::clone(&call.running);
    let body = call.take_small_body().await?;
    let mut body = parse(&body.bytes)?;
    take_q(&mut body, &params)?;
    let mut manner = Manner::of(&params, &mut body)?;
    // Documents are handled whole, whatever a search would show of them.
    known(&body, name, &["_source", "query", "size", "slice"])?;
    manner.batch = batch(body.get("size"), manner.batch)?;
    // Without a query all would be deleted.
    if matches!(act, Act::Delete) && !body.contains_key("query") {
        return Err(Failure::validation("query is missing"));
    }
    let (mut query, texts) = query_of(&body, state.engine.now_millis())?;
    manner.check_slice(limit_to_slice(&mut query, &body)?)?;
    drop(body);
    let memory = BatchMemory::reserve(&state, &manner).await?;
    let begin =
        move |engine: &Engine| Work::new(engine, &selection, (query, texts), act, manner, memory);
    let work = state.engine.read(begin).await??;
    work.answer(state.engine, running, begun).await
}
