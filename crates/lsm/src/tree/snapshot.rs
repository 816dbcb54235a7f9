//! Snapshot: a tree as it was at a position, to keep or for a few lookups.

use super::scan::{Scan, Seen};
use super::version::Version;
use crate::deadline::Clock;
use crate::entry::{Entry, Visit};
use crate::fold::{Folder, Found, ValueParts};
use crate::merger::Merger;
use crate::table;
use crate::{Result, SmallBytes};
use quire_model::Position;
use quire_sync::Guard;
use smallvec::SmallVec;
use std::cell::OnceCell;
use std::ops::Bound;
use std::sync::Arc;

/// This many keys of a batch are announced together: enough to keep a disk busy, and little to
/// hold.
const ANNOUNCED: usize = 64;

/// A tree as it was at a position: later writes, flushes and compactions do not show. Holds memory
/// and files until it is dropped. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TreeSnapshot {
    version: Arc<Version>,
    at: Position,
    /// By the wall clock, when it was taken: values whose deadline is later are there.
    now: u64,
}

impl TreeSnapshot {
    pub(super) fn new(version: Arc<Version>, at: Position, now: u64) -> TreeSnapshot {
        TreeSnapshot { version, at, now }
    }

    /// The position it shows.
    pub fn position(&self) -> Position {
        self.at
    }

    /// The newest write that this opening of the tree had put into a run when the snapshot was
    /// taken; `Position(0)` if none. If it is past [`position`](Self::position), the snapshot came
    /// too late to show its position alone.
    pub fn flushed(&self) -> Position {
        self.version.flushed
    }

    /// Bytes of the memtables that snapshots alone hold still: what is in them has been flushed.
    pub fn held_bytes(&self) -> u64 {
        let held = self.version.memtables().filter(|one| one.is_flushed());
        held.map(|memtable| memtable.bytes()).sum()
    }

    /// The snapshot, for lookups.
    pub fn reader(&self) -> TreeReader<'_> {
        TreeReader {
            version: Held::OfSnapshot(&self.version),
            folder: &self.version.folder,
            at: self.at,
            clock: Clock::Stopped(self.now),
        }
    }

    /// The value of `key`: see [`TreeReader::get`].
    ///
    /// # Errors
    /// `Corrupt`, `Merge`, or those of the machine.
    pub fn get(&self, key: &[u8]) -> Result<Option<SmallBytes>> {
        self.reader().get(key)
    }

    /// The values of `keys`, in their order: see [`TreeReader::get_many`].
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<SmallBytes>>> {
        self.reader().get_many(keys)
    }

    /// The value of `key` as an accumulator: see [`TreeReader::get_folded`].
    ///
    /// # Errors
    /// As of [`TreeReader::get_folded`].
    pub fn get_folded<M: Merger>(&self, key: &[u8]) -> Result<Option<M::Accumulator>> {
        self.reader().get_folded::<M>(key)
    }

    /// The value of `key` and its operands as they are kept: see [`TreeReader::get_parts`].
    ///
    /// # Errors
    /// As of [`TreeReader::get_parts`].
    pub fn get_parts(&self, key: &[u8]) -> Result<Option<ValueParts>> {
        self.reader().get_parts(key)
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            version: &self.version,
            at: self.at,
            now: self.now,
        }
    }

    /// The entries from `from` to `to`, in key order. The scan holds what the snapshot holds, on
    /// its own.
    ///
    /// # Errors
    /// `Corrupt`, or those of the machine.
    pub fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Scan> {
        Scan::ascending(self.seen(), from, to)
    }

    /// The entries of [`scan`](Self::scan), last first. Of a run it costs about as much as
    /// forwards, of a memtable a search for each key.
    ///
    /// # Errors
    /// As for [`scan`](Self::scan).
    pub fn scan_back(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Scan> {
        Scan::descending(self.seen(), from, to)
    }
}

/// A tree as it was at a position, for lookups that are over soon: making one changes no count that
/// threads share. A thread that keeps more than a few makes the next ones dearer.
#[derive(Debug)]
pub struct TreeReader<'a> {
    version: Held<'a>,
    folder: &'a Folder,
    at: Position,
    clock: Clock<'a>,
}

/// What keeps a version.
#[derive(Debug)]
enum Held<'a> {
    Current(Guard<Arc<Version>>),
    OfSnapshot(&'a Version),
}

