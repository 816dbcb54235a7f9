//! Hash index: the cell of a key, found without a search among the others.
//!
//! Open addressing with linear probing. A slot holds 32 bits of a key's hash, its *tag*, and its
//! node's number; the tag says where to begin, so a larger table is filled from a smaller one
//! without looking at a key. The one writer adds nodes and puts a larger table in the place of a
//! full one; readers take no lock. Nothing is ever removed.
//!
//! The slots are in many tables, of which the first bits of the tag choose one, and each grows by
//! itself: to move all keys of a large memtable at once would hold one write up for tens of
//! milliseconds.

use quire_seeded::{Bug, seeded};
use quire_sync::atomic::{AtomicU64, Ordering};
use quire_sync::{ArcSwap, sized};
use std::array;
use std::mem::size_of;
use std::sync::Arc;

/// Tables of slots.
const TABLES: usize = sized(64, 1) as usize;

/// Slots of a table at first, a power of two.
const SLOTS_MIN: usize = sized(4, 2) as usize;

/// No node: nodes are numbered from 1.
const EMPTY: u64 = 0;

/// The bits of a slot that hold the tag.
const TAG: u64 = (u32::MAX as u64) << 32;

type Slots = Arc<[AtomicU64]>;

#[derive(Debug)]
pub(crate) struct HashIndex {
    tables: ArcSwap<[Slots; TABLES]>,
}

/// How many slots of each table are taken: the writer's own.
#[derive(Debug)]
pub(crate) struct Taken([usize; TABLES]);

impl Taken {
    pub(crate) fn none() -> Taken {
        Taken([0; TABLES])
    }
}

fn empty(count: usize) -> Slots {
    (0..count).map(|_| AtomicU64::new(EMPTY)).collect()
}

/// The part of a hash that a slot holds, in its upper half. Keys of one tree may have the upper
/// bits of their hashes in common, because those chose the partition: all bits have a part in it.
fn tag(hash: u64) -> u64 {
    // The multiplier is that of SplitMix64's sequence: 2^64 divided by the golden ratio (Knuth,
    // volume 3, 6.4).
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) & TAG
}

/// The table of a tag, and where in it the tag would be, in parts of 2^32 of the table.
fn place(tag: u64) -> (usize, u64) {
    let place = (tag >> 32) * TABLES as u64;
    ((place >> 32) as usize, place & u64::from(u32::MAX))
}

/// The slots of a table from such a place, once round.
fn probe(slots: &[AtomicU64], place: u64) -> impl Iterator<Item = &AtomicU64> {
    let begin = (place * slots.len() as u64) >> 32;
    let (before, after) = slots
        .split_at_checked(begin as usize)
        .unwrap_or((&[], slots));
    after.iter().chain(before)
}

/// The slots from the one where a tag would be.
fn probe_tables(tables: &[Slots; TABLES], tag: u64) -> impl Iterator<Item = &AtomicU64> {
    let (table, place) = place(tag);
    let slots = tables.get(table).map_or(&[][..], |slots| slots);
    probe(slots, place)
}

impl HashIndex {
    pub(crate) fn new() -> HashIndex {
        let none = empty(0);
        HashIndex {
            tables: ArcSwap::from_pointee(array::from_fn(|_| Arc::clone(&none))),
        }
    }

    /// The node of a key of this hash, of which `is_node` knows whether it is the one.
    pub(crate) fn find(&self, hash: u64, is_node: impl Fn(u32) -> bool) -> Option<u32> {
        let (tables, tag) = (self.tables.load(), tag(hash));
        for slot in probe_tables(&tables, tag) {
            let entry = slot.load(Ordering::Acquire);
            if entry == EMPTY {
                return None;
            }
            let node = entry as u32;
            if entry & TAG == tag && is_node(node) {
                return Some(node);
            }
        }
        None
    }

