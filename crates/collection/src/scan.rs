//! Documents of a partition in key order.

use crate::documents::KEYS;
use crate::fitting::fitting;
use crate::lookup::DocumentLookup;
use crate::record::Row;
use crate::{Found, PartitionView, Result};
use bytes::Bytes;
use quire_lsm::SmallBytes;
use quire_model::{DocId, Key};
use std::collections::VecDeque;
use std::ops::Bound;

/// The number of documents read ahead at a time, at first and at most: batches serve a long scan, a
/// single document serves a scan that stops at once.
const AHEAD_MIN: usize = 8;
const AHEAD_MAX: usize = 256;

/// What is read ahead holds about this number of bytes at most (one document more than that, when
/// documents are large).
const AHEAD_BYTES: usize = 1 << 20;

/// Documents in key order, as of the view it was made from.
pub struct PartitionScan {
    view: PartitionView,
    keys: quire_lsm::Scan,
    ahead: VecDeque<Found>,
    /// Those that did not fit in what was read ahead, in their order.
    rest: VecDeque<(SmallBytes, DocId, Row)>,
    ahead_count: usize,
    failed: bool,
}

impl PartitionView {
    /// Documents in key order, between two bounds.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn scan(&self, from: Bound<&Key>, to: Bound<&Key>) -> Result<PartitionScan> {
        let from = from.map(|key| key.encoded());
        let to = to.map(|key| key.encoded());
        let keys = self
            .store_view()
            .tree(KEYS)?
            .scan(
                from.as_ref().map(AsRef::as_ref),
                to.as_ref().map(AsRef::as_ref),
            )
            .map_err(quire_store::Error::from)?;
        Ok(PartitionScan::new(self.clone(), keys))
    }
}

impl std::fmt::Debug for PartitionScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PartitionScan")
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}

impl PartitionScan {
    pub(crate) fn new(view: PartitionView, keys: quire_lsm::Scan) -> PartitionScan {
        PartitionScan {
            view,
            keys,
            ahead: VecDeque::new(),
            rest: VecDeque::new(),
            ahead_count: AHEAD_MIN,
            failed: false,
        }
    }

    /// The key of the next document, and the bytes of its record: 0 if it is in memory. The record
    /// is not read, so one of many scans may be chosen before it is.
    ///
    /// # Errors
    /// Damage on disk, by file and offset. The scan has ended then.
    pub fn peek(&mut self) -> Result<Option<(Key, u64)>> {
        if let Some(found) = self.ahead.front() {
            return Ok(Some((found.key.clone(), 0)));
        }
        self.or_end(|scan| {
            scan.fill_rows()?;
            let first = scan.rest.front();
            first
                .map(|(encoded, _, row)| Ok((Key::decode(encoded)?, row.bytes.into())))
                .transpose()
        })
    }

    /// What `read` returns; after an error the scan has ended.
    fn or_end<T: Default>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.failed {
            return Ok(T::default());
        }
        let done = read(self);
        self.failed = done.is_err();
        done
    }

    /// Has the rows of the next documents, if there is one.
    fn fill_rows(&mut self) -> Result<()> {
        let mut is_end = false;
        let lookup = self.view.lookup()?;
        // All of the next keys may be of documents that were deleted or have expired.
        while self.rest.is_empty() && !is_end {
            let keys = self.keys.by_ref().take(self.ahead_count);
            let seen = next_rows(&lookup, keys, &mut self.rest)?;
            is_end = seen < self.ahead_count;
        }
        Ok(())
    }

    /// Reads the next documents.
    fn fill(&mut self) -> Result<()> {
        self.fill_rows()?;
        let lookup = self.view.lookup()?;
        let lengths = self.rest.iter().map(|(.., row)| row.bytes);
        let count = fitting(lengths, AHEAD_BYTES as u64);
        let found: Vec<_> = self.rest.drain(..count).collect();
        let versions: Vec<_> = found.iter().map(|(.., row)| row.position).collect();
        let records = lookup.records(&versions)?;
        let bytes: usize = records.iter().map(Bytes::len).sum();
        for ((encoded, docid, row), record) in found.iter().zip(records) {
            let key = Key::decode(encoded)?;
            self.ahead
                .push_back(lookup.found(key, *docid, row.position, &record)?);
        }
        self.ahead_count = match bytes {
            0..AHEAD_BYTES => (self.ahead_count * 2).min(AHEAD_MAX),
            _ => (self.ahead_count / 2).max(1),
        };
        Ok(())
    }
}

/// Appends the documents of the next keys, with their rows. Returns the number of keys.
fn next_rows(
    lookup: &DocumentLookup<'_>,
    keys: impl Iterator<Item = quire_lsm::Result<(SmallBytes, SmallBytes)>>,
    found: &mut VecDeque<(SmallBytes, DocId, Row)>,
) -> Result<usize> {
    let (mut encoded, mut docids) = (Vec::new(), Vec::new());
    let mut seen = 0;
    for item in keys {
        let (key, value) = item.map_err(quire_store::Error::from)?;
        seen += 1;
        if let Some(docid) = lookup.docid(&value)? {
            docids.push(docid);
            encoded.push(key);
        }
    }
    let rows = lookup.rows(&docids)?;
    let all = encoded.into_iter().zip(docids).zip(rows);
    let there = all.filter(|(_, row)| !lookup.has_expired(*row));
    found.extend(there.map(|((key, docid), row)| (key, docid, row)));
    Ok(seen)
}

impl Iterator for PartitionScan {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Result<Found>> {
        if self.ahead.is_empty()
            && let Err(error) = self.or_end(Self::fill)
        {
            return Some(Err(error));
        }
        self.ahead.pop_front().map(Ok)
    }
}
