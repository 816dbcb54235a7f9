//! `_search` and `_count`: which documents, in which order, and what is said about all of them.
//!
//! A search sees each collection as of one moment. Its hits are found first, then read and written
//! in groups of about [`PIECE_BYTES`] as the client takes them.

mod aggregations;
mod filter;
mod request;
mod sort;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use quiredb::query::{Aggregated, Filter, Hit, Options, Order};
use quiredb::{Collection, Found, ID, ValueRef, View};
use serde_json::json;
use tokio::time::Instant;

use self::request::Request;
use crate::answer::{Answer, write_string};
use crate::body::WHOLE_BYTES_MAX;
use crate::buffers::Held;
use crate::call::Call;
use crate::collections::{Selection, searched};
use crate::failure::{Failure, Outcome};
use crate::lookup::Group;
use crate::state::Server;

/// Bytes of the answer that are made at a time.
const PIECE_BYTES: usize = 256 << 10;

/// What finding may hold, of the room of all requests.
const SEARCH_BYTES_MAX: usize = 16 << 20;

/// Documents read at a time: at the start, and at the most.
const GROUP_FIRST: usize = 16;
const GROUP_MAX: usize = 256;

/// `GET|POST /_search`, `GET|POST /{collection}/_search`
pub(crate) async fn search(call: Call) -> Outcome<Answer> {
    let begun = Instant::now();
    let selection = Selection::of(&call)?;
    let (server, is_filtered) = (Arc::clone(&call.server), !call.look.filter.is_all());
    let params = call.params.clone();
    let body = call.take_small_body().await?;
    let request = Request::search(&body.bytes, &params)?;
    // The room of the body goes back first: nobody waits for room while holding some.
    drop(body);
    let held = hold(&server).await?;
    let work = move |server: &Server, stop: &(dyn Fn() -> bool + Sync)| {
        let mut search = Search::begin(server, &selection, request, stop, held, begun)?;
        let first = search.next_piece()?;
        Ok((search, first))
    };
    let (mut search, first) = server.search(work).await??;
    if is_filtered {
        let whole = server.read(move |_| search.whole(first)).await??;
        return Ok(Answer::json(axum::http::StatusCode::OK, whole));
    }
    let pieces = stream::unfold(
        (server, Some((search, Some(first)))),
        |(server, state)| async move {
            let (mut search, first) = state?;
            if let Some(first) = first {
                return Some((Ok(Bytes::from(first)), (server, Some((search, None)))));
            }
            if search.is_done() {
                return None;
            }
            let made = server.read(move |_| search.next_piece().map(|piece| (search, piece)));
            match made.await.and_then(|made| made) {
                Ok((search, piece)) => {
                    Some((Ok(Bytes::from(piece)), (server, Some((search, None)))))
                }
                // Too late for a status: the connection is cut, which no client takes for the end.
                Err(failure) => Some((
                    Err(io::Error::other(failure.cause().to_string())),
                    (server, None),
                )),
            }
        },
    );
    Ok(Answer::stream(Box::pin(pieces)))
}

/// `GET|POST /_count`, `GET|POST /{collection}/_count`
pub(crate) async fn count(call: Call) -> Outcome<Answer> {
    let selection = Selection::of(&call)?;
    let server = Arc::clone(&call.server);
    let body = call.take_small_body().await?;
    let query = Request::count(&body.bytes)?;
    drop(body);
    if matches!(query.filter, Filter::All) {
        let work = move |server: &Server| {
            let collections = selection.collections(server)?;
            let counts = collections.iter().map(|collection| {
                let count = collection.count();
                count.map_err(|error| Failure::engine(&error, Some(collection.name())))
            });
            let count: Outcome<u64> = counts.sum();
            Ok(counted(count?, &collections))
        };
        return server.read(work).await?;
    }
    let held = hold(&server).await?;
    let work = move |server: &Server, stop: &(dyn Fn() -> bool + Sync)| {
        let _held = held;
        let collections = selection.collections(server)?;
        let views = views(&collections)?;
        let query = query.prepare().map_err(|error| failed(error.into()))?;
        let answer = View::query_all(&views, &query, &options(stop)).map_err(failed)?;
        Ok(counted(answer.count.unwrap_or_default(), &collections))
    };
    server.search(work).await?
}

fn counted(count: u64, collections: &[Collection]) -> Answer {
    Answer::ok(&json!({"count": count, "_shards": searched(collections)}))
}

/// Takes the room that finding may need.
async fn hold(server: &Server) -> Outcome<Held> {
    let timeout = server.options.request_timeout;
    server.buffers.hold(SEARCH_BYTES_MAX, timeout).await
}

fn options<'a>(stop: &'a (dyn Fn() -> bool + Sync)) -> Options<'a> {
    Options {
        memory_bytes_max: SEARCH_BYTES_MAX,
        stop: Some(stop),
        ..Options::default()
    }
}

fn views(collections: &[Collection]) -> Outcome<Vec<View>> {
    let views = collections.iter().map(|collection| {
        let view = collection.view();
        view.map_err(|error| Failure::engine(&error, Some(collection.name())))
    });
    views.collect()
}

fn failed(error: quiredb::Error) -> Failure {
    Failure::engine(&error, None)
}

