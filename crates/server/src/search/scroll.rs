//! `scroll`: a search that is answered page by page, as of one moment.
//!
//! Without an order, pages are found as they are read, in the order of keys. With one, the hits are
//! found at the beginning, and kept as places.

use axum::http::StatusCode;
use parking_lot::Mutex;
use quiredb::query::{Hit, Prepared, Query, find};
use quiredb::{Key, View};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

use super::SearchState;
use super::by_key::{PAGE_BYTES_MAX, page_by_key};
use super::contexts::{Context, Contexts, lease, missing};
use super::execute::failed;
use super::filter::{known, text, unsupported};
use super::hits::{Found, HitWriter, find_hits, head, tail};
use super::request::{Request, parse};
use crate::http::answer::Answer;
use crate::http::buffers::Held;
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};

/// Hits that are read at a time.
const READ_AT_ONCE: usize = 64;

/// A search and the hits that no page has had yet.
pub(crate) struct Scroll {
    views: Arc<Vec<View>>,
    writer: HitWriter,
    size: usize,
    count: Option<u64>,
    total_as_int: bool,
    rest: Rest,
    /// The memory of the places.
    _held: Option<Held>,
}

/// The hits of pages to come.
enum Rest {
    /// Those after a key of a view, and of the views after it.
    Keys {
        query: Box<Prepared>,
        view: usize,
        after: Option<Key>,
    },
    Places(std::vec::IntoIter<Hit>),
}

impl Scroll {
    /// Begins a search. Returns its first page too. Blocks.
    pub(crate) fn begin(
        views: Arc<Vec<View>>,
        mut request: Request,
        id: &str,
        stop: &(dyn Fn() -> bool + Sync),
        mut held: Held,
        begun: Instant,
    ) -> Outcome<(Scroll, Vec<u8>)> {
        let size = request.query.limit.unwrap_or_default();
        if size == 0 {
            return Err(Failure::validation(
                "[size] cannot be [0] in a scroll context",
            ));
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let is_ordered = !request.query.order.is_empty();
        let filter = request.query.filter.clone();
        request.query.limit = if is_ordered { None } else { Some(0) };
        let Found {
            hits,
            answer,
            query,
        } = find_hits(&views, &request, stop, begun)?;
        let (rest, held) = match is_ordered {
            true => {
                let hits = hits.into_places();
                held.resize(size_of_val(hits.as_slice()))?;
                (Rest::Places(hits), Some(held))
            }
            false => {
                drop(held);
                (Rest::of_keys(find(filter))?, None)
            }
        };
        let mut scroll = Scroll {
            views,
            writer: HitWriter {
                orders: query.order,
                ..request.writer()
            },
            size,
            count: answer.count,
            total_as_int: request.total_as_int,
            rest,
            _held: held,
        };
        let tail = tail(&request, &answer.aggregates)?;
        let page = scroll.page(id, &tail, stop, begun)?;
        Ok((scroll, page))
    }

    /// The next page, whole. Blocks.
    fn page(
        &mut self,
        id: &str,
        tail: &[u8],
        stop: &(dyn Fn() -> bool + Sync),
        begun: Instant,
    ) -> Outcome<Vec<u8>> {
        let mut hits = Vec::new();
        match &mut self.rest {
            Rest::Places(places) => {
                let mut left = self.size;
                while left > 0 && hits.len() < PAGE_BYTES_MAX {
                    let some: Vec<Hit> = places.by_ref().take(left.min(READ_AT_ONCE)).collect();
                    if some.is_empty() {
                        break;
                    }
                    left -= some.len();
                    let is_first = hits.is_empty();
                    self.writer
                        .write_places(&self.views, &some, is_first, &mut hits)?;
                }
            }
            Rest::Keys { query, view, after } => {
                let mut left = self.size;
                while left > 0
                    && hits.len() < PAGE_BYTES_MAX
                    && let Some(of) = self.views.get(*view)
                {
                    let (page, is_last) = page_by_key(of, query, after.as_ref(), left, stop)?;
                    left -= page.len();
                    for found in &page {
                        if !hits.is_empty() {
                            hits.push(b',');
                        }
                        self.writer.write(of.collection_name(), found, &mut hits);
                    }
                    *after = page.into_iter().next_back().map(|found| found.key);
                    if is_last {
                        *view += 1;
                        *after = None;
                    }
                }
            }
        }
        let is_scored = self.writer.orders.is_empty() && !hits.is_empty();
        let id = Some(("_scroll_id", id));
        let (count, as_int) = (self.count, self.total_as_int);
        let mut out = head(&self.views, (count, false), as_int, is_scored, id, begun);
        out.append(&mut hits);
        out.extend_from_slice(tail);
        Ok(out)
    }
}

impl Rest {
    fn of_keys(query: Query) -> Outcome<Rest> {
        let query = query.prepare().map_err(|error| failed(error.into()))?;
        Ok(Rest::Keys {
            query: Box::new(query),
            view: 0,
            after: None,
        })
    }
}

/// Begins a scroll, and answers its first page.
pub(crate) async fn begin(
    call_state: SearchState,
    views: Arc<Vec<View>>,
    request: Request,
    lease: Duration,
    held: Held,
    begun: Instant,
) -> Outcome<Answer> {
    let SearchState {
        engine, contexts, ..
    } = call_state;
    let id = format!("scroll-{}", engine.new_id());
    let scroll_id = id.clone();
    let work = move |_: &_, stop: &(dyn Fn() -> bool + Sync)| {
        Scroll::begin(views, request, &scroll_id, stop, held, begun)
    };
    let (scroll, page) = engine.search(work).await??;
    contexts.open(&id, Context::Scroll(Arc::new(Mutex::new(scroll))), lease)?;
    Ok(Answer::json(StatusCode::OK, page))
}

/// `GET|POST /_search/scroll`
pub(crate) async fn next(call: Call<SearchState>) -> Outcome<Answer> {
    let begun = Instant::now();
    let SearchState {
        engine, contexts, ..
    } = call.state.clone();
    let params = call.params.clone();
    let in_path = call.path_param("id").map(str::to_owned);
    let body = call.take_small_body().await?;
    let body = parse(&body.bytes)?;
    known(&body, "scroll", &["scroll", "scroll_id"])?;
    let member = |name: &str| match (params.text(name), body.get(name)) {
        (Some(given), _) => Ok(Some(given.to_owned())),
        (None, None | Some(Json::Null)) => Ok(None),
        (None, given) => Ok(Some(
            text(given, "[scroll] and [scroll_id] are strings")?.to_owned(),
        )),
    };
    let id = in_path.map_or_else(|| member("scroll_id"), |id| Ok(Some(id)))?;
    let id = id.ok_or_else(|| Failure::validation("scrollId is missing"))?;
    let lease = member("scroll")?.map(|text| lease(&text)).transpose()?;
    let Context::Scroll(scroll) = contexts.get(&id, lease)? else {
        return Err(missing(&id));
    };
    let work =
        move |_: &_, stop: &(dyn Fn() -> bool + Sync)| scroll.lock().page(&id, b"]}}", stop, begun);
    let page = engine.search(work).await??;
    Ok(Answer::json(StatusCode::OK, page))
}

/// `DELETE /_search/scroll`
pub(crate) async fn close(call: Call<SearchState>) -> Outcome<Answer> {
    let contexts = call.state.contexts.clone();
    let in_path = call.path_param("id").map(str::to_owned);
    let body = call.take_small_body().await?;
    let ids = match in_path {
        Some(ids) => ids.split(',').map(str::to_owned).collect(),
        None => ids(&parse(&body.bytes)?, "scroll_id")?,
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
