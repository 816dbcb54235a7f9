//! Documents of a partition in the order of their docids.
//!
//! That is the order in which they were first written. Where few were changed since, it is that of
//! the log, so a scan reads the disk nearly in order, however little of it is in memory; in the
//! order of keys it would not.

use crate::documents::{ROWS, parse_docid, parse_row};
use crate::fitting::fitting;
use crate::record::Row;
use crate::{Error, Found, PartitionView, Result};
use quire_model::{DocId, Position};
use std::collections::VecDeque;
use std::ops::Bound;

/// The number of documents read at a time, at first and at most.
const BATCH_MIN: usize = 32;
const BATCH_MAX: usize = 1024;

/// A batch holds about this number of bytes at most (one document more than that, when documents
/// are large).
const BATCH_BYTES: usize = 1 << 20;

/// Documents in the order of their docids, as of the view they are of.
pub struct Rows {
    view: PartitionView,
    rows: quire_lsm::Scan,
    /// Those that did not fit in the last batch, in their order.
    rest: VecDeque<(DocId, Row)>,
    batch: usize,
}

impl PartitionView {
    /// All documents in the order of their docids.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn rows(&self) -> Result<Rows> {
        let rows = self
            .store_view()
            .tree(ROWS)?
            .scan(Bound::Unbounded, Bound::Unbounded);
        Ok(Rows::new(
            self.clone(),
            rows.map_err(quire_store::Error::from)?,
        ))
    }
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows")
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}

impl Rows {
    pub(crate) fn new(view: PartitionView, rows: quire_lsm::Scan) -> Rows {
        Rows {
            view,
            rows,
            rest: VecDeque::new(),
            batch: BATCH_MIN,
        }
    }

    /// The next documents; none at the end.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn next_batch(&mut self) -> Result<Vec<(DocId, Found)>> {
        let lookup = self.view.lookup()?;
        if self.rest.is_empty() {
            for item in self.rows.by_ref().take(self.batch) {
                let (key, row) = item.map_err(quire_store::Error::from)?;
                let row = parse_docid(&key).zip(parse_row(&row));
                self.rest.push_back(row.ok_or_else(|| Error::Corrupt {
                    partition: self.view.number(),
                    position: self.view.position(),
                    what: "a row that is none in the rows tree".to_string(),
                })?);
            }
        }
        let lengths = self.rest.iter().map(|(_, row)| row.bytes);
        let count = fitting(lengths, BATCH_BYTES as u64);
        let rows: Vec<(DocId, Row)> = self.rest.drain(..count).collect();
        let versions: Vec<Position> = rows.iter().map(|(_, row)| row.position).collect();
        let records = lookup.records(&versions)?;
        let bytes: usize = records.iter().map(bytes::Bytes::len).sum();
        self.batch = match bytes {
            0..BATCH_BYTES => (self.batch * 2).min(BATCH_MAX),
            _ => (self.batch / 2).max(1),
        };
        let found = rows.into_iter().zip(&records);
        found
            .map(|((docid, row), record)| {
                Ok((docid, lookup.found_by_docid(docid, row.position, record)?))
            })
            .collect()
    }
}
