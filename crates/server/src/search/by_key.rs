//! Documents that match, in the order of their keys, from a key on: each page is found where the
//! one before ended, so all pages together cost one scan, however many there are.

use quiredb::query::Prepared;
use quiredb::{Found, Key, View};
use std::ops::Bound;

use super::execute::failed;
use crate::http::failure::Outcome;
use crate::tasks::task::Scanned;

/// The most bytes of the documents of a page, if they are more than one.
pub(crate) const PAGE_BYTES_MAX: usize = 8 << 20;

/// How often a search checks whether its caller still waits.
const CHECK_EVERY: u64 = 1024;

/// Documents that match, in the order of their keys.
pub(crate) struct PageByKey {
    pub(crate) found: Vec<Found>,
    /// These are the last.
    pub(crate) is_last: bool,
    /// The bytes of the next record, if the page ends before it for want of memory.
    pub(crate) wants: Option<u64>,
    /// Documents that were read for it.
    pub(crate) read: u64,
}

impl PageByKey {
    /// What was read for it.
    pub(crate) fn scanned(&self) -> Scanned {
        Scanned {
            read: self.read,
            matched: self.found.len() as u64,
        }
    }
}

/// The first `size` documents after a key that match, or fewer: those that fit in
/// [`PAGE_BYTES_MAX`], or a larger one alone. The page ends
/// before a record that `has_room` refuses, given the bytes of the page so far and those
/// of the record.
///
/// # Errors
/// Of damage; and if the caller no longer waits.
pub(crate) fn page_by_key(
    view: &View,
    query: &Prepared,
    after: Option<&Key>,
    size: usize,
    has_room: &dyn Fn(usize, u64) -> bool,
    stop: &(dyn Fn() -> bool + Sync),
) -> Outcome<PageByKey> {
    let from = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone()));
    let mut page = PageByKey {
        found: Vec::new(),
        is_last: false,
        wants: None,
        read: 0,
    };
    let seen = view.seen_by(query).map_err(failed)?;
    let mut bytes = 0;
    let range = (from, Bound::Unbounded);
    let mut scan = view.scan(range).map_err(failed)?;
    for read in 1_u64.. {
        if page.found.len() == size || bytes >= PAGE_BYTES_MAX {
            return Ok(page);
        }
        if read.is_multiple_of(CHECK_EVERY) && stop() {
            let stopped = quiredb::query::Error::Stopped;
            return Err(failed(quiredb::Error::Query(stopped)));
        }
        let next_bytes = scan.next_record_bytes();
        if !has_room(bytes, next_bytes) {
            page.wants = Some(next_bytes);
            return Ok(page);
        }
        let Some(found) = scan.next() else {
            break;
        };
        let found = found.map_err(failed)?;
        page.read = read;
        let is_match = query.accepts(&*seen.document(&found).map_err(failed)?);
        if is_match {
            let length = found.document.as_bytes().len();
            // One that does not fit begins the next page.
            if bytes + length > PAGE_BYTES_MAX && !page.found.is_empty() {
                return Ok(page);
            }
            bytes += length;
            page.found.push(found);
        }
    }
    page.is_last = true;
    Ok(page)
}
