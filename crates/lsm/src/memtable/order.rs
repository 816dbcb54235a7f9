//! Order: the keys of a memtable as sorted chunks, made as keys come.
//!
//! ```text
//!  chunks   | 65,536 sorted keys | 65,536 … |   | 4,096 | 4,096 |   | 256 | 256 |   immutable
//!  tail        at most 255 keys in the order in which they came
//! ```
//! Every 256 keys the writer sorts the tail and makes it a chunk; 16 chunks of a size become
//! one of the next, but for the largest. So a key is moved a few times, always as its neighbours
//! are in the processor's caches, where a search for its place among all keys would miss them at
//! each step; keys are found one by one through the hash index. A reader merges the chunks, with
//! the tail sorted for itself, which it leaves for other readers: what they sort are the keys that
//! came since. Keys that come in order make chunks that are sorted already.

use super::cells::{Cells, NONE, Text};
use super::pages::Pages;
use crate::direction::{Direction, Start};
use crate::fences;
use quire_seeded::{Bug, seeded};
use quire_sync::atomic::{AtomicU32, Ordering};
use quire_sync::{ArcSwap, sized};
use std::cmp::Ordering as Order;
use std::mem::size_of;
use std::sync::Arc;

/// Keys of the smallest chunks.
const CHUNK_KEYS: usize = sized(256, 2) as usize;
/// This many chunks of a size become one.
const FAN_IN: usize = sized(16, 2) as usize;
/// Keys of the largest chunks: to join those would hold one write up for tens of milliseconds.
const CHUNK_KEYS_MAX: usize = CHUNK_KEYS * FAN_IN * FAN_IN;

/// A key by its first bytes and its cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    prefix: u64,
    key: u32,
}

impl Slot {
    fn cmp(&self, other: &Slot, cells: &Cells) -> Order {
        let by_prefix = self.prefix.cmp(&other.prefix);
        by_prefix.then_with(|| cells.key(self.key).cmp(&cells.key(other.key)))
    }

    fn is_before(&self, bound: &[u8], cells: &Cells) -> bool {
        let by_prefix = self.prefix.cmp(&fences::word(bound));
        by_prefix.then_with(|| cells.key(self.key).cmp(&Text::Bytes(bound))) == Order::Less
    }
}

type SortedChunk = Arc<[Slot]>;

/// The keys up to a number, in the order in which they came, sorted in chunks, the largest first.
#[derive(Debug, Default)]
struct Sorted {
    chunks: Vec<SortedChunk>,
    keys: u32,
}

#[derive(Debug)]
pub(super) struct Keys {
    /// The cells of all keys, in the order in which they came.
    arrivals: Pages<AtomicU32, { sized(256, 4) }>,
    count: AtomicU32,
    sorted: ArcSwap<Sorted>,
    /// What a reader has sorted of the tail.
    sorted_tail: ArcSwap<SortedTail>,
}

/// The keys between two numbers, sorted.
#[derive(Debug)]
struct SortedTail {
    from: u32,
    to: u32,
    chunk: SortedChunk,
}

impl SortedTail {
    fn empty() -> SortedTail {
        SortedTail {
            from: 0,
            to: 0,
            chunk: Arc::from([]),
        }
    }
}

/// The writer's side: the keys that are not in a chunk.
#[derive(Debug, Default)]
pub(super) struct Tail(Vec<Slot>);

fn sort(slots: &mut [Slot], cells: &Cells) {
    // Stable, since that one makes use of what is sorted already.
    slots.sort_by(|a, b| a.cmp(b, cells));
}

