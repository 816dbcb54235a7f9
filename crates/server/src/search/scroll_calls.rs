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
use super::execute::SEARCH_BYTES_MAX;
use super::filter::{known, text, unsupported};
use super::lease::lease;
use super::request::{Request, parse};
use super::scroll::{Page, Scroll};
use super::state::SearchState;
use crate::access::role::Action;
use crate::audit::AuditedGrant;
use crate::engine::SearchTurn;
use crate::http::answer::Answer;
use crate::http::buffers::Held;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::limits::Client;
use crate::tasks::registry::Running;

/// What making a page may hold: its documents, and the page of them.
const SCROLL_BYTES: usize = 2 * PAGE_BYTES_MAX;

/// A scroll that begins.
pub(crate) struct Begin {
    pub(crate) views: Arc<Vec<View>>,
    pub(crate) request: Request,
    pub(crate) lease: Duration,
    /// The request that opens it.
    pub(crate) running: Arc<Running>,
    pub(crate) begun: Instant,
}

/// Begins a scroll, and answers its first page.
pub(crate) async fn begin(
    state: SearchState,
    begin: Begin,
    turn: SearchTurn,
    held: Held,
) -> Outcome<Answer> {
    let Begin {
        views,
        request,
        lease,
        running,
        begun,
    } = begin;
    let id = format!("scroll-{}", state.engine.new_id());
    let of = Arc::clone(&views);
    let work = move |_: &_, stop: &(dyn Fn() -> bool + Sync)| {
        Scroll::begin(of, request, stop, held, begun)
    };
    let scroll = state.engine.search_in(turn, work).await??;
    let scroll = Arc::new(Mutex::new(scroll));
    // It is open before the first page is made: while that waits for memory, its places don't keep
    // more of it than they have to.
    let context = Context::Scroll(Arc::clone(&scroll), views);
    let opener = running.request.client();
    state.contexts.open(&id, context, lease, opener)?;
    let mut opened = Opened {
        contexts: &state.contexts,
        id: &id,
        is_answered: false,
    };
    let page = page(&state, &scroll, (&id, &running), begun).await?;
    opened.is_answered = true;
    drop(opened);
    Ok(page)
}

/// A scroll that is closed unless its first page is answered.
struct Opened<'a> {
    contexts: &'a Contexts,
    id: &'a str,
    is_answered: bool,
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.contexts.close(self.id, Context::is_scroll);
        }
    }
}

/// Makes the next page of a scroll.
async fn page(
    state: &SearchState,
    scroll: &Arc<Mutex<Scroll>>,
    (id, running): (&str, &Arc<Running>),
    begun: Instant,
) -> Outcome<Answer> {
    let (buffers, timeout) = (&state.buffers, state.memory_timeout);
    let mut wanted = SCROLL_BYTES;
    loop {
        let turn = state.engine.search_turn().await?;
        let held = buffers.hold(wanted, timeout).await?;
        let (scroll_of, id, of_page) = (Arc::clone(scroll), id.to_owned(), buffers.clone());
        let task = Arc::clone(running);
        let work = move |_: &_, stop: &(dyn Fn() -> bool + Sync)| {
            let mut scroll = scroll_of.lock();
            scroll.page((&id, &task), stop, held, &of_page, begun)
        };
        match state.engine.search_in(turn, work).await?? {
            Page::Made(page, held) => {
                return Ok(Answer::held_json(StatusCode::OK, page, Some(held)));
            }
            Page::Wants(bytes) => wanted = buffers.large(bytes),
            Page::Finds => find(state, scroll, running).await?,
        }
    }
}

/// Finds the places of the next pages again.
async fn find(
    state: &SearchState,
    scroll: &Arc<Mutex<Scroll>>,
    running: &Arc<Running>,
) -> Outcome<()> {
    let noted = state.notes_plans.then(|| Arc::clone(running));
    let turn = state.engine.search_turn().await?;
    let held = state.buffers.hold(SEARCH_BYTES_MAX, state.memory_timeout);
    let held = held.await?;
    let scroll = Arc::clone(scroll);
    let work = move |_: &_, stop: &(dyn Fn() -> bool + Sync)| scroll.lock().find(stop, held, noted);
    state.engine.search_in(turn, work).await?
}

/// `GET|POST /_search/scroll`
pub(crate) async fn next(call: Call<SearchState>) -> Outcome<Answer> {
    let begun = Instant::now();
    let (call_state, running) = (call.state.clone(), Arc::clone(&call.running));
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
    page(&call_state, &scroll, (&id, &running), begun).await
}

/// `DELETE /_search/scroll`
pub(crate) async fn close(call: Call<SearchState>) -> Outcome<Answer> {
    let closer = Closer::of(&call);
    let in_path = call.path_param("id").map(str::to_owned);
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    let ids = match in_path {
        Some(ids) if body.is_empty() => ids.split(',').map(str::to_owned).collect(),
        _ => ids(&body, "scroll_id")?,
    };
    let closed = closer.close(&ids, Context::is_scroll);
    Ok(match ids == ["_all"] {
        true => Answer::ok(&freed_json(closed.len())),
        false => freed(&closed),
    })
}

/// What is answered once these were closed: 404 if there was none of them.
pub(super) fn freed(closed: &[String]) -> Answer {
    let status = match closed.is_empty() {
        true => StatusCode::NOT_FOUND,
        false => StatusCode::OK,
    };
    Answer::value(status, &freed_json(closed.len()))
}

fn freed_json(closed: usize) -> Json {
    json!({"succeeded": true, "num_freed": closed})
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

/// A caller that closes contexts.
pub(crate) struct Closer {
    contexts: Contexts,
    client: Client,
    grant: Arc<AuditedGrant>,
}

impl Closer {
    pub(crate) fn of(call: &Call<SearchState>) -> Closer {
        Closer {
            contexts: call.state.contexts.clone(),
            client: call.running.request.client(),
            grant: Arc::clone(&call.grant),
        }
    }

    /// Closes contexts of one kind; `_all` is as [`close_all`](Self::close_all). The ids of those
    /// that there were. One who knows an id was given it by one who may read.
    pub(crate) fn close(&self, ids: &[String], is_kind: fn(&Context) -> bool) -> Vec<String> {
        if ids == ["_all"] {
            return self.close_all(is_kind);
        }
        let there = ids.iter().filter(|id| self.contexts.close(id, is_kind));
        there.cloned().collect()
    }

    /// Closes all contexts of one kind that the caller opened; those of others too if it may manage
    /// the whole database. Their ids.
    pub(crate) fn close_all(&self, is_kind: fn(&Context) -> bool) -> Vec<String> {
        if self.grant.check_all(Action::Manage).is_err() {
            return self.contexts.close_all(is_kind, Some(&self.client));
        }
        self.grant.note_admin();
        self.contexts.close_all(is_kind, None)
    }
}
