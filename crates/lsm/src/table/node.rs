//! Index node: an index block in memory, ready to be searched, with a slot for each block below it.
//!
//! A slot finds its block, as long as the cache holds that, without a look into the cache: readers
//! that find theirs wait for nobody. What the cache evicts is gone from the slot too.

use super::block::{Block, BlockCursor};
use super::frame::Handle;
use super::index;
use crate::TableDamage;
use crate::fences::Fences;
use arc_swap::ArcSwapWeak;
use bytes::Bytes;
use quire_env::Cached;
use smallvec::SmallVec;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// What the cache is told that a slot takes: itself, and a part for what is left of blocks that are
/// gone, of which only those that were used twice have been in their slots.
const SLOT_BYTES: usize = 64;

/// This many blocks, by 64, have their bits beside what is read of a node anyway.
const IN_PLACE_WORDS: usize = 8;

/// What a frame holds, once it is checked and open.
pub(crate) trait Contents: Cached + Sized {
    /// Whether it is looked at where it lies, in a table that is mapped and if it is stored as it
    /// is.
    const READ_IN_PLACE: bool;

    /// `cached` says whether the blocks that it leads to, if it does, come from the cache.
    ///
    /// # Errors
    /// [`TableDamage`] for contents that make no sense.
    fn parse(contents: Bytes, cached: bool) -> Result<Self, TableDamage>;

    /// Says that it was found in its slot.
    fn set_used(&self);
}

impl Contents for Block {
    const READ_IN_PLACE: bool = true;

    fn parse(contents: Bytes, _cached: bool) -> Result<Block, TableDamage> {
        Block::parse(contents)
    }

    fn set_used(&self) {
        Block::set_used(self);
    }
}

/// Where a block is found while the cache holds it.
struct Slot<T>(ArcSwapWeak<T>);

/// An index block over blocks of `T`.
pub(crate) struct Node<T> {
    /// The separators, each with where its block begins, counted from the first.
    fences: Fences<u32>,
    /// Where the first block begins.
    start: u64,
    /// Where the last one ends, counted as those begin: they lie behind each other.
    end: u32,
    /// None, if blocks do not come from the cache.
    slots: Box<[Slot<T>]>,
    /// A bit for each block: whether it was read, and is stored as it is, so that it may be looked
    /// at where it lies.
    in_place: SmallVec<[AtomicU64; IN_PLACE_WORDS]>,
    used: AtomicBool,
    /// The separators behind each other, and where each ends.
    keys: Box<[u8]>,
    ends: Box<[u32]>,
}

/// An index block over data blocks.
pub(crate) type Leaf = Node<Block>;

impl<T> fmt::Debug for Node<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("children", &self.fences.len())
            .finish()
    }
}

impl<T: Contents> Node<T> {
    /// Decodes an index block, with slots if the blocks below come from the cache.
    ///
    /// # Errors
    /// [`TableDamage`] for one that is not whole, or whose blocks do not lie behind each other.
    pub(crate) fn decode(block: &Block, has_slots: bool) -> Result<Node<T>, TableDamage> {
        let mut cursor = BlockCursor::new();
        cursor.first(block)?;
        let (mut keys, mut ends, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut first, mut after) = (None, 0);
        while let Some(key) = cursor.key() {
            keys.extend_from_slice(key);
            let end = u32::try_from(keys.len())
                .map_err(|_| TableDamage::new("keys of an index block", 0, u32::MAX, keys.len()))?;
            ends.push(end);
            let handle = index::decode(cursor.value(block))?;
            let start = *first.get_or_insert(handle.offset);
            let before = start.saturating_add(after.into());
            if handle.offset != before {
                return Err(TableDamage::new(
                    "offset of a block",
                    0,
                    before,
                    handle.offset,
                ));
            }
            starts.push(after);
            after = u32::try_from(handle.end() - start).map_err(|_| {
                TableDamage::new("end of a block", 0, u32::MAX, handle.end() - start)
            })?;
            cursor.advance(block)?;
        }
        let separators = (0..ends.len()).map(|index| separator(&keys, &ends, index));
        let separators: Vec<_> = separators.zip(starts).collect();
        Ok(Node {
            fences: Fences::new(&separators),
            start: first.unwrap_or(0),
            end: after,
            slots: (0..if has_slots { ends.len() } else { 0 })
                .map(|_| Slot(ArcSwapWeak::new(Weak::new())))
                .collect(),
            in_place: (0..ends.len().div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
            used: AtomicBool::new(false),
            keys: keys.into(),
            ends: ends.into(),
        })
    }

    /// Blocks below.
    pub(crate) fn len(&self) -> usize {
        self.fences.len()
    }

    /// The number of the block below where `key` would be; the number of blocks if it is after all
    /// of them.
    pub(crate) fn find(&self, key: &[u8]) -> usize {
        self.find_guessing(key, |_| ())
    }

    /// As [`find`](Self::find); `guessed` is told before about where that block begins.
    #[inline]
    pub(crate) fn find_guessing(&self, key: &[u8], guessed: impl FnOnce(u64)) -> usize {
        let separator = |index| separator(&self.keys, &self.ends, index);
        self.fences.count_less(key, separator, |index| {
            let bytes = self.end / (self.len() as u32).max(1);
            guessed(self.start + index as u64 * u64::from(bytes));
        })
    }

    /// Where the block numbered `index` is.
    #[inline]
    pub(crate) fn handle(&self, index: usize) -> Option<Handle> {
        let start = self.fences.with(index)?;
        let end = self.fences.with(index + 1).unwrap_or(self.end);
        Some(Handle {
            offset: self.start + u64::from(start),
            bytes: u64::from(end - start),
        })
    }

    /// The block numbered `index`, if the cache holds it and it was put in its slot.
    pub(crate) fn child(&self, index: usize) -> Option<Arc<T>> {
        let child = self.slots.get(index)?.0.load().upgrade()?;
        child.set_used();
        Some(child)
    }

    /// Whether the block numbered `index` may be looked at where it lies.
    pub(crate) fn is_in_place(&self, index: usize) -> bool {
        let word = self.in_place.get(index / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (index % 64) != 0)
    }

    /// Says that the block numbered `index` was read, and is stored as it is.
    pub(crate) fn set_in_place(&self, index: usize) {
        if let Some(word) = self.in_place.get(index / 64) {
            word.fetch_or(1 << (index % 64), Ordering::Relaxed);
        }
    }

    /// Puts the block numbered `index` in its slot.
    pub(crate) fn set_child(&self, index: usize, child: &Arc<T>) {
        if let Some(slot) = self.slots.get(index) {
            slot.0.store(Arc::downgrade(child));
        }
    }
}

/// The separator numbered `index`.
fn separator<'a>(keys: &'a [u8], ends: &[u32], index: usize) -> &'a [u8] {
    let start = index.checked_sub(1).and_then(|before| ends.get(before));
    let end = ends.get(index).copied().unwrap_or(0);
    keys.get(start.copied().unwrap_or(0) as usize..end as usize)
        .unwrap_or_default()
}

impl<T: Contents> Cached for Node<T> {
    fn bytes(&self) -> u64 {
        let keys = self.keys.len() + size_of_val(&*self.ends);
        let own = size_of::<Self>() + keys + self.fences.bytes();
        (own + SLOT_BYTES * self.slots.len()) as u64
    }

    fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }
}

impl<T: Contents> Contents for Node<T> {
    const READ_IN_PLACE: bool = false;

    fn parse(contents: Bytes, cached: bool) -> Result<Node<T>, TableDamage> {
        Node::decode(&Block::parse(contents)?, cached)
    }

    fn set_used(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }
}
