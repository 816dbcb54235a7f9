//! `scroll`: a search that is answered page by page, as of one moment.
//!
//! Without an order, pages are found as they are read, in the order of keys. With one, the hits are
//! found at the beginning, and kept as places.

use quiredb::query::{Hit, Prepared, Query, find};
use quiredb::{Key, View};
use std::sync::Arc;
use tokio::time::Instant;

use super::by_key::{PAGE_BYTES_MAX, page_by_key};
use super::execute::failed;
use super::hit_writer::HitWriter;
use super::hits::{Found, find_hits, head, tail, writer_of};
use super::request::Request;
use crate::http::buffers::{Buffers, Held, LARGE_BYTES};
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
        buffers: &Buffers,
        begun: Instant,
    ) -> Outcome<(Scroll, (Vec<u8>, Held))> {
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
        let (rest, of_places) = match is_ordered {
            true => {
                let hits = hits.into_places();
                // `held` is for the first page from here on.
                let places = buffers.hold_now(size_of_val(hits.as_slice()))?;
                (Rest::Places(hits), Some(places))
            }
            false => (Rest::of_keys(find(filter))?, None),
        };
        let mut scroll = Scroll {
            views,
            writer: HitWriter {
                orders: query.order,
                ..writer_of(&request)
            },
            size,
            count: answer.count,
            total_as_int: request.total_as_int,
            rest,
            _held: of_places,
        };
        let tail = tail(&scroll.views, &request, answer)?;
        let page = scroll.page(id, &tail, stop, buffers, begun)?;
        held.resize(page.capacity())?;
        Ok((scroll, (page, held)))
    }

    /// The next page, whole: with the memory that the caller holds, and more for large documents.
    /// It ends before one that there is no memory for. Blocks.
    ///
    /// # Errors
    /// 429 if it would begin with such a document; then it can be requested again.
    pub(crate) fn page(
        &mut self,
        id: &str,
        tail: &[u8],
        stop: &(dyn Fn() -> bool + Sync),
        buffers: &Buffers,
        begun: Instant,
    ) -> Outcome<Vec<u8>> {
        let (mut hits, mut rooms) = (Vec::new(), Vec::new());
        match &mut self.rest {
            Rest::Places(places) => {
                let mut left = self.size;
                while left > 0 && hits.len() < PAGE_BYTES_MAX {
                    let some = places.as_slice();
                    let some = some.get(..left.min(READ_AT_ONCE).min(some.len()));
                    let some = some.unwrap_or_default();
                    let Some(first) = some.get(..1).filter(|first| !first.is_empty()) else {
                        break;
                    };
                    let (views, is_first) = (&self.views, hits.is_empty());
                    let mut write = |some: &[Hit], bytes_max| {
                        let writer = &self.writer;
                        writer.write_places(views, some, bytes_max, is_first, &mut hits)
                    };
                    let count = match write(some, LARGE_BYTES)? {
                        (0, Some(bytes)) => match buffers.hold_large_now(bytes) {
                            Ok(room) => {
                                rooms.push(room);
                                write(first, bytes)?.0
                            }
                            Err(failure) if is_first => return Err(failure),
                            Err(_) => break,
                        },
                        (count, _) => count,
                    };
                    left -= count;
                    places.by_ref().take(count).for_each(drop);
                }
            }
            Rest::Keys { query, view, after } => {
                let mut left = self.size;
                while left > 0
                    && hits.len() < PAGE_BYTES_MAX
                    && let Some(of) = self.views.get(*view)
                {
                    let (page, is_last) = page_by_key(of, None, query, after.as_ref(), left, stop)?;
                    let bytes: usize = page
                        .iter()
                        .map(|found| found.document.as_bytes().len())
                        .sum();
                    if bytes > PAGE_BYTES_MAX {
                        match buffers.hold_large_now(bytes as u64) {
                            Ok(room) => rooms.push(room),
                            Err(failure) if hits.is_empty() => return Err(failure),
                            Err(_) => break,
                        }
                    }
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
