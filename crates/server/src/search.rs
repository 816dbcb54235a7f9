//! `_search` and `_count`: which documents match, in which order, and aggregates of all of them.
//!
//! A search sees each collection as of one moment. It first finds the hits. Then it reads their
//! documents in groups and writes them as the client takes them.

mod after;
pub(crate) mod aggregations;
pub(crate) mod analyze;
pub(crate) mod by_key;
mod by_time;
mod clause;
mod collapse;
pub(crate) mod contexts;
pub(crate) mod dates;
pub(crate) mod derived;
pub(crate) mod execute;
pub(crate) mod filter;
mod hit_writer;
mod hits;
mod inner_hits;
pub(crate) mod lease;
pub(crate) mod limit;
pub(crate) mod multi;
pub(crate) mod objects;
mod pattern;
pub(crate) mod point;
mod point_id;
pub(crate) mod query_string;
mod range;
pub(crate) mod request;
mod scroll;
pub(crate) mod scroll_calls;
pub(crate) mod searching;
mod should;
mod shown_fields;
pub(crate) mod sort;
pub(crate) mod state;
mod terms_lookup;
pub(crate) mod validate;

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::stream;
use quiredb::query::{Filter, Options};
use quiredb::{Use, View};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use tokio::time::Instant;

use self::derived::derive_types;
use self::execute::{SEARCH_BYTES_MAX, failed, options};
use self::hits::Search;
use self::limit::limit_to;
use self::objects::find_objects;
use self::query_string::take_q;
use self::request::{Request, parse};
use self::scroll_calls::Begin;
use self::searching::Searching;
use self::state::SearchState;
use self::terms_lookup::{has_lookup, look_up};
use crate::access::role::Action;
use crate::audit::AuditedGrant;
use crate::collections::coerce::Mappings;
use crate::collections::selection::{Searched, SearchedShards, Selection, views};
use crate::engine::{Engine, SearchTurn, Shape};
use crate::http::answer::Answer;
use crate::http::buffers::{Buffers, Held, LARGE_BYTES, SMALL_BYTES};
use crate::http::call::Call;
use crate::http::failure::{Failure, Outcome};
use crate::tasks::registry::Running;

/// What making a piece of the answer may hold.
const HELD_BYTES: usize = 2 * hits::PIECE_BYTES + 2 * LARGE_BYTES as usize;

