//! Memtable: what was written last, in memory, with every version.
//!
//! One writer at a time; any number of readers, who take no lock and see each write whole or not at all. A write's
//! bytes are counted as they are allocated and charged to the budget in steps of [`CHARGE_STEP`]; the charge is given
//! back when the last snapshot drops the memtable.
//!
//! An operand over an entry of the same memtable is folded into it when written, so a key has at most one entry here
//! at any position. The older versions stay, for snapshots at older positions.
//!
//! Keys are found one by one through a hash index, in order through a skip list.

mod hash_index;
mod pages;
mod skiplist;

use crate::direction::{Direction, Start};
use crate::fold::{Entry, Folder};
use crate::{Error, Op, Result, table};
use hash_index::HashIndex;
use parking_lot::Mutex;
use quire_env::{Budget, Charge};
use quire_model::Position;
use skiplist::{Growth, SkipList};
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys looked up side by side: as many as there may be misses under way.
const TOUCHED_AT_ONCE: usize = 16;

/// Bytes charged to the budget at once.
const CHARGE_STEP: u64 = 64 << 10;

pub(crate) struct Memtable {
    list: SkipList,
    index: HashIndex,
    bytes: AtomicU64,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    growth: Growth,
    charge: Charge,
    newest: Position,
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable")
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

impl Memtable {
    /// An empty memtable, for writes at `after` and later.
    pub(crate) fn new(budget: &Arc<Budget>, after: Position) -> Memtable {
        Memtable {
            list: SkipList::new(),
            index: HashIndex::new(),
            bytes: AtomicU64::new(0),
            writer: Mutex::new(Writer {
                growth: Growth::new(),
                charge: budget.charge(0),
                newest: after,
            }),
        }
    }

    /// Writes `op` to `key` at `position`; on an error nothing is written. The caller has checked the lengths.
    ///
    /// # Errors
    /// `InvalidArgument` for a position before the newest one written, or those of the fold.
    pub(crate) fn write(
        &self,
        folder: &Folder,
        key: &[u8],
        position: Position,
        op: Op<'_>,
    ) -> Result<()> {
        let mut writer = self.writer.lock();
        if position < writer.newest {
            return Err(Error::InvalidArgument(format!(
                "tree {}: a write at position {position} after one at {}",
                folder.tree, writer.newest
            )));
        }
        let hash = table::hash(key);
        let known = self.find(key, hash);
        let (node, mut grown) =
            self.list
                .upsert(&mut writer.growth, key, known, position, |before| {
                    folder.write(key, before, op)
                })?;
        if known.is_none() {
            grown += self.index.insert(hash, node, writer.growth.nodes());
        }
        writer.newest = position;
        let bytes = self.bytes.fetch_add(grown, Ordering::Relaxed) + grown;
        if bytes > writer.charge.bytes() {
            writer.charge.resize(bytes.next_multiple_of(CHARGE_STEP));
        }
        Ok(())
    }

    /// The position of the newest write, or of the newest before this memtable.
    pub(crate) fn newest(&self) -> Position {
        self.writer.lock().newest
    }

    /// Bytes of memory held, allocations and their overhead included.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// True if nothing was ever written.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// What it says of `key`, whose hash is `hash`, at `at`.
    pub(crate) fn get(&self, key: &[u8], hash: u64, at: Position) -> Option<&Entry> {
        self.list.visible(self.find(key, hash)?, at)
    }

    /// Reads what finding the keys of these hashes will read, so that it lies in the processor's caches by then. Of one
    /// key each step waits for the memory that the step before named; here the same step of many keys waits at once
    /// ("group prefetching": Chen, Ailamaki, Gibbons, Mowry 2004).
    pub(crate) fn touch(&self, hashes: &[u64]) {
        let mut numbers = [0; TOUCHED_AT_ONCE];
        for hashes in hashes.chunks(TOUCHED_AT_ONCE) {
            self.index.guess(hashes, &mut numbers);
            for number in &mut numbers {
                *number = self.list.latest(*number);
            }
            for number in numbers {
                black_box(self.list.position(number));
            }
        }
    }

    fn find(&self, key: &[u8], hash: u64) -> Option<u32> {
        self.index
            .find(hash, |node| self.list.key(node) == Some(key))
    }

    /// A cursor over what is visible at `at`, on the key where `start` says, to go on from there.
    pub(crate) fn cursor(self: &Arc<Self>, at: Position, start: Start<'_>) -> MemtableCursor {
        let mut cursor = MemtableCursor {
            memtable: Arc::clone(self),
            at,
            direction: start.direction(),
            node: match start {
                Start::From(key) => self.list.seek(key),
                Start::Before(key) => self.list.before(key),
                Start::Last => self.list.last(),
            },
        };
        cursor.skip_invisible();
        cursor
    }
}

/// Goes through the keys of a memtable in order, or in the reverse order, as visible at one position.
#[derive(Debug)]
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    at: Position,
    direction: Direction,
    node: u32,
}

impl MemtableCursor {
    /// The key it is on, or `None` past the end.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.memtable.list.key(self.node)
    }

    /// What is visible of that key.
    pub(crate) fn entry(&self) -> Option<&Entry> {
        self.memtable.list.visible(self.node, self.at)
    }

    /// Moves on to the visible key that comes next on its way.
    pub(crate) fn advance(&mut self) {
        self.node = self.neighbour();
        self.skip_invisible();
    }

    /// The node next to it on its way. Links lead forward only: what is before a key is searched for.
    fn neighbour(&self) -> u32 {
        let list = &self.memtable.list;
        match (self.direction, list.key(self.node)) {
            (Direction::Forwards, _) => list.after(self.node),
            (Direction::Backwards, Some(key)) => list.before(key),
            (Direction::Backwards, None) => skiplist::END,
        }
    }

    fn skip_invisible(&mut self) {
        while self.node != skiplist::END && self.entry().is_none() {
            self.node = self.neighbour();
        }
    }
}

#[cfg(test)]
mod tests;
