//! The requests about scrolls: the first page, the next ones, and the end.

use axum::http::StatusCode;
use parking_lot::Mutex;
use quiredb::View;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

use super::by_key::PAGE_BYTES_MAX;
use super::contexts::{Context, Contexts, missing};
use super::filter::{known, text, unsupported};
use super::lease::lease;
use super::request::{Request, parse};
use super::scroll::{Page, Scroll};
use super::state::SearchState;
use crate::http::answer::Answer;
use crate::http::buffers::Held;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// What making a page may hold: its documents, and the page of them.
const SCROLL_BYTES: usize = 2 * PAGE_BYTES_MAX;

/// Begins a scroll, and answers its first page.
pub(crate) async fn begin(
    state: SearchState,
    views: Arc<Vec<View>>,
    request: Request,
    lease: Duration,
    held: Held,
    begun: Instant,
) -> Outcome<Answer> {
    let id = format!("scroll-{}", state.engine.new_id());
    let of = Arc::clone(&views);
    let work = move |_: &_, stop: &(dyn Fn() -> bool + Sync)| {
        Scroll::begin(of, request, stop, held, begun)
    };
    let scroll = Arc::new(Mutex::new(state.engine.search(work).await??));
    let page = page(&state, &scroll, &id, begun).await?;
    let contexts = state.contexts;
    contexts.open(&id, Context::Scroll(scroll, views), lease)?;
    Ok(page)
}

/// Makes the next page of a scroll.
async fn page(
    state: &SearchState,
    scroll: &Arc<Mutex<Scroll>>,
    id: &str,
    begun: Instant,
) -> Outcome<Answer> {
    let (buffers, timeout) = (&state.buffers, state.memory_timeout);
    let mut held = buffers.hold(SCROLL_BYTES, timeout).await?;
    loop {
        let (scroll, id, of_page) = (Arc::clone(scroll), id.to_owned(), buffers.clone());
        let work = move |_: &_, stop: &(dyn Fn() -> bool + Sync)| {
            scroll.lock().page(&id, stop, held, &of_page, begun)
        };
        held = match state.engine.search(work).await?? {
            Page::Made(page, held) => {
                return Ok(Answer::held_json(StatusCode::OK, page, Some(held)));
            }
            Page::Wants(bytes) => buffers.hold_large(bytes, timeout).await?,
        };
    }
}

/// `GET|POST /_search/scroll`
pub(crate) async fn next(call: Call<SearchState>) -> Outcome<Answer> {
    let begun = Instant::now();
    let call_state = call.state.clone();
    let params = call.params.clone();
    let in_path = call.path_param("id").map(str::to_owned);
    let body = call.take_small_body().await?;
    // The memory of the body is released first: no request waits for memory while it holds some.
    let body = {
        let body = body;
        parse(&body.bytes)?
    };
    known(&body, "scroll", &["scroll", "scroll_id"])?;
    // The body comes first, as in OpenSearch.
    let member = |name: &str| match body.get(name) {
        None | Some(Json::Null) => Ok(params.text(name).map(str::to_owned)),
        given => Ok(Some(
            text(given, "[scroll] and [scroll_id] are strings")?.to_owned(),
        )),
    };
    let id = member("scroll_id")?.or(in_path);
    let id = id.ok_or_else(|| Failure::validation("scrollId is missing"))?;
    let lease = member("scroll")?.map(|text| lease(&text)).transpose()?;
    let Context::Scroll(scroll, _) = call_state.contexts.get(&id, lease)? else {
        return Err(missing(&id));
    };
    page(&call_state, &scroll, &id, begun).await
}

/// `DELETE /_search/scroll`
pub(crate) async fn close(call: Call<SearchState>) -> Outcome<Answer> {
    let contexts = call.state.contexts.clone();
    let in_path = call.path_param("id").map(str::to_owned);
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    let ids = match in_path {
        Some(ids) if body.is_empty() => ids.split(',').map(str::to_owned).collect(),
        _ => ids(&body, "scroll_id")?,
    };
    let closed = close_ids(&contexts, &ids, Context::is_scroll);
    let status = match closed.is_empty() && ids != ["_all"] {
        true => StatusCode::NOT_FOUND,
        false => StatusCode::OK,
    };
    let answer = json!({"succeeded": true, "num_freed": closed.len()});
    Ok(Answer::value(status, &answer))
}

/// The ids of a body: one, or a list.
pub(crate) fn ids(body: &Map<String, Json>, name: &str) -> Outcome<Vec<String>> {
    known(body, "body", &[name])?;
    let ids = match body.get(name) {
        Some(Json::Array(ids)) => ids.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    if ids.is_empty() {
        return Err(Failure::validation(&format!("no [{name}] is given")));
    }
    let id = |id: &Json| {
        let id = id.as_str().map(str::to_owned);
        id.ok_or_else(|| unsupported(format!("[{name}] must be a string or a list of strings")))
    };
    ids.iter().map(id).collect()
}

/// Closes contexts of one kind; `_all` is all of them. The ids of those that there were.
pub(crate) fn close_ids(
    contexts: &Contexts,
    ids: &[String],
    is_kind: fn(&Context) -> bool,
) -> Vec<String> {
    if ids == ["_all"] {
        return contexts.close_all(is_kind);
    }
    let there = ids.iter().filter(|id| contexts.close(id, is_kind));
    there.cloned().collect()
}
