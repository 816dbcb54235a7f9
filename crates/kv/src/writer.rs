//! Writing: the options of a write, and the writes themselves.

use crate::merging::with_merges;
use crate::opening::Opening;
use crate::range::{KeyRange, ends};
use crate::record::{Change, Record, VALUE_BYTES_MAX, check_length, micros, timed};
use crate::{Batch, Durability, Error, Result};
use quire_lsm::Op;
use quire_model::Position;
use std::time::Duration;

/// How a write is done. The default is what the keys and values were opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "options do nothing by themselves: see Kv::with"]
pub struct WriteOptions {
    durability: Option<Durability>,
}

impl WriteOptions {
    /// The default.
    pub fn new() -> WriteOptions {
        WriteOptions::default()
    }

    /// When the write is acknowledged, in place of
    /// [`KvOptions::durability`](crate::KvOptions::durability).
    pub fn durability(mut self, durability: Durability) -> WriteOptions {
        self.durability = Some(durability);
        self
    }
}

/// Writes with options: see [`Kv::with`](crate::Kv::with).
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    opening: &'a Opening,
    durability: Durability,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(opening: &'a Opening, options: WriteOptions) -> Writer<'a> {
        Writer {
            opening,
            durability: options.durability.unwrap_or(opening.durability),
        }
    }

    /// As [`Kv::put`](crate::Kv::put).
    ///
    /// # Errors
    /// As of [`Kv::put`](crate::Kv::put).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.change(Change::new(key.as_ref(), Op::Put(value.as_ref()))?)
    }

    /// As [`Kv::put_for`](crate::Kv::put_for).
    ///
    /// # Errors
    /// As of [`Kv::put`](crate::Kv::put).
    pub fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: Duration,
    ) -> Result<()> {
        let value = value.as_ref();
        check_length("value", VALUE_BYTES_MAX, value.len())?;
        let timed = timed(self.opening.now().saturating_add(micros(time)), value);
        self.change(Change::new(key.as_ref(), Op::PutUntil(&timed))?)
    }

    /// As [`Kv::delete`](crate::Kv::delete).
    ///
    /// # Errors
    /// As of [`Kv::put`](crate::Kv::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.change(Change::new(key.as_ref(), Op::Delete)?)
    }

    /// As [`Kv::delete_range`](crate::Kv::delete_range).
    ///
    /// # Errors
    /// As of [`Kv::delete_range`](crate::Kv::delete_range).
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        match ends(&range)? {
            Some((from, to)) => self.change(Change::new(&from, Op::DeleteRange(&to))?),
            None => Ok(()),
        }
    }

    /// As [`Kv::merge`](crate::Kv::merge).
    ///
    /// # Errors
    /// As of [`Kv::merge`](crate::Kv::merge).
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = Batch::new();
        batch.merge(key, operand)?;
        self.write(&batch)
    }

    /// As [`Kv::write`](crate::Kv::write).
    ///
    /// # Errors
    /// As of [`Kv::merge`](crate::Kv::merge).
    pub fn write(&self, batch: &Batch) -> Result<()> {
        let store = &self.opening.store;
        let position = match () {
            () if batch.is_empty() => return Ok(()),
            () if batch.merges() => self.write_merges(batch)?,
            () => store.append_unsynced(&[&batch.record(|| self.opening.now())])?,
        };
        Ok(store.acknowledge(position, self.durability)?)
    }

    fn change(&self, change: Change<'_>) -> Result<()> {
        let mut record = Record::new();
        record.reserve(change.encoded_bytes_max());
        change.encode(&mut record);
        debug_assert!(
            record.len() <= change.encoded_bytes_max(),
            "a change is no longer than was reserved for it"
        );
        let store = &self.opening.store;
        let position = store.append_unsynced(&[&record])?;
        Ok(store.acknowledge(position, self.durability)?)
    }

    fn write_merges(&self, batch: &Batch) -> Result<Position> {
        let Some(merger) = &self.opening.merger else {
            let what = "a merge, and no merger was given at the opening";
            return Err(Error::Invalid(what.into()));
        };
        let ((), position) = self.opening.store.write_unsynced(|transaction| {
            let now = self.opening.now();
            let record = with_merges(&**merger, &batch.record(|| now), transaction, now)?;
            transaction.append(record);
            Ok::<_, Error>(())
        })?;
        Ok(position)
    }
}