impl Keys {
    pub(super) fn new() -> Keys {
        Keys {
            arrivals: Pages::new(),
            count: AtomicU32::new(0),
            sorted: ArcSwap::from_pointee(Sorted::default()),
            sorted_tail: ArcSwap::from_pointee(SortedTail::empty()),
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Adds a key that was not there. One caller at a time. Returns the bytes this took.
    pub(super) fn add(&self, tail: &mut Tail, cells: &Cells, bytes: &[u8], key: u32) -> u64 {
        let count = self.count.load(Ordering::Relaxed);
        let grown = self.arrivals.grow(count);
        if let Some(slot) = self.arrivals.get(count) {
            slot.store(key, Ordering::Relaxed);
        }
        let order = match seeded(Bug::KeyCountedUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        self.count.store(count + 1, order);
        let prefix = fences::word(bytes);
        tail.0.push(Slot { prefix, key });
        if tail.0.len() == CHUNK_KEYS {
            self.sort_tail(tail, cells);
        }
        grown + size_of::<Slot>() as u64
    }

    /// Makes a chunk of the tail, and larger ones of those that there are.
    fn sort_tail(&self, tail: &mut Tail, cells: &Cells) {
        sort(&mut tail.0, cells);
        let sorted = self.sorted.load();
        let mut chunks = sorted.chunks.clone();
        chunks.push(Arc::from(tail.0.as_slice()));
        tail.0.clear();
        loop {
            let size = chunks.last().map_or(0, |last| last.len());
            let alike = chunks.iter().rev();
            let alike = alike.take_while(|chunk| chunk.len() == size).count();
            if alike < FAN_IN || size == CHUNK_KEYS_MAX {
                break;
            }
            let mut joined = chunks.split_off(chunks.len() - alike).concat();
            sort(&mut joined, cells);
            chunks.push(joined.into());
        }
        let keys = self.count.load(Ordering::Relaxed);
        debug_assert_eq!(
            chunks.iter().map(|chunk| chunk.len()).sum::<usize>(),
            keys as usize,
            "each key is in one chunk"
        );
        self.sorted.store(Arc::new(Sorted { chunks, keys }));
    }

    /// The keys from a number on, sorted: at least those that there are now.
    fn tail_from(&self, from: u32, cells: &Cells) -> SortedChunk {
        let count = self.count();
        let known = self.sorted_tail.load_full();
        let (known_slots, seen) = match known.from == from {
            true if known.to >= count => return Arc::clone(&known.chunk),
            true => (&*known.chunk, known.to),
            false => (&[][..], from),
        };
        let new = (seen..count).filter_map(|at| self.arrivals.get(at));
        let new = new.map(|key| {
            let key = key.load(Ordering::Relaxed);
            let prefix = cells.key(key).prefix();
            Slot { prefix, key }
        });
        let mut tail: Vec<Slot> = known_slots.iter().copied().chain(new).collect();
        sort(&mut tail, cells);
        let chunk = SortedChunk::from(tail);
        self.sorted_tail.store(Arc::new(SortedTail {
            from,
            to: count.max(from),
            chunk: Arc::clone(&chunk),
        }));
        chunk
    }

    /// Goes through all keys that there are now.
    pub(super) fn cursor(&self, cells: &Cells, start: Start<'_>) -> KeyCursor {
        let sorted = self.sorted.load_full();
        let tail = self.tail_from(sorted.keys, cells);
        let mut cursor = KeyCursor {
            direction: start.direction(),
            heads: Vec::new(),
        };
        for chunk in sorted.chunks.iter().cloned().chain([tail]) {
            let first_at_or_after =
                |key: &[u8]| chunk.partition_point(|slot| slot.is_before(key, cells));
            let at = match start {
                Start::From([]) => Some(0),
                Start::From(key) => Some(first_at_or_after(key)),
                Start::Before(key) => first_at_or_after(key).checked_sub(1),
                Start::Last => chunk.len().checked_sub(1),
            };
            cursor.add(chunk, at, cells);
        }
        cursor
    }
}

/// A place in a chunk.
#[derive(Debug)]
struct Head {
    slot: Slot,
    chunk: SortedChunk,
    at: usize,
}

/// Goes through keys one way.
#[derive(Debug)]
pub(super) struct KeyCursor {
    direction: Direction,
    /// Where it is in each chunk that it is not through with, the next last.
    heads: Vec<Head>,
}

impl KeyCursor {
    /// The key it is on; `NONE` past the last.
    pub(super) fn key(&self) -> u32 {
        self.heads.last().map_or(NONE, |head| head.slot.key)
    }

    /// Moves on to the next key.
    pub(super) fn advance(&mut self, cells: &Cells) {
        if let Some(Head { chunk, at, .. }) = self.heads.pop() {
            let next = match self.direction {
                Direction::Forwards => Some(at + 1),
                Direction::Backwards => at.checked_sub(1),
            };
            self.add(chunk, next, cells);
        }
    }

    /// Takes a chunk up at a place, unless it ends there.
    fn add(&mut self, chunk: SortedChunk, at: Option<usize>, cells: &Cells) {
        let Some((at, slot)) = at.and_then(|at| Some((at, *chunk.get(at)?))) else {
            return;
        };
        let comes_later = |head: &Head| {
            let order = head.slot.cmp(&slot, cells);
            match self.direction {
                Direction::Forwards => order == Order::Greater,
                Direction::Backwards => order == Order::Less,
            }
        };
        let place = self.heads.partition_point(comes_later);
        self.heads.insert(place, Head { slot, chunk, at });
    }
}