/// `GET|POST /_search`, `GET|POST /{collection}/_search`
pub(crate) async fn search(call: Call<SearchState>) -> Outcome<Answer> {
    let begun = Instant::now();
    let selection = Selection::of(&call)?;
    let (engine, is_filtered) = (call.state.engine.clone(), !call.format.filter.is_all());
    let (buffers, timeout) = (call.state.buffers.clone(), call.state.memory_timeout);
    let (params, state) = (call.params.clone(), call.state.clone());
    let grant = Arc::clone(&call.grant);
    let running = Arc::clone(&call.running);
    let noted = state.notes_plans.then(|| Arc::clone(&running));
    let names_collection = call.path_param("collection").is_some();
    let shape = Shape::of("search", &call.collection());
    let body = call.take_small_body().await?;
    let shape = shape.with_body(&body.bytes);
    let mut parsed = parse(&body.bytes)?;
    take_q(&mut parsed, &params)?;
    let parsed = looked_up(parsed, &engine, &buffers, &grant).await?;
    let mut request = Request::search(parsed, &params, engine.now_millis())?;
    request.noted = noted;
    // The memory of the body is released first: no request waits for memory while it holds some.
    drop(body);
    let turn = engine.shaped_turn(shape).await?;
    let held = hold_in(&turn, &buffers, request.limits.memory_bytes, timeout).await?;
    let point = request.point.clone();
    let seen = match &point {
        Some(_) if names_collection || request.scroll.is_some() => {
            return Err(Failure::validation(
                "[pit] names what is searched: no collection and no scroll can be beside it",
            ));
        }
        Some((id, lease)) => {
            let (views, filter) = point::views_of(&state.contexts, id, *lease)?;
            Seen::Point(views, filter)
        }
        None => {
            if !names_collection {
                let allowed = grant.check_all(Action::Read);
                allowed.map_err(Failure::forbidden)?;
            }
            Seen::Named(selection)
        }
    };
    // A search that is cancelled is over for its caller, though its thread may still be at work.
    let task = Arc::downgrade(&running);
    if let Some(lease) = request.scroll {
        let open = move |engine: &Engine| {
            let views = seen.open(engine, &mut request, &task)?;
            Ok::<_, Failure>((views, request))
        };
        let (views, request) = engine.read(open).await??;
        let begin = Begin {
            views,
            request,
            lease,
            running,
            begun,
        };
        return scroll_calls::begin(state, begin, turn, held).await;
    }
    let of = buffers.clone();
    let work = move |engine: &Engine, stop: &(dyn Fn() -> bool + Sync)| {
        let views = seen.open(engine, &mut request, &task)?;
        let id = point.as_ref().map(|(id, _)| ("pit_id", id.as_str()));
        let mut search = Search::begin(views, request, id, stop, (Some(held), &of), begun)?;
        let first = search.next_piece(false)?;
        Ok::<_, Failure>((search, first))
    };
    let searched = engine.search_shaped(turn, shape, &running, work).await?;
    let (mut search, first) = searched?;
    if is_filtered {
        let whole = move |_: &_| search.whole(first, &buffers);
        let (whole, held) = engine.read(whole).await??;
        return Ok(Answer::held_json(StatusCode::OK, whole, Some(held)));
    }
    let held = match first.len() > SMALL_BYTES {
        true => Some(buffers.hold_now(first.capacity())?),
        false => None,
    };
    if search.is_done() {
        return Ok(Answer::held_json(StatusCode::OK, first, held));
    }
    let first = match held {
        Some(held) => held.keep(first)?,
        None => Bytes::from(first),
    };
    let answering = Answering {
        engine,
        buffers,
        timeout,
        search,
    };
    let pieces = stream::unfold(
        (Some(answering), Some(first)),
        |(state, first)| async move {
            if let Some(first) = first {
                return Some((Ok(first), (state, None)));
            }
            let answering = state.filter(|answering| !answering.search.is_done())?;
            match answering.next_piece().await {
                Ok((answering, piece)) => Some((Ok(piece), (Some(answering), None))),
                // It is too late for a status. The connection is cut, and the client sees that the
                // answer is not whole.
                Err(failure) => {
                    let error = io::Error::other(failure.cause().to_string());
                    Some((Err(error), (None, None)))
                }
            }
        },
    );
    Ok(Answer::stream(Box::pin(pieces)))
}

/// What a search is about.
enum Seen {
    /// A point in time: what it sees, and which documents of that.
    Point(Arc<Vec<View>>, Filter),
    /// Collections as they are now.
    Named(Selection),
}

impl Seen {
    /// Opens it, and adapts the request to it.
    fn open(
        self,
        engine: &Engine,
        request: &mut Request,
        task: &Weak<Running>,
    ) -> Outcome<Arc<Vec<View>>> {
        let (views, filter, mappings) = match self {
            Seen::Point(views, filter) => {
                let mappings = Mappings::of_views(engine, &views);
                (views, filter, mappings)
            }
            Seen::Named(selection) => {
                let (collections, filter) = selection.searched(engine)?;
                let mappings = Mappings::of_searched(engine, &collections);
                (Arc::new(views(&collections)?), filter, mappings)
            }
        };
        request.limit_to(filter, &mappings)?;
        if let Some(running) = task.upgrade() {
            running.set_views(&views);
        }
        Ok(views)
    }
}

/// A search that is answered piece by piece.
struct Answering {
    engine: Engine,
    buffers: Buffers,
    /// The longest wait for memory.
    timeout: Duration,
    search: Search,
}

impl Answering {
    /// Makes the next piece of the answer, once there is memory for it.
    async fn next_piece(mut self) -> Outcome<(Answering, Bytes)> {
        loop {
            let held = match self.search.longer() {
                Some(bytes) => self.buffers.hold_large(bytes, self.timeout).await?,
                None => self.buffers.hold(HELD_BYTES, self.timeout).await?,
            };
            let engine = self.engine.clone();
            let made = engine.read(move |_| {
                let mut piece = self.search.next_piece(true)?;
                if piece.capacity() > HELD_BYTES {
                    piece.shrink_to_fit();
                }
                Ok::<_, Failure>((self, held.keep(piece)?))
            });
            let piece;
            (self, piece) = made.await??;
            if !piece.is_empty() || self.search.is_done() {
                return Ok((self, piece));
            }
        }
    }
}