/// A search whose hits are found, being answered.
struct Search {
    views: Vec<View>,
    request: Request,
    orders: Vec<Order>,
    hits: std::vec::IntoIter<Hit>,
    /// What goes before the hits, and after; taken once written.
    head: Option<Vec<u8>>,
    tail: Option<Vec<u8>>,
    group: Group,
    is_first: bool,
    /// Room for the hits.
    _held: Held,
}

impl Search {
    /// Finds the hits. Blocks.
    fn begin(
        server: &Server,
        selection: &Selection,
        request: Request,
        stop: &(dyn Fn() -> bool + Sync),
        mut held: Held,
        begun: Instant,
    ) -> Outcome<Search> {
        let collections = selection.collections(server)?;
        let views = views(&collections)?;
        let orders = request.query.order.clone();
        let query = request.query.clone().prepare();
        let query = query.map_err(|error| failed(error.into()))?;
        let answer = View::query_all(&views, &query, &options(stop)).map_err(failed)?;
        held.resize(size_of_val(answer.hits.as_slice()))?;
        let tail = tail(&request, &answer.aggregates)?;
        let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let shards = searched(&collections);
        let mut head =
            format!("{{\"took\":{took},\"timed_out\":false,\"_shards\":{shards},\"hits\":{{");
        if let Some(count) = answer.count {
            head.push_str(&format!(
                "\"total\":{{\"value\":{count},\"relation\":\"eq\"}},"
            ));
        }
        let is_scored = orders.is_empty() && !answer.hits.is_empty();
        let score = if is_scored { "1.0" } else { "null" };
        head.push_str(&format!("\"max_score\":{score},\"hits\":["));
        Ok(Search {
            views,
            request,
            orders,
            hits: answer.hits.into_iter(),
            head: Some(head.into_bytes()),
            tail: Some(tail),
            group: Group::new(GROUP_FIRST, GROUP_MAX, PIECE_BYTES),
            is_first: true,
            _held: held,
        })
    }

    fn is_done(&self) -> bool {
        self.tail.is_none()
    }

    /// Makes the next piece of the answer. Blocks.
    fn next_piece(&mut self) -> Outcome<Vec<u8>> {
        let mut out = self.head.take().unwrap_or_default();
        while out.len() < PIECE_BYTES && !self.hits.as_slice().is_empty() {
            let before = out.len();
            let hits: Vec<Hit> = self.hits.by_ref().take(self.group.size()).collect();
            let found = View::documents_of(&self.views, &hits).map_err(failed)?;
            for (hit, found) in hits.iter().zip(&found) {
                if !std::mem::take(&mut self.is_first) {
                    out.push(b',');
                }
                self.write_hit(*hit, found, &mut out);
            }
            self.group.was(hits.len(), out.len() - before);
        }
        if self.hits.as_slice().is_empty()
            && let Some(tail) = self.tail.take()
        {
            out.extend_from_slice(&tail);
        }
        Ok(out)
    }

    /// The whole answer, of which `out` is there already.
    fn whole(&mut self, mut out: Vec<u8>) -> Outcome<Vec<u8>> {
        while !self.is_done() {
            out.extend_from_slice(&self.next_piece()?);
            if out.len() > WHOLE_BYTES_MAX {
                return Err(Failure::illegal_argument(
                    "parameter [filter_path] can't be applied to so long an answer: ask for fewer hits, or use [_source]",
                ));
            }
        }
        Ok(out)
    }

    fn write_hit(&self, hit: Hit, found: &Found, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"_index\":");
        write_string(self.index_of(hit), out);
        out.extend_from_slice(b",\"_id\":");
        write_string(&found.key.to_string(), out);
        let score = if self.orders.is_empty() {
            "1.0"
        } else {
            "null"
        };
        out.extend_from_slice(format!(",\"_score\":{score}").as_bytes());
        if self.request.source.shown {
            out.extend_from_slice(b",\"_source\":");
            let document = ValueRef::Object(found.document.root());
            self.request.source.fields.write(document, "", out);
        }
        for (at, order) in self.orders.iter().enumerate() {
            out.extend_from_slice(if at == 0 { b",\"sort\":[" } else { b"," });
            match order.value_of(&found.document) {
                Some(value) => value.write_json(out),
                None if order.path.as_str() == ID => write_string(&found.key.to_string(), out),
                None => out.extend_from_slice(b"null"),
            }
        }
        if !self.orders.is_empty() {
            out.push(b']');
        }
        out.push(b'}');
    }

    /// The collection that a hit is in: its partition is one of all that were asked.
    fn index_of(&self, hit: Hit) -> &str {
        let mut end = 0;
        let found = self.views.iter().find(|view| {
            end += view.partition_count();
            hit.shard < end
        });
        found.map_or("", View::collection_name)
    }
}

/// What goes after the hits.
fn tail(request: &Request, answers: &[(String, Aggregated)]) -> Outcome<Vec<u8>> {
    let mut out = b"]}".to_vec();
    for (at, (aggregation, (_, answer))) in request.aggregations.iter().zip(answers).enumerate() {
        let comma: &[u8] = if at == 0 {
            b",\"aggregations\":{"
        } else {
            b","
        };
        out.extend_from_slice(comma);
        write_string(&aggregation.name, &mut out);
        out.push(b':');
        aggregation.write(answer, &mut out)?;
    }
    if !answers.is_empty() {
        out.push(b'}');
    }
    out.push(b'}');
    Ok(out)
}