impl<'a> TreeReader<'a> {
    pub(super) fn new(
        version: Guard<Arc<Version>>,
        folder: &'a Folder,
        at: Position,
        clock: Clock<'a>,
    ) -> TreeReader<'a> {
        let version = Held::Current(version);
        TreeReader {
            version,
            folder,
            at,
            clock,
        }
    }

    fn version(&self) -> &Version {
        match &self.version {
            Held::Current(version) => version,
            Held::OfSnapshot(version) => version,
        }
    }

    /// As of [`TreeSnapshot::flushed`].
    pub fn flushed(&self) -> Position {
        self.version().flushed
    }

    /// The value of `key`. A long one shares memory with the block or memtable entry it is from:
    /// copy it to keep it for long.
    ///
    /// # Errors
    /// `Corrupt`, `Merge`, or those of the machine.
    pub fn get(&self, key: &[u8]) -> Result<Option<SmallBytes>> {
        let entry = self.entry(key, &mut Visit::default())?;
        Ok(entry.and_then(|entry| entry.into_value(|| self.clock.micros())))
    }

    /// What `look` makes of the value of `key`, where it lies if it can be looked at there: without
    /// a copy.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn visit<T>(&self, key: &[u8], look: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let (mut look, mut seen) = (Some(look), None);
        let mut take = |value: &[u8]| seen = look.take().map(|look| look(value));
        let mut visit = Visit::by(&mut take);
        let entry = self.entry(key, &mut visit)?;
        if !visit.is_done
            && let Some(value) = entry.and_then(|entry| entry.into_value(|| self.clock.micros()))
        {
            take(&value);
        }
        Ok(seen)
    }

    /// The value of `key`, also past its deadline, and the deadline if it has one, in microseconds
    /// since 1970 UTC.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn get_with_deadline(&self, key: &[u8]) -> Result<Option<(SmallBytes, Option<u64>)>> {
        let entry = self.entry(key, &mut Visit::default())?;
        Ok(entry.and_then(Entry::into_value_and_deadline))
    }

    fn entry(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<Option<Entry>> {
        let found = self.find(key, visit)?;
        found.into_entry(self.folder, key)
    }

    #[inline]
    fn find(&self, key: &[u8], visit: &mut Visit<'_>) -> Result<Found> {
        self.version().find(key, table::hash(key), self.at, visit)
    }

    /// The value of `key` as the accumulator of the tree's merger, which is an `M`: a stored value
    /// begun from where it lies, and the operands above it added. Nothing is serialised.
    ///
    /// # Errors
    /// `InvalidArgument` if the tree has no merger, or one of another type; else as for
    /// [`get`](Self::get).
    pub fn get_folded<M: Merger>(&self, key: &[u8]) -> Result<Option<M::Accumulator>> {
        let merger = self.folder.typed_merger::<M>()?;
        let mut stored = None;
        let mut begin = |value: &[u8]| stored = Some(merger.begin(key, Some(value)));
        let found = self.find(key, &mut Visit::by(&mut begin))?;
        match stored {
            Some(begun) => begun.map(Some).map_err(|why| self.folder.refused(why)),
            None => found.into_accumulator(self.folder, merger, key, || self.clock.micros()),
        }
    }

    /// The value of `key` and the operands above it, not folded: long ones share memory with the
    /// block or memtable entry they are from. For values of which a reader needs only a part.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn get_parts(&self, key: &[u8]) -> Result<Option<ValueParts>> {
        let found = self.find(key, &mut Visit::default())?;
        Ok(found.into_parts(|| self.clock.micros()))
    }

    /// The values of `keys`, in their order. Looked up in key order, so that neighbours find their
    /// blocks in the cache; what the system does not hold is read for many of them together.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<SmallBytes>>> {
        let version = self.version();
        let hashes: SmallVec<[u64; 32]> = keys.iter().map(|key| table::hash(key)).collect();
        for memtable in version.memtables() {
            memtable.prefetch(&hashes);
        }
        let mut order: SmallVec<[_; 32]> = keys.iter().zip(hashes).enumerate().collect();
        order.sort_unstable_by_key(|(_, (key, _))| **key);
        let mut values = vec![None; keys.len()];
        let now = OnceCell::new();
        for part in order.chunks(ANNOUNCED) {
            if part.len() > 1 {
                version.announce(part.iter().map(|&(_, (key, hash))| (*key, hash)));
            }
            for &(index, (key, hash)) in part {
                if let Some(slot) = values.get_mut(index) {
                    let found = version.find(key, hash, self.at, &mut Visit::default())?;
                    let entry = found.into_entry(self.folder, key)?;
                    let now = || *now.get_or_init(|| self.clock.micros());
                    *slot = entry.and_then(|entry| entry.into_value(now));
                }
            }
        }
        Ok(values)
    }
}
