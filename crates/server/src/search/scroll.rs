//! `scroll`: a search that is answered page by page, as of one moment.
//!
//! A page is made once there is memory for the first document of it: the caller waits for that and
//! holds nothing meanwhile, so that one of many scrolls always gets its page. A page that failed is
//! the next one still.
//!
//! Without an order, pages are found as they are read, in the order of keys. With one, the hits are
//! found at the beginning, and kept as places. If others wait for the memory of these, those of the
//! next page alone are kept, and the rest is found again when it is its turn.

use quiredb::query::{Hit, Prepared, Query, find};
use quiredb::{Key, Use, View};
use std::sync::Arc;
use tokio::time::Instant;

use super::by_key::{PAGE_BYTES_MAX, page_by_key};
use super::execute::failed;
use super::hit_writer::HitWriter;
use super::hits::{Found, find_hits, head, tail, writer_of};
use super::request::Request;
use super::searching::Searching;
use crate::http::buffers::{Buffers, Held, LARGE_BYTES};
use crate::http::failure::{Failure, Outcome};
use crate::tasks::registry::Running;
use crate::tasks::task::Task;

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
    /// What the first page has behind its hits; none once it is made.
    first_tail: Option<Vec<u8>>,
}

/// The hits of pages to come.
enum Rest {
    /// Those after a key of a view, and of the views after it.
    Keys {
        query: Box<Prepared>,
        next: NextKey,
    },
    Places(Places),
}

/// Hits that were found at the beginning.
struct Places {
    /// Those of pages to come; all of them, unless they were cut.
    hits: std::vec::IntoIter<Hit>,
    /// How many earlier pages had.
    done: usize,
    /// Whether only those of the next page are left.
    is_cut: bool,
    /// How they are found.
    request: Box<Request>,
    /// Their memory.
    held: Held,
}

/// Where a page by key begins.
#[derive(Debug, Clone, Default)]
struct NextKey {
    view: usize,
    after: Option<Key>,
}

/// What became of a page.
pub(crate) enum Page {
    /// It is whole; with the memory that it takes.
    Made(Vec<u8>, Held),
    /// It begins with a document of this many bytes, and was given less memory than that takes.
    /// Nothing of it was made.
    Wants(u64),
    /// Its places are to be found again: [`Scroll::find`].
    Finds,
}

