//! The block cache: checked, decoded blocks of table files and log segments, one cache for the
//! process.
//!
//! It holds what its users make of a block, as an `Arc`. A user that keeps a `Weak` of a block
//! finds it without a lookup while another holder keeps it alive. The block then reports that use
//! through [`Cached::take_used`], and is not evicted next.
//!
//! # Invariants
//! 1. The held blocks and their map entries take at most the capacity.
//! 2. Which blocks are kept depends only on the calls, not on the machine or on random numbers: a
//!    simulated run repeats.

use crate::Tally;
use bytes::Bytes;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use std::any::Any;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a map entry (key, handle, links), which count against the budget.
const ENTRY_BYTES: u64 = 96;
/// The smallest share of the capacity that has a lock of its own. A block can't be larger than its
/// share.
const SHARD_BYTES_MIN: u64 = 4 << 20;
/// The most blocks that one insertion puts back because they were used, which bounds its work.
const PUT_BACK_MAX: usize = 8;
/// The most locks: enough that threads rarely contend for one.
const SHARDS_MAX: u64 = 64;
/// The block size that the map is allocated for; it grows for smaller blocks.
const BLOCK_BYTES_TYPICAL: u64 = 16 << 10;

/// Identifies a block: an owner id (one per open file, from [`BlockCache::new_owner`]) and its
/// offset in that file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockKey {
    /// The open file.
    pub owner: u64,
    /// Byte offset of the block in the file.
    pub offset: u64,
}

/// A block in the cache.
pub trait Cached: Any + Send + Sync {
    /// Bytes of memory that it takes. This never changes.
    fn bytes(&self) -> u64;

    /// Whether it was used without a lookup since the last call.
    fn take_used(&self) -> bool {
        false
    }
}

impl Cached for Bytes {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }
}

type Held = Arc<dyn Cached>;

#[derive(Clone)]
struct ByBytes;

impl Weighter<BlockKey, Held> for ByBytes {
    fn weight(&self, _: &BlockKey, block: &Held) -> u64 {
        block.bytes() + ENTRY_BYTES
    }
}

/// Collects the blocks that an insertion evicts.
#[derive(Clone)]
struct PutOut;

impl Lifecycle<BlockKey, Held> for PutOut {
    type RequestState = Vec<(BlockKey, Held)>;

    fn on_evict(&self, out: &mut Self::RequestState, key: BlockKey, block: Held) {
        out.push((key, block));
    }
}

/// Mixes the two numbers of a key, the same on every run. No outsider picks the keys.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write_u64(&mut self, number: u64) {
        // The multiplier is that of Steele, Lea, Flood 2014; folding the halves brings high bits
        // down.
        let product = u128::from(self.0 ^ number ^ 0x9e37_79b9_7f4a_7c15) * 0xbf58_476d_1ce4_e5b9;
        self.0 = (product as u64).wrapping_add((product >> 64) as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A cache bounded in bytes, scan-resistant (S3-FIFO as of `quick_cache`). Cheap to share.
///
/// A block of more than about 4 MiB is not kept, nor one larger than the capacity of a smaller
/// cache. A slice of a larger buffer keeps that whole buffer alive: insert blocks with buffers of
/// their own.
pub struct BlockCache {
    blocks: Cache<BlockKey, Held, ByBytes, BuildHasherDefault<KeyHasher>, PutOut>,
    capacity: u64,
    owners: AtomicU64,
    found_past: Tally,
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockCache")
            .field("bytes", &self.bytes())
            .field("capacity", &self.capacity())
            .finish()
    }
}