/// `GET|POST /_count`, `GET|POST /{collection}/_count`
pub(crate) async fn count(call: Call<SearchState>) -> Outcome<Answer> {
    let selection = Arc::new(Selection::of(&call)?);
    let engine = call.state.engine.clone();
    let (buffers, timeout) = (call.state.buffers.clone(), call.state.memory_timeout);
    let noted = call.state.notes_plans.then(|| Arc::clone(&call.running));
    let grant = Arc::clone(&call.grant);
    let params = call.params.clone();
    let running = Arc::clone(&call.running);
    let shape = Shape::of("count", &call.collection());
    let body = call.take_small_body().await?;
    let shape = shape.with_body(&body.bytes);
    let mut parsed = parse(&body.bytes)?;
    take_q(&mut parsed, &params)?;
    let parsed = looked_up(parsed, &engine, &buffers, &grant).await?;
    let (mut query, texts) = Request::count(&parsed, engine.now_millis())?;
    drop(body);
    if matches!(query.filter, Filter::All)
        && let Some(counted) = all_counted(&engine, Arc::clone(&selection)).await?
    {
        return Ok(counted);
    }
    let turn = engine.shaped_turn(shape).await?;
    let held = hold_in(&turn, &buffers, SEARCH_BYTES_MAX, timeout).await?;
    let work = move |engine: &Engine, stop: &(dyn Fn() -> bool + Sync)| {
        let _held = held;
        let (collections, filter) = selection.searched(engine)?;
        let mappings = Mappings::of_searched(engine, &collections);
        limit_to(&mut query, &texts, filter, &mappings)?;
        let views = views(&collections)?;
        let searching = Searching::begin(&views, Use::Query);
        derive_types(&mut query, &mappings, &views, stop)?;
        find_objects(&mut query, &views, stop)?;
        let query = query.prepare().map_err(|error| failed(error.into()))?;
        let clock = || engine.now();
        let options = Options {
            clock: noted.is_some().then_some(&clock),
            ..options(stop)
        };
        let mut answer = View::query_all(&views, &query, &options).map_err(failed)?;
        searching.end(1);
        if let (Some(noted), Some(plan)) = (noted, answer.explain.take()) {
            noted.set_plan(plan);
        }
        Ok(counted(answer.count.unwrap_or_default(), &collections))
    };
    engine.search_shaped(turn, shape, &running, work).await?
}

/// The count of all documents, which is no search; none if they are seen by an alias with a filter.
async fn all_counted(engine: &Engine, selection: Arc<Selection>) -> Outcome<Option<Answer>> {
    let work = move |engine: &Engine| {
        let (collections, filter) = selection.searched(engine)?;
        if !matches!(filter, Filter::All) {
            return Ok(None);
        }
        let counts = collections.iter().map(|collection| {
            let using = collection.usage().begin(Use::Query);
            let count = collection.count()?;
            using.end(1);
            Ok(count)
        });
        let count: Outcome<u64> = counts.sum();
        Ok(Some(counted(count?, &collections)))
    };
    engine.read(work).await?
}

/// A body with values in the place of terms lookups.
async fn looked_up(
    mut body: Map<String, Json>,
    engine: &Engine,
    buffers: &Buffers,
    grant: &Arc<AuditedGrant>,
) -> Outcome<Map<String, Json>> {
    if !has_lookup(&mut body) {
        return Ok(body);
    }
    let (buffers, grant) = (buffers.clone(), Arc::clone(grant));
    let work = move |engine: &Engine| look_up(&mut body, engine, &buffers, &grant).map(|()| body);
    engine.read(work).await?
}

fn counted(count: u64, collections: &[Searched]) -> Answer {
    /// As it is answered, without a tree of values: that took as long as the count.
    #[derive(Serialize)]
    struct Counted {
        count: u64,
        #[serde(rename = "_shards")]
        shards: SearchedShards,
    }
    let shards = SearchedShards::of(collections);
    Answer::ok(&Counted { count, shards })
}

/// Reserves the memory of a search whose turn it is.
async fn hold_in(
    turn: &SearchTurn,
    buffers: &Buffers,
    bytes: usize,
    timeout: Duration,
) -> Outcome<Held> {
    match turn.is_instant() {
        true => buffers.hold_instant(bytes, timeout).await,
        false => buffers.hold(bytes, timeout).await,
    }
}

/// Reserves the memory that finding the hits may need.
pub(crate) async fn hold(buffers: &Buffers, timeout: Duration) -> Outcome<Held> {
    buffers.hold(SEARCH_BYTES_MAX, timeout).await
}

/// As [`hold`], if the memory is free.
pub(crate) fn hold_now(buffers: &Buffers) -> Outcome<Held> {
    buffers.hold_now(SEARCH_BYTES_MAX)
}
