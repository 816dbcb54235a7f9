//! Batch: changes that are written together.

use crate::Result;
use crate::record::{Change, check_length, ends};
use quire_log::RECORD_BYTES_MAX;
use quire_lsm::Op;
use std::ops::RangeBounds;

/// Changes that are written together: readers see all of them or none, and so does a crash. Up to 64 MiB.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    record: Vec<u8>,
    count: usize,
    merges: bool,
}

impl Batch {
    /// No change yet.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `Invalid` for an empty key, `TooLarge`; the batch is then as it was.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(Change::new(key, Op::Put(value))?)
    }

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// As of [`put`](Batch::put).
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.add(Change::new(key, Op::Delete)?)
    }

    /// Changes the value of `key` by an operand of the [`Merger`](crate::Merger) that the keys and values were opened with.
    ///
    /// # Errors
    /// As of [`put`](Batch::put).
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.add(Change::new(key, Op::Merge(operand))?)?;
        self.merges = true;
        Ok(())
    }

    /// Removes the keys of a range, as [`Kv::delete_range`](crate::Kv::delete_range).
    ///
    /// # Errors
    /// `TooLarge`; the batch is then as it was.
    pub fn delete_range<'k>(&mut self, range: impl RangeBounds<&'k [u8]>) -> Result<()> {
        match ends(&range)? {
            Some((from, to)) => self.add(Change::new(&from, Op::DeleteRange(&to))?),
            None => Ok(()),
        }
    }

    fn add(&mut self, change: Change<'_>) -> Result<()> {
        let bytes = self.record.len() + change.encoded_bytes_max();
        check_length("batch", RECORD_BYTES_MAX, bytes)?;
        self.record.reserve(change.encoded_bytes_max());
        change.encode(&mut self.record);
        self.count += 1;
        Ok(())
    }

    /// How many changes it holds.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Removes all changes; the memory is kept for the next ones.
    pub fn clear(&mut self) {
        self.record.clear();
        self.count = 0;
        self.merges = false;
    }

    pub(crate) fn record(&self) -> &[u8] {
        &self.record
    }

    pub(crate) fn merges(&self) -> bool {
        self.merges
    }
}
