//! Hash index: the cell of a key, found without a search among the others.
//!
//! Open addressing with linear probing. A slot holds 32 bits of a key's hash, its *tag*, and its node's number; the tag
//! says where to begin, so a larger table is filled from a smaller one without looking at a key. The one writer adds
//! nodes and puts a larger table in the place of a full one; readers take no lock. Nothing is ever removed.

use quire_planted::{Bug, planted};
use quire_sync::atomic::{AtomicU64, Ordering};
use quire_sync::{ArcSwap, sized};
use std::mem::size_of;
use std::sync::Arc;

/// Slots of the first table, a power of two.
const SLOTS_MIN: usize = sized(64, 2) as usize;

/// No node: nodes are numbered from 1.
const EMPTY: u64 = 0;

/// The bits of a slot that hold the tag.
const TAG: u64 = (u32::MAX as u64) << 32;

type Slots = Box<[AtomicU64]>;

#[derive(Debug)]
pub(crate) struct HashIndex {
    slots: ArcSwap<Slots>,
}

fn empty(count: usize) -> Slots {
    (0..count).map(|_| AtomicU64::new(EMPTY)).collect()
}

/// The part of a hash that a slot holds, in its upper half. Keys of one tree may have the upper bits of their hashes in
/// common, because those chose the partition: all bits have a part in it.
fn tag(hash: u64) -> u64 {
    // The multiplier is that of SplitMix64's sequence: 2^64 divided by the golden ratio (Knuth, volume 3, 6.4).
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) & TAG
}

/// The slots from the one where a tag would be, once round.
fn probe(slots: &[AtomicU64], tag: u64) -> impl Iterator<Item = &AtomicU64> {
    // The tag scaled down to the table: at most 2^32 slots.
    let begin = ((tag >> 32) * slots.len() as u64) >> 32;
    let (before, after) = slots
        .split_at_checked(begin as usize)
        .unwrap_or((&[], slots));
    after.iter().chain(before)
}

impl HashIndex {
    pub(crate) fn new() -> HashIndex {
        HashIndex {
            slots: ArcSwap::from_pointee(empty(0)),
        }
    }

    /// The node of a key of this hash, of which `is_node` knows whether it is the one.
    pub(crate) fn find(&self, hash: u64, is_node: impl Fn(u32) -> bool) -> Option<u32> {
        let (slots, tag) = (self.slots.load(), tag(hash));
        for slot in probe(&slots, tag) {
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

    /// For each hash the first node whose tag is the hash's: most often the one that [`find`](Self::find) finds. `EMPTY`
    /// if there is none.
    pub(crate) fn guess(&self, hashes: &[u64], nodes: &mut [u32]) {
        let slots = self.slots.load();
        for (hash, node) in hashes.iter().zip(nodes) {
            let tag = tag(*hash);
            let mut entries = probe(&slots, tag).map(|slot| slot.load(Ordering::Acquire));
            let found = entries.find(|entry| *entry == EMPTY || entry & TAG == tag);
            *node = found.unwrap_or(EMPTY) as u32;
        }
    }

    /// Adds a node, the `count`th, of a key that has none yet. One caller at a time. Returns the bytes this took.
    pub(crate) fn insert(&self, hash: u64, node: u32, count: u32) -> u64 {
        let mut slots = self.slots.load_full();
        let before = slots.len();
        // At most three quarters are full.
        if count as usize > before / 4 * 3 {
            let larger = Arc::new(empty((before * 2).max(SLOTS_MIN)));
            if planted(Bug::LargerIndexEmpty) {
                self.slots.store(Arc::clone(&larger));
            }
            for slot in slots.iter() {
                let entry = slot.load(Ordering::Relaxed);
                if entry != EMPTY {
                    fill(&larger, entry);
                }
            }
            slots = larger;
            self.slots.store(Arc::clone(&slots));
        }
        fill(&slots, tag(hash) | u64::from(node));
        ((slots.len() - before) * size_of::<AtomicU64>()) as u64
    }
}

fn fill(slots: &[AtomicU64], entry: u64) {
    let free = probe(slots, entry & TAG).find(|slot| slot.load(Ordering::Relaxed) == EMPTY);
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
            let index = HashIndex::new();
            let mut bytes = 0;
            for (at, hash) in hashes.iter().enumerate() {
                let node = at as u32 + 1;
                prop_assert_eq!(index.find(*hash, |found| found == node), None);
                bytes += index.insert(*hash, node, node);
            }
            for (at, hash) in hashes.iter().enumerate() {
                let node = at as u32 + 1;
                prop_assert_eq!(index.find(*hash, |found| found == node), Some(node));
            }
            prop_assert_eq!(index.find(absent, |_| false), None);
            prop_assert_eq!(bytes, index.slots.load().len() as u64 * 8);
        }
    }

    /// As the keys of one of many partitions have them.
    #[test]
    fn hashes_that_have_their_upper_bits_in_common_lie_apart() {
        let index = HashIndex::new();
        let hash = |node: u32| 7 << 56 | xxhash_rust::xxh3::xxh3_64(&node.to_le_bytes()) >> 8;
        for node in 1..=10_000 {
            index.insert(hash(node), node, node);
        }
        let slots = index.slots.load();
        let steps = |node: u32| {
            let mut slots = probe(&slots, tag(hash(node)));
            slots.position(|slot| slot.load(Ordering::Relaxed) as u32 == node)
        };
        let steps: usize = (1..=10_000).filter_map(steps).sum();
        assert!(steps < 20_000, "{steps} for 10,000 keys");
    }
}