impl Scroll {
    /// Begins a search: finds its hits. Blocks.
    pub(crate) fn begin(
        views: Arc<Vec<View>>,
        mut request: Request,
        stop: &(dyn Fn() -> bool + Sync),
        mut held: Held,
        begun: Instant,
    ) -> Outcome<Scroll> {
        let size = request.query.limit.unwrap_or_default();
        if size == 0 {
            return Err(Failure::validation(
                "[size] cannot be [0] in a scroll context",
            ));
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        // Frozen documents are not in the order of their keys.
        let has_places = !request.query.order.is_empty() || views.iter().any(View::is_frozen);
        request.query.limit = if has_places { None } else { Some(0) };
        let Found {
            hits,
            answer,
            query,
            ..
        } = find_hits(&views, &request, stop, begun, None)?;
        let writer = HitWriter {
            orders: query.order,
            ..writer_of(&views, &request)
        };
        let (count, total_as_int) = (answer.count, request.total_as_int);
        let is_partial = answer.is_partial;
        let first_tail = Some(tail(&views, &request, answer)?);
        let rest = match has_places {
            true => {
                let hits = hits.into_places();
                held.resize(size_of_val(hits.as_slice()))?;
                // The request is over before these are found again, and its totals are answered.
                request.noted = None;
                if !is_partial {
                    request.limits.timeout = None;
                }
                request.query.count = false;
                request.query.facets = Vec::new();
                Rest::Places(Places {
                    hits,
                    done: 0,
                    is_cut: false,
                    request: Box::new(request),
                    held,
                })
            }
            false => Rest::of_keys(find(query.filter))?,
        };
        Ok(Scroll {
            writer,
            size,
            count,
            total_as_int,
            rest,
            first_tail,
            views,
        })
    }

    /// Gives memory back: keeps the places of the next page alone. False if the others could not be
    /// found again: then it gives nothing back.
    pub(crate) fn give_back(&mut self) -> bool {
        let Rest::Places(places) = &mut self.rest else {
            return true;
        };
        if let Some(next) = places.hits.as_slice().get(..self.size)
            && next.len() < places.hits.len()
        {
            // What a search finds until its time is over differs from one time to the next.
            if places.request.limits.timeout.is_some() {
                return false;
            }
            places.hits = Vec::from(next).into_iter();
            places.is_cut = true;
            let bytes = size_of_val(places.hits.as_slice());
            // A reservation can always become smaller.
            let _ = places.held.resize(bytes);
        }
        true
    }

    /// Finds the places of the next pages again. `held` is the memory for finding them; `noted` is
    /// told how they were found. Blocks.
    pub(crate) fn find(
        &mut self,
        stop: &(dyn Fn() -> bool + Sync),
        mut held: Held,
        noted: Option<Arc<Running>>,
    ) -> Outcome<()> {
        let Rest::Places(places) = &mut self.rest else {
            return Ok(());
        };
        places.request.noted = noted;
        let found = find_hits(&self.views, &places.request, stop, Instant::now(), None);
        places.request.noted = None;
        let mut hits = found?.hits.into_places();
        held.resize(size_of_val(hits.as_slice()))?;
        hits.by_ref().take(places.done).for_each(drop);
        places.hits = hits;
        places.is_cut = false;
        places.held = held;
        Ok(())
    }

    /// The next page, whole, within the memory that is held, and more for further large documents:
    /// it ends before one that there is no memory for. If it fails, it can be requested again.
    /// Blocks.
    pub(crate) fn page(
        &mut self,
        (id, task): (&str, &Task),
        stop: &(dyn Fn() -> bool + Sync),
        held: Held,
        buffers: &Buffers,
        begun: Instant,
    ) -> Outcome<Page> {
        let views = Arc::clone(&self.views);
        let searching = Searching::begin(&views, Use::Scroll);
        let page = self.page_of((id, task), stop, held, buffers, begun);
        if matches!(page, Ok(Page::Made(..))) {
            searching.end(1);
        }
        page
    }

    fn page_of(
        &mut self,
        (id, task): (&str, &Task),
        stop: &(dyn Fn() -> bool + Sync),
        mut held: Held,
        buffers: &Buffers,
        begun: Instant,
    ) -> Outcome<Page> {
        let begin = |is_scored| {
            let id = Some(("_scroll_id", id));
            let (count, as_int) = (self.count, self.total_as_int);
            head(&self.views, (count, false), as_int, is_scored, id, begun)
        };
        let (mut out, next) = match &self.rest {
            Rest::Places(places) => {
                let hits = places.hits.as_slice();
                if places.is_cut && hits.is_empty() {
                    return Ok(Page::Finds);
                }
                let mut out = begin(self.writer.is_scored() && !hits.is_empty());
                let hits = hits.get(..self.size.min(hits.len())).unwrap_or_default();
                match self.write_places(hits, &mut out, &mut held, buffers)? {
                    Written::Wants(bytes) => return Ok(Page::Wants(bytes)),
                    Written::Hits(count) => (out, Next::Place(count)),
                }
            }
            Rest::Keys { query, next } => {
                let (mut out, mut left, mut next) = (Vec::new(), self.size, next.clone());
                while left > 0
                    && out.len() < PAGE_BYTES_MAX
                    && let Some(of) = self.views.get(next.view)
                {
                    let after = next.after.as_ref();
                    let written = out.capacity();
                    let has_room = |_, bytes| held.has_large(buffers, written, bytes);
                    let page = page_by_key(of, query, after, left, &has_room, stop)?;
                    task.add_scanned(page.scanned());
                    if let Some(bytes) = page.wants.filter(|_| out.is_empty())
                        && page.found.is_empty()
                    {
                        return Ok(Page::Wants(bytes));
                    }
                    if !page.found.is_empty() && out.is_empty() {
                        out = begin(true);
                    } else if !page.found.is_empty() {
                        out.push(b',');
                    }
                    for (at, found) in page.found.iter().enumerate() {
                        if at > 0 {
                            out.push(b',');
                        }
                        self.writer.write(of.collection_name(), 0, found, &mut out);
                    }
                    left -= page.found.len();
                    let (is_last, is_ended) = (page.is_last, page.wants.is_some());
                    if let Some(last) = page.found.into_iter().next_back() {
                        next.after = Some(last.key);
                    }
                    if is_last {
                        next = NextKey {
                            view: next.view + 1,
                            after: None,
                        };
                    }
                    if is_ended {
                        break;
                    }
                }
                if out.is_empty() {
                    out = begin(false);
                }
                (out, Next::Key(next))
            }
        };
        out.extend_from_slice(self.first_tail.as_deref().unwrap_or(b"]}}"));
        out.shrink_to_fit();
        held.resize(out.capacity())?;
        // Whatever failed before, the page is the next one still.
        self.first_tail = None;
        match (&mut self.rest, next) {
            (Rest::Places(places), Next::Place(count)) => {
                places.hits.by_ref().take(count).for_each(drop);
                places.done += count;
            }
            (Rest::Keys { next, .. }, Next::Key(then)) => *next = then,
            _ => {}
        }
        Ok(Page::Made(out, held))
    }

    /// Appends hits, which are the next ones.
    fn write_places(
        &self,
        hits: &[Hit],
        out: &mut Vec<u8>,
        held: &mut Held,
        buffers: &Buffers,
    ) -> Outcome<Written> {
        let (begin, mut rest) = (out.len(), hits);
        while !rest.is_empty() && out.len() < PAGE_BYTES_MAX {
            let is_first = out.len() == begin;
            let some = rest.get(..READ_AT_ONCE).unwrap_or(rest);
            let writer = &self.writer;
            let (count, longer) =
                writer.write_places(&self.views, some, LARGE_BYTES, is_first, out)?;
            let count = match (count, longer) {
                (0, Some(bytes)) => {
                    let written = if is_first { 0 } else { out.capacity() };
                    if held.grow_large(buffers, written, bytes).is_err() {
                        match is_first {
                            true => return Ok(Written::Wants(bytes)),
                            false => break,
                        }
                    }
                    let first = some.get(..1).unwrap_or_default();
                    let (count, _) =
                        writer.write_places(&self.views, first, bytes, is_first, out)?;
                    count
                }
                (count, _) => count,
            };
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(Written::Hits(hits.len() - rest.len()))
    }
}

/// What became of the places of a page.
enum Written {
    /// This many hits are written.
    Hits(usize),
    /// The first is a document of this many bytes, which there is no memory for.
    Wants(u64),
}

/// Where the next page begins.
enum Next {
    /// This many places later.
    Place(usize),
    Key(NextKey),
}

impl Rest {
    fn of_keys(query: Query) -> Outcome<Rest> {
        let query = query.prepare().map_err(|error| failed(error.into()))?;
        Ok(Rest::Keys {
            query: Box::new(query),
            next: NextKey::default(),
        })
    }
}
