//! The answer to a search, made piece by piece.

use quiredb::query::{Aggregated, Hit, Options, Order};
use quiredb::{Found, ID, ValueRef, View};
use tokio::time::Instant;

use super::execute::{failed, options, views};
use super::request::Request;
use crate::collections::selection::{Selection, searched};
use crate::documents::lookup::Group;
use crate::engine::{Engine, timed_out};
use crate::http::answer::write_string;
use crate::http::body::WHOLE_BYTES_MAX;
use crate::http::buffers::Held;
use crate::http::failure::{Failure, Outcome};

/// Bytes of the answer that are made at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Documents read at a time: at the start, and at the most.
const GROUP_FIRST: usize = 16;
const GROUP_MAX: usize = 256;

/// A search whose hits are found, and its answer so far.
pub(crate) struct Search {
    views: Vec<View>,
    request: Request,
    orders: Vec<Order>,
    hits: std::vec::IntoIter<Hit>,
    /// The text before the hits, and after; none once written.
    head: Option<Vec<u8>>,
    tail: Option<Vec<u8>>,
    group: Group,
    is_first: bool,
    /// The memory reserved for the hits.
    _held: Held,
}

impl Search {
    /// Finds the hits. Blocks.
    pub(crate) fn begin(
        engine: &Engine,
        selection: &Selection,
        request: Request,
        stop: &(dyn Fn() -> bool + Sync),
        mut held: Held,
        begun: Instant,
    ) -> Outcome<Search> {
        let collections = selection.collections(engine)?;
        let views = views(&collections)?;
        let orders = request.query.order.clone();
        let query = request.query.clone().prepare();
        let query = query.map_err(|error| failed(error.into()))?;
        let limits = request.limits;
        let is_over = || {
            let mut timeout = limits.timeout.iter();
            stop() || timeout.any(|timeout| begun.elapsed() >= *timeout)
        };
        let options = Options {
            partial: limits.partial && limits.timeout.is_some(),
            ..options(&is_over)
        };
        let answer = View::query_all(&views, &query, &options);
        let answer = answer.map_err(|error| match (is_over() && !stop(), limits.timeout) {
            (true, Some(timeout)) => timed_out("search", timeout),
            _ => failed(error),
        })?;
        held.resize(size_of_val(answer.hits.as_slice()))?;
        let tail = tail(&request, &answer.aggregates)?;
        let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (shards, timed_out) = (searched(&collections), answer.is_partial);
        let mut head =
            format!("{{\"took\":{took},\"timed_out\":{timed_out},\"_shards\":{shards},\"hits\":{{");
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

    /// Whether the whole answer is made.
    pub(crate) fn is_done(&self) -> bool {
        self.tail.is_none()
    }

    /// Makes the next piece of the answer. Blocks.
    pub(crate) fn next_piece(&mut self) -> Outcome<Vec<u8>> {
        let mut out = self.head.take().unwrap_or_default();
        while out.len() < PIECE_BYTES && !self.hits.as_slice().is_empty() {
            let before = out.len();
            let hits: Vec<Hit> = self.hits.by_ref().take(self.group.size()).collect();
            let found = View::documents_of(&self.views, &hits).map_err(failed)?;
            assert!(found.len() == hits.len(), "each hit has one document");
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

    /// The whole answer; `out` is the first piece of it. Blocks.
    ///
    /// # Errors
    /// 400 if it is too long to be filtered.
    pub(crate) fn whole(&mut self, mut out: Vec<u8>) -> Outcome<Vec<u8>> {
        while !self.is_done() {
            out.extend_from_slice(&self.next_piece()?);
            if out.len() > WHOLE_BYTES_MAX {
                return Err(Failure::illegal_argument(
                    "parameter [filter_path] can't be applied to an answer of this length: set a \
                     smaller [size], or use [_source] instead",
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

    /// The name of the collection that a hit is in. Shards are numbered across all collections.
    fn index_of(&self, hit: Hit) -> &str {
        let mut end = 0;
        let found = self.views.iter().find(|view| {
            end += view.partition_count();
            hit.shard < end
        });
        found.map_or("", View::collection_name)
    }
}

/// The text after the hits.
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
