//! Documents that are found before they are read: those of wide and frozen collections, which are
//! not in the order of their keys, and those that are copied in an order of their own.
//!
//! # Invariants
//! 1. Without an order, at most [`PLACES_MAX`] places are known at a time; those after them are
//!    found when these are done. With one, all are found at once, within the memory of a search.

use quiredb::query::{Hit, Query};
use quiredb::wide::WideCollection;
use quiredb::{View, Within};

use crate::http::buffers::{Buffers, Held, LARGE_BYTES};
use crate::http::failure::Outcome;
use crate::search::by_key::{PAGE_BYTES_MAX, PageByKey};
use crate::search::execute::{failed, options};

/// The most places that are known at a time: 2 MiB of them.
const PLACES_MAX: u64 = 1 << 18;

/// Documents that are read at a time.
const READ_AT_ONCE: usize = 64;

/// See the module.
pub(super) struct Places {
    pub(super) views: Vec<View>,
    query: Query,
    /// The most documents.
    most: u64,
    /// Those that were found until now.
    found: u64,
    /// Those that are not done yet.
    next: std::vec::IntoIter<Hit>,
    /// No more are to be found.
    is_whole: bool,
    /// The wide collection whose rows are changed in place: no cell of them is read.
    pub(super) of: Option<WideCollection>,
    /// The memory of the places.
    held: Held,
}

impl Places {
    /// The first `most` documents of `views` that match a query, in its order.
    ///
    /// # Errors
    /// 429 if there is no memory for the places.
    pub(super) fn new(
        views: Vec<View>,
        query: Query,
        most: u64,
        of: Option<WideCollection>,
        buffers: &Buffers,
    ) -> Outcome<Places> {
        Ok(Places {
            views,
            query,
            most,
            found: 0,
            next: Vec::new().into_iter(),
            is_whole: false,
            of,
            held: buffers.hold_now(PLACES_MAX as usize * size_of::<Hit>())?,
        })
    }

    /// The next `size` documents, or fewer, as
    /// [`page_by_key`](crate::search::by_key::page_by_key) gives them. Those that it gives are
    /// done. Blocks.
    pub(super) fn page(
        &mut self,
        size: usize,
        has_room: &dyn Fn(usize, u64) -> bool,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Outcome<PageByKey> {
        if self.next.as_slice().is_empty() && !self.is_whole {
            self.find(stop)?;
        }
        let mut page = PageByKey {
            found: Vec::new(),
            is_last: false,
            wants: None,
            read: 0,
        };
        let mut bytes = 0;
        let within = match &self.of {
            Some(_) => View::heads_within,
            None => View::documents_within,
        };
        while page.found.len() < size && bytes < PAGE_BYTES_MAX {
            let some = READ_AT_ONCE.min(size - page.found.len());
            let hits = self.next.as_slice();
            let hits = hits.get(..some).unwrap_or(hits);
            if hits.is_empty() {
                break;
            }
            let mut read = within(&self.views, hits, LARGE_BYTES);
            if let Ok(found) = &read
                && let Some(Within::Longer(record)) = found.first()
            {
                let record = *record;
                let is_full = bytes + record as usize > PAGE_BYTES_MAX && bytes > 0;
                if is_full || !has_room(bytes, record) {
                    page.wants = Some(record).filter(|_| !is_full);
                    return Ok(page);
                }
                let first = hits.get(..1).unwrap_or_default();
                read = within(&self.views, first, record);
            }
            let mut count = 0;
            for found in read.map_err(failed)? {
                match found {
                    Within::Found(found) => {
                        bytes += found.document.as_bytes().len();
                        page.found.push(found);
                    }
                    Within::Absent => {}
                    Within::Longer(_) => break,
                }
                count += 1;
            }
            page.read += count as u64;
            self.next.by_ref().take(count).for_each(drop);
        }
        page.is_last = self.next.as_slice().is_empty() && self.is_whole;
        Ok(page)
    }

    /// Finds the next places.
    fn find(&mut self, stop: &(dyn Fn() -> bool + Sync)) -> Outcome<()> {
        let left = self.most - self.found;
        let limit = match self.query.order.is_empty() {
            true => left.min(PLACES_MAX),
            false => left,
        };
        let query = Query {
            skip: self.found,
            limit: Some(limit).filter(|limit| *limit < u64::MAX),
            ..self.query.clone()
        };
        let query = query.prepare().map_err(|error| failed(error.into()))?;
        let answer = View::query_all(&self.views, &query, &options(stop)).map_err(failed)?;
        let count = answer.hits.len() as u64;
        self.found += count;
        self.is_whole = count < limit || self.found == self.most;
        let bytes = answer.hits.capacity() * size_of::<Hit>();
        // Others get what is not needed any more, since this may be done slowly.
        if self.is_whole || bytes > self.held.bytes() {
            self.held.resize(bytes)?;
        }
        self.next = answer.hits.into_iter();
        Ok(())
    }
}
