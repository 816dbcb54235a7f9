//! Memtable: what was written last, in memory, with every version.
//!
//! One writer at a time; any number of readers, who take no lock and see each write whole or not at
//! all. A write's bytes are counted as they are allocated and charged to the budget in steps of
//! [`CHARGE_STEP`]; the charge is given back when the last snapshot drops the memtable.
//!
//! At any position a key has a value or a tombstone here, or a few operands.
//!
//! # Operands
//! An operand over a value or tombstone of the same memtable is folded into it when written. One
//! over an operand is put above it: readers fold what they find. If the one below is at most twice
//! as large, the two are combined, and so on down. So each operand of a key is more than twice as
//! large as the one above it. A key that got n operands has log n of them, and each byte was copied
//! log n times; folding at each write would copy all that the key has. Operands of a few bytes are
//! combined at once.
//!
//! The older versions stay, for snapshots at older positions.
//!
//! Keys are found one by one through a hash index, in order through sorted chunks of them. Ranges
//! that were deleted are beside them: see [`deleted_ranges`]. An operand over what a range deletes
//! is folded at once too, so no operand here lies over a deleted range.

mod cells;
mod deleted_ranges;
mod hash_index;
mod order;
mod pages;

use crate::direction::Start;
use crate::entry::{Entry, EntryRef};
use crate::entry_kind::EntryKind;
use crate::fold::{Folder, Found, Stack};
use crate::range_tombstones::RangeTombstones;
use crate::{Error, Op, Result, SmallBytes, table};
use cells::{Cells, Copied, Growth, NONE, NewVersion, Text};
use deleted_ranges::DeletedRanges;
use hash_index::{HashIndex, Taken};
use order::{KeyCursor, Keys, Tail};
use quire_env::{Budget, Charge};
use quire_model::Position;
use quire_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use quire_sync::{Mutex, sized};
use smallvec::SmallVec;
use std::fmt;
use std::hint::black_box;
use std::sync::Arc;

/// Keys looked up side by side: as many as there may be misses under way.
pub(crate) const PREFETCHED_AT_ONCE: usize = 16;

/// An operand over one of fewer bytes than this is combined with it.
const COMBINED_BYTES_MIN: usize = sized(64, 4) as usize;

/// Operands that are long are copied seldom: only once there are this many to combine. Until then a
/// read folds them.
const LONG_BYTES: usize = sized(4 << 10, 24) as usize;
const LONG_COUNT: usize = 8;

/// Bytes charged to the budget at once.
const CHARGE_STEP: u64 = 64 << 10;