    /// For each hash the first node whose tag is the hash's: most often the one that
    /// [`find`](Self::find) finds. `EMPTY` if there is none.
    pub(crate) fn guess(&self, hashes: &[u64], nodes: &mut [u32]) {
        let tables = self.tables.load();
        for (hash, node) in hashes.iter().zip(nodes) {
            let tag = tag(*hash);
            let mut entries = probe_tables(&tables, tag).map(|slot| slot.load(Ordering::Acquire));
            let found = entries.find(|entry| *entry == EMPTY || entry & TAG == tag);
            *node = found.unwrap_or(EMPTY) as u32;
        }
    }

    /// Adds a node of a key that has none yet. One caller at a time, each with what the one before
    /// left in `taken`. Returns the bytes this took.
    pub(crate) fn insert(&self, taken: &mut Taken, hash: u64, node: u32) -> u64 {
        let tag = tag(hash);
        let entry = tag | u64::from(node);
        let (number, _) = place(tag);
        let tables = self.tables.load();
        let (Some(slots), Some(taken)) = (tables.get(number), taken.0.get_mut(number)) else {
            return 0;
        };
        *taken += 1;
        // At most three quarters are taken.
        if *taken <= slots.len() / 4 * 3 {
            fill(slots, entry);
            return 0;
        }
        let larger = empty((slots.len() * 2).max(SLOTS_MIN));
        let publish = || {
            let mut grown = <[Slots; TABLES]>::clone(&tables);
            if let Some(table) = grown.get_mut(number) {
                *table = Arc::clone(&larger);
            }
            self.tables.store(Arc::new(grown));
        };
        if seeded(Bug::LargerIndexEmpty) {
            publish();
        }
        for slot in slots.iter() {
            let entry = slot.load(Ordering::Relaxed);
            if entry != EMPTY {
                fill(&larger, entry);
            }
        }
        fill(&larger, entry);
        publish();
        ((larger.len() - slots.len()) * size_of::<AtomicU64>()) as u64
    }
}

fn fill(slots: &[AtomicU64], entry: u64) {
    let (_, place) = place(entry & TAG);
    let free = probe(slots, place).find(|slot| slot.load(Ordering::Relaxed) == EMPTY);
    if let Some(slot) = free {
        slot.store(entry, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        /// Few hashes, so that many collide; the keys behind them differ.
        #[test]
        fn nodes_are_found_by_hash_and_key_and_only_those(
            hashes in vec(prop_oneof![any::<u64>(), 0u64..4], 1..700),
            absent: u64,
        ) {
            let (index, mut taken) = (HashIndex::new(), Taken::none());
            let mut bytes = 0;
            for (at, hash) in hashes.iter().enumerate() {
                let node = at as u32 + 1;
                prop_assert_eq!(index.find(*hash, |found| found == node), None);
                bytes += index.insert(&mut taken, *hash, node);
            }
            for (at, hash) in hashes.iter().enumerate() {
                let node = at as u32 + 1;
                prop_assert_eq!(index.find(*hash, |found| found == node), Some(node));
            }
            prop_assert_eq!(index.find(absent, |_| false), None);
            let slots: usize = index.tables.load().iter().map(|slots| slots.len()).sum();
            prop_assert_eq!(bytes, slots as u64 * 8);
        }
    }

    /// As the keys of one of many partitions have them.
    #[test]
    fn hashes_that_have_their_upper_bits_in_common_lie_apart() {
        let (index, mut taken) = (HashIndex::new(), Taken::none());
        let hash = |node: u32| 7 << 56 | xxhash_rust::xxh3::xxh3_64(&node.to_le_bytes()) >> 8;
        for node in 1..=10_000 {
            index.insert(&mut taken, hash(node), node);
        }
        let tables = index.tables.load();
        let steps = |node: u32| {
            let mut slots = probe_tables(&tables, tag(hash(node)));
            slots.position(|slot| slot.load(Ordering::Relaxed) as u32 == node)
        };
        let steps: usize = (1..=10_000).filter_map(steps).sum();
        assert!(steps < 20_000, "{steps} for 10,000 keys");
    }
}