impl BlockCache {
    /// A cache of at most `capacity` bytes.
    pub fn new(capacity: u64) -> Arc<BlockCache> {
        let shards = (capacity / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        // The library rounds up to a power of two, and each shard's part of the capacity to a whole
        // byte.
        let shards = 1 << shards.ilog2();
        let options = OptionsBuilder::new()
            .shards(shards)
            .estimated_items_capacity((capacity / BLOCK_BYTES_TYPICAL) as usize)
            .weight_capacity(capacity / shards as u64 * shards as u64)
            .build();
        let options =
            options.unwrap_or_else(|error| unreachable!("both capacities are set: {error}"));
        let hasher = BuildHasherDefault::default();
        let blocks = Cache::with_options(options, ByBytes, hasher, PutOut);
        Arc::new(BlockCache {
            capacity: blocks.capacity(),
            blocks,
            owners: AtomicU64::new(1),
            found_past: Tally::default(),
        })
    }

    /// A new owner id, unique in this cache.
    pub fn new_owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// The block, if the cache holds it and it is of this type.
    pub fn get<T: Cached>(&self, key: BlockKey) -> Option<Arc<T>> {
        let held: Arc<dyn Any + Send + Sync> = self.blocks.get(&key)?;
        held.downcast().ok()
    }

    /// Keeps a block that was read, checked and decoded.
    pub fn insert<T: Cached>(&self, key: BlockKey, block: Arc<T>) {
        let mut out = Vec::new();
        self.blocks.insert_with_lifecycle(key, block, &mut out);
        // A block that was used without a lookup is a hit that the map did not see. It is put back,
        // or it would have to be read again.
        for _ in 0..PUT_BACK_MAX {
            match out.pop() {
                Some((key, block)) if block.take_used() => {
                    self.blocks.insert_with_lifecycle(key, block, &mut out);
                }
                Some(_) => {}
                None => break,
            }
        }
    }

    /// Counts a hit without a lookup, of a user that keeps a `Weak` of the block.
    pub fn found_past(&self) {
        self.found_past.add(1);
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// Evicts about `bytes` of blocks. A sixteenth of the capacity is kept.
    pub fn shrink(&self, bytes: u64) {
        let keep = self.bytes().saturating_sub(bytes).max(self.capacity / 16);
        if keep < self.bytes() {
            self.blocks.set_capacity(keep);
            self.blocks.set_capacity(self.capacity);
        }
    }

    /// Bytes allowed.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Lookups that found their block.
    pub fn hits(&self) -> u64 {
        self.blocks.hits() + self.found_past.sum()
    }

    /// Lookups that did not find theirs.
    pub fn misses(&self) -> u64 {
        self.blocks.misses()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(length: usize) -> Arc<Bytes> {
        Arc::new(Bytes::from(vec![7; length]))
    }

    #[test]
    fn blocks_never_take_more_than_the_capacity() {
        for capacity in [0, 1, 1000, 100_000, 5 << 20, 64 << 20] {
            let cache = BlockCache::new(capacity);
            let owner = cache.new_owner();
            assert!(cache.capacity() <= capacity);
            for n in 0..20_000 {
                cache.insert(
                    BlockKey {
                        owner,
                        offset: n * 4096,
                    },
                    block((n * 37 % 9000) as usize),
                );
                assert!(cache.bytes() <= capacity, "{} of {capacity}", cache.bytes());
            }
            assert!(
                capacity < 100_000 || cache.bytes() > capacity / 2,
                "{}",
                cache.bytes()
            );
        }
    }

    #[test]
    fn shrinking_evicts_as_much_and_later_blocks_have_the_room_again() {
        for capacity in [1 << 20, 64 << 20] {
            let cache = BlockCache::new(capacity);
            let owner = cache.new_owner();
            let fill = |from: u64| {
                for n in from..from + capacity / 4096 {
                    let offset = n * 4096;
                    cache.insert(BlockKey { owner, offset }, block(4096));
                }
            };
            fill(0);
            let before = cache.bytes();
            assert!(before > capacity / 2);
            cache.shrink(before / 4);
            let after = cache.bytes();
            assert!(
                after <= before - before / 4 + 64 * 5000 && after > before / 2,
                "{after}"
            );
            cache.shrink(u64::MAX);
            assert!(cache.bytes() <= capacity / 16 + 64 * 5000);
            fill(1 << 20);
            assert!(cache.bytes() > capacity / 2, "{}", cache.bytes());
            assert_eq!(cache.capacity(), BlockCache::new(capacity).capacity());
        }
    }

    #[test]
    fn block_is_found_by_owner_and_offset() {
        let cache = BlockCache::new(1 << 20);
        let (one, other) = (cache.new_owner(), cache.new_owner());
        assert_ne!(one, other);
        cache.insert(
            BlockKey {
                owner: one,
                offset: 9,
            },
            block(1),
        );
        assert_eq!(
            cache.get::<Bytes>(BlockKey {
                owner: one,
                offset: 9
            }),
            Some(block(1))
        );
        assert_eq!(
            cache.get::<Bytes>(BlockKey {
                owner: other,
                offset: 9
            }),
            None
        );
        assert_eq!(
            cache.get::<Bytes>(BlockKey {
                owner: one,
                offset: 8
            }),
            None
        );
        assert_eq!((cache.hits(), cache.misses()), (1, 2));
    }

    #[test]
    fn blocks_in_use_outlast_a_scan() {
        let cache = BlockCache::new(1 << 20);
        let (used, scanned) = (cache.new_owner(), cache.new_owner());
        let keys: Vec<_> = (0..16)
            .map(|n| BlockKey {
                owner: used,
                offset: n << 14,
            })
            .collect();
        for key in &keys {
            cache.insert(*key, block(16_000));
            assert!(cache.get::<Bytes>(*key).is_some());
        }
        for n in 0..1000 {
            cache.insert(
                BlockKey {
                    owner: scanned,
                    offset: n << 14,
                },
                block(16_000),
            );
        }
        let kept = keys
            .iter()
            .filter(|key| cache.get::<Bytes>(**key).is_some())
            .count();
        assert!(kept >= 12, "{kept} of 16");
    }

    /// A block of 1,000 bytes that says it is used, always or never.
    struct Used(bool);

    impl Cached for Used {
        fn bytes(&self) -> u64 {
            1000
        }

        fn take_used(&self) -> bool {
            self.0
        }
    }

    #[test]
    fn blocks_used_past_the_cache_outlast_those_that_are_not() {
        let cache = BlockCache::new(1 << 20);
        let (used, not) = (cache.new_owner(), cache.new_owner());
        let key = |owner, n| BlockKey { owner, offset: n };
        for n in 0..400 {
            cache.insert(key(used, n), Arc::new(Used(true)));
        }
        for n in 0..10_000 {
            cache.insert(key(not, n), Arc::new(Used(false)));
            assert!(cache.bytes() <= cache.capacity());
        }
        let kept = (0..400).filter(|&n| cache.get::<Used>(key(used, n)).is_some());
        assert!(kept.count() >= 300);
        assert!(cache.get::<Bytes>(key(used, 0)).is_none(), "another type");
    }

    #[test]
    fn large_caches_keep_blocks_of_megabytes() {
        let cache = BlockCache::new(256 << 20);
        let key = BlockKey {
            owner: cache.new_owner(),
            offset: 0,
        };
        cache.insert(key, block(3 << 20));
        assert!(cache.get::<Bytes>(key).is_some());
    }

    #[test]
    fn what_is_kept_depends_on_the_calls_alone() {
        let kept = || {
            let cache = BlockCache::new(8 << 20);
            let owner = cache.new_owner();
            let key = |n: u64| BlockKey {
                owner,
                offset: n * n % 4093 * 4096,
            };
            let hits = (0..8000).map(|n| {
                let hit = cache.get::<Bytes>(key(n)).is_some();
                cache.insert(key(n), block((n * 31 % 8192) as usize));
                hit
            });
            hits.collect::<Vec<_>>()
        };
        let first = kept();
        assert!(first.contains(&true) && first.contains(&false));
        assert_eq!(first, kept());
    }
}