pub(crate) struct Memtable {
    cells: Cells,
    keys: Keys,
    index: HashIndex,
    deleted: DeletedRanges,
    bytes: AtomicU64,
    /// What it has lies in a run: only snapshots hold it still.
    is_flushed: AtomicBool,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    growth: Growth,
    tail: Tail,
    taken: Taken,
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
            cells: Cells::new(),
            keys: Keys::new(),
            index: HashIndex::new(),
            deleted: DeletedRanges::new(),
            bytes: AtomicU64::new(0),
            is_flushed: AtomicBool::new(false),
            writer: Mutex::new(Writer {
                growth: Growth::new(),
                tail: Tail::default(),
                taken: Taken::none(),
                charge: budget.charge(0),
                newest: after,
            }),
        }
    }

    /// The tree does without it from now on.
    pub(crate) fn note_flushed(&self) {
        self.is_flushed.store(true, Ordering::Relaxed);
    }

    /// Whether only snapshots hold it.
    pub(crate) fn is_flushed(&self) -> bool {
        self.is_flushed.load(Ordering::Relaxed)
    }

    /// Writes `op` to `key` at `position`; on an error nothing is written. The caller has checked
    /// the lengths.
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
        let (key, folded) = ((key, table::hash(key)), &mut Vec::new());
        self.write_hashed(&mut writer, folder, key, position, op, folded)
    }

    /// As [`write`](Self::write), of several in their order. On an error those before are written.
    pub(crate) fn write_all(
        &self,
        folder: &Folder,
        position: Position,
        writes: &[(&[u8], Op<'_>)],
    ) -> Result<()> {
        let hashes = writes.iter().map(|(key, _)| table::hash(key));
        let hashes: SmallVec<[u64; PREFETCHED_AT_ONCE]> = hashes.collect();
        self.prefetch(&hashes);
        let mut writer = self.writer.lock();
        let mut folded = Vec::new();
        for ((key, op), hash) in writes.iter().zip(hashes) {
            let key = (*key, hash);
            self.write_hashed(&mut writer, folder, key, position, *op, &mut folded)?;
        }
        Ok(())
    }

    /// Writes `op` to a key, which comes with its hash. An operand is folded into `folded`.
    fn write_hashed(
        &self,
        writer: &mut Writer,
        folder: &Folder,
        (key, hash): (&[u8], u64),
        position: Position,
        op: Op<'_>,
        folded: &mut Vec<u8>,
    ) -> Result<()> {
        if position < writer.newest {
            return Err(Error::InvalidArgument(format!(
                "tree {}: a write at position {position} after one at {}",
                folder.tree, writer.newest
            )));
        }
        let known = self.known(key, hash);
        let mut below = NONE;
        let (kind, value) = match op {
            Op::Put(value) => (EntryKind::Put, value),
            Op::Delete => (EntryKind::Delete, &[][..]),
            Op::PutUntil(timed) => (EntryKind::PutUntil, timed),
            Op::Merge(operand) => {
                let version = known.map_or(NONE, |key| self.cells.latest(key));
                let before = self.entry(key, version, self.deleted.at(position));
                let of_before = before.as_ref().map(|before| before.kind);
                let kind = if of_before == Some(EntryKind::Merge) {
                    let mut operands = SmallVec::new();
                    below = self.combined_with(version, operand.len(), &mut operands);
                    folder.combine(key, operand, &operands, folded)?
                } else {
                    folder.write(key, before.as_ref(), operand, folded)?
                };
                (kind, folded.as_slice())
            }
            Op::DeleteRange(to) => {
                let mark = writer.growth.next_cell();
                let grown = self.deleted.add(position, key, to, mark);
                self.grown(writer, position, grown);
                return Ok(());
            }
        };
        let Writer {
            growth,
            tail,
            taken,
            ..
        } = &mut *writer;
        let new = NewVersion {
            position,
            kind,
            value,
            below,
        };
        let grown = match known {
            Some(known) => self.cells.add_version(growth, known, new)?,
            None => {
                let (cell, mut grown) = self.cells.add_key(growth, key, new)?;
                grown += self.keys.add(tail, &self.cells, key, cell);
                grown + self.index.insert(taken, hash, cell)
            }
        };
        self.grown(writer, position, grown);
        Ok(())
    }

    /// The operands, newest first from `version` on, that one of `new_bytes` over them is combined
    /// with. Returns the next older one.
    fn combined_with(
        &self,
        version: u32,
        new_bytes: usize,
        operands: &mut SmallVec<[Entry; 4]>,
    ) -> u32 {
        let (mut below, mut bytes) = (version, new_bytes);
        while let Some(operand) = self.cells.entry(below) {
            if operand.value.len() > (2 * bytes).max(COMBINED_BYTES_MIN) {
                break;
            }
            bytes += operand.value.len();
            operands.push(operand);
            below = self.cells.below(below);
        }
        if new_bytes >= LONG_BYTES && operands.len() + 1 < LONG_COUNT {
            operands.clear();
            return version;
        }
        below
    }

    /// Notes a write, and the bytes it took.
    fn grown(&self, writer: &mut Writer, position: Position, grown: u64) {
        writer.newest = position;
        let bytes = self.bytes.fetch_add(grown, Ordering::Relaxed) + grown;
        if bytes > writer.charge.bytes() {
            writer.charge.resize(bytes.next_multiple_of(CHARGE_STEP));
        }
        debug_assert!(bytes <= writer.charge.bytes(), "all memory is charged");
    }

    /// The position of the newest write, or of the newest before this memtable.
    pub(crate) fn newest(&self) -> Position {
        self.writer.lock().newest
    }

    /// Bytes of memory held, allocations and their overhead included.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many keys it has.
    pub(crate) fn keys(&self) -> u32 {
        self.keys.count()
    }

    /// True if nothing was ever written.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// Adds what it says of `key`, whose hash is `hash`, at `at`, if it deletes no range. True if
    /// nothing older matters.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], hash: u64, at: Position, found: &mut Found) -> bool {
        match self.known(key, hash) {
            Some(key) => self.push(self.cells.visible(key, at), found),
            None => false,
        }
    }

    /// As [`find`](Self::find), and a tombstone for a key that it deletes by a range.
    pub(crate) fn find_or_deleted(
        &self,
        key: &[u8],
        hash: u64,
        at: Position,
        found: &mut Found,
    ) -> bool {
        let known = self.known(key, hash);
        let version = known.map_or(NONE, |key| self.cells.visible(key, at));
        match is_deleted(key, version, self.deleted.at(at)) {
            true => found.push(Entry::delete()),
            false => self.push(version, found),
        }
    }

    /// Adds a version, and the operands below it.
    #[inline]
    fn push(&self, version: u32, found: &mut Found) -> bool {
        match self.cells.entry(version) {
            Some(entry) if entry.kind == EntryKind::Merge => {
                found.push(entry);
                let mut version = self.cells.below(version);
                while let Some(operand) = self.cells.entry(version) {
                    found.push(operand);
                    version = self.cells.below(version);
                }
                false
            }
            Some(entry) => found.push(entry),
            None => false,
        }
    }

    /// What a version of `key` says, or a tombstone if one of the ranges is newer.
    fn entry(&self, key: &[u8], version: u32, deleted: Option<&RangeTombstones>) -> Option<Entry> {
        match is_deleted(key, version, deleted) {
            true => Some(Entry::delete()),
            false => self.cells.entry(version),
        }
    }

    /// Whether it deletes ranges.
    #[inline]
    pub(crate) fn deletes_ranges(&self) -> bool {
        !self.deleted.is_empty()
    }

    /// Reads what finding the keys of these hashes will read, so that it lies in the processor's
    /// caches by then. Of one key each step waits for the memory that the step before named; here
    /// the same step of many keys waits at once ("group prefetching": Chen, Ailamaki, Gibbons,
    /// Mowry 2004).
    pub(crate) fn prefetch(&self, hashes: &[u64]) {
        let mut numbers = [0; PREFETCHED_AT_ONCE];
        for hashes in hashes.chunks(PREFETCHED_AT_ONCE) {
            self.index.guess(hashes, &mut numbers);
            for number in &mut numbers {
                *number = self.cells.latest(*number);
            }
            for number in numbers {
                black_box(self.cells.position(number));
            }
        }
    }

    fn known(&self, key: &[u8], hash: u64) -> Option<u32> {
        let text = Text::Bytes(key);
        self.index
            .find(hash, |found| self.cells.key(found).cmp(&text).is_eq())
    }

    /// A cursor over what is visible at `at`, on the key where `start` says, to go on from there.
    pub(crate) fn cursor(self: &Arc<Self>, at: Position, start: Start<'_>) -> MemtableCursor {
        let mut cursor = MemtableCursor {
            memtable: Arc::clone(self),
            at,
            keys: self.keys.cursor(&self.cells, start),
            deleted: self.deleted.at(at).cloned(),
            key: Copied::new(),
            version: NONE,
            kind: EntryKind::Delete,
            is_large: false,
            value: Copied::new(),
            below: Vec::new(),
        };
        cursor.settle();
        cursor
    }
}

