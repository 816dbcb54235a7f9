//! Batch: changes that are written together.

use crate::Result;
use crate::range::{KeyRange, ends};
use crate::record::{Change, VALUE_BYTES_MAX, check_length, micros, timed};
use quire_log::RECORD_BYTES_MAX;
use quire_lsm::{DEADLINE_BYTES, Op};
use std::borrow::Cow;
use std::time::Duration;

/// Changes that are written together: readers see all of them or none, and so does a crash. Up to
/// 64 MiB.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    record: Vec<u8>,
    /// Where in it there is for how long a value lives, in the place of a deadline.
    lives: Vec<usize>,
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
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(Change::new(key.as_ref(), Op::Put(value.as_ref()))?)
    }

    /// Sets `key` to `value` for a time, which begins when the batch is written: as
    /// [`Kv::put_for`](crate::Kv::put_for).
    ///
    /// # Errors
    /// As of [`put`](Batch::put).
    pub fn put_for(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<()> {
        let value = value.as_ref();
        check_length("value", VALUE_BYTES_MAX, value.len())?;
        let timed = timed(micros(time), value);
        self.add(Change::new(key.as_ref(), Op::PutUntil(&timed))?)?;
        self.lives.push(self.record.len() - timed.len());
        Ok(())
    }

    /// Removes `key`, if it is there.
    ///
    /// # Errors
    /// As of [`put`](Batch::put).
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(Change::new(key.as_ref(), Op::Delete)?)
    }

    /// Changes the value of `key` by an operand of the [`Merger`](crate::Merger) that the keys and
    /// values were opened with.
    ///
    /// # Errors
    /// As of [`put`](Batch::put).
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.add(Change::new(key.as_ref(), Op::Merge(operand.as_ref()))?)?;
        self.merges = true;
        Ok(())
    }

    /// Removes the keys of a range, as [`Kv::delete_range`](crate::Kv::delete_range).
    ///
    /// # Errors
    /// `TooLarge`; the batch is then as it was.
    pub fn delete_range(&mut self, range: impl KeyRange) -> Result<()> {
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
        self.lives.clear();
        self.count = 0;
        self.merges = false;
    }

    /// Its record in the log if it is written at `now`, which is read only if a value lives for a
    /// time.
    pub(crate) fn record(&self, now: impl FnOnce() -> u64) -> Cow<'_, [u8]> {
        if self.lives.is_empty() {
            return Cow::Borrowed(&self.record);
        }
        let (mut record, now) = (self.record.clone(), now());
        debug_assert!(
            self.lives
                .iter()
                .all(|at| at + DEADLINE_BYTES <= record.len()),
            "each deadline is in the record"
        );
        for at in &self.lives {
            let time = record.get_mut(*at..);
            if let Some(time) = time.and_then(|rest| rest.first_chunk_mut::<DEADLINE_BYTES>()) {
                *time = now.saturating_add(u64::from_le_bytes(*time)).to_le_bytes();
            }
        }
        Cow::Owned(record)
    }

    pub(crate) fn merges(&self) -> bool {
        self.merges
    }
}