/// Whether a version, or that there is none, is older than the deletion of a range that has the
/// key.
fn is_deleted(key: &[u8], version: u32, deleted: Option<&RangeTombstones>) -> bool {
    deleted.is_some_and(|deleted| deleted.mark(key).is_some_and(|mark| version < mark))
}

/// Goes through the keys of a memtable in order, or in the reverse order, as visible at one
/// position.
#[derive(Debug)]
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    at: Position,
    keys: KeyCursor,
    /// The ranges that were deleted up to `at`: what they are newer than it passes over.
    deleted: Option<RangeTombstones>,
    /// The key it is on.
    key: Copied,
    /// What is visible of that; `NONE` past the end.
    version: u32,
    kind: EntryKind,
    /// Whether its value is large.
    is_large: bool,
    /// Its value, unless that is large.
    value: Copied,
    /// If it is an operand: those below it.
    below: Vec<SmallBytes>,
}

impl MemtableCursor {
    /// The ranges that the memtable deletes: of these, older places say nothing.
    pub(crate) fn range_tombstones(&self) -> RangeTombstones {
        self.deleted.clone().unwrap_or_default()
    }

    /// Goes on from another place.
    pub(crate) fn seek(&mut self, start: Start<'_>) {
        self.keys = self.memtable.keys.cursor(&self.memtable.cells, start);
        self.settle();
    }

    /// The key it is on, or `None` past the end.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        (self.version != NONE).then_some(&self.key)
    }

    /// Adds what is visible of that key, operands one by one. True if nothing older matters.
    pub(crate) fn push_to<'a>(&'a self, stack: &mut Stack<'a>) -> bool {
        let Some(newest) = self.entry_ref() else {
            return false;
        };
        let is_done = stack.push(newest.kind, newest.value);
        for operand in &self.below {
            stack.push(EntryKind::Merge, operand);
        }
        is_done
    }

    /// That key and what is visible of it; of several operands, the newest.
    pub(crate) fn entry_ref(&self) -> Option<EntryRef<'_>> {
        let (kind, key) = (self.kind, &self.key);
        let value = match self.is_large {
            false => &self.value,
            true => match self.memtable.cells.version(self.version) {
                Some((_, Text::Bytes(value))) => value,
                _ => &[],
            },
        };
        (self.version != NONE).then_some(EntryRef { key, kind, value })
    }

    /// What is visible of that key.
    pub(crate) fn entry(&self) -> Option<Entry> {
        self.memtable.cells.entry(self.version)
    }

    /// Moves on to the visible key that comes next on its way.
    pub(crate) fn advance(&mut self) {
        self.keys.advance(&self.memtable.cells);
        self.settle();
    }

    /// Moves on until it is on a key of which something is visible, or past the last.
    fn settle(&mut self) {
        let cells = &self.memtable.cells;
        self.version = NONE;
        while self.keys.key() != NONE {
            let key = self.keys.key();
            self.version = cells.visible(key, self.at);
            if let Some((kind, value)) = cells.version(self.version) {
                self.kind = kind;
                self.key.clear();
                cells.key(key).copy_to(&mut self.key);
                if is_deleted(&self.key, self.version, self.deleted.as_ref()) {
                    self.version = NONE;
                    self.keys.advance(cells);
                    continue;
                }
                self.value.clear();
                self.is_large = matches!(value, Text::Bytes(_));
                if !self.is_large {
                    value.copy_to(&mut self.value);
                }
                self.below.clear();
                let mut below = match kind {
                    EntryKind::Merge => cells.below(self.version),
                    _ => NONE,
                };
                while let Some(operand) = cells.entry(below) {
                    self.below.push(operand.value);
                    below = cells.below(below);
                }
                return;
            }
            self.keys.advance(cells);
        }
    }
}

#[cfg(test)]
#[cfg(feature = "loom")]
mod checked;
#[cfg(test)]
mod tests;
