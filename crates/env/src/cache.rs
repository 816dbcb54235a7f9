//! The block cache: checked, decoded blocks of table files and log segments, one cache for the process.

use bytes::Bytes;
use quick_cache::sync::Cache;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Names a block: an owner id (one per open file, from [`BlockCache::new_owner`]) and its offset in that file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockKey {
    /// The open file.
    pub owner: u64,
    /// Byte offset of the block in the file.
    pub offset: u64,
}

#[derive(Clone)]
struct ByBytes;

impl quick_cache::Weighter<BlockKey, Bytes> for ByBytes {
    fn weight(&self, _: &BlockKey, block: &Bytes) -> u64 {
        // The map's own cost per entry (key, handle, links) is part of what the budget pays for.
        block.len() as u64 + 96
    }
}

/// A cache bounded in bytes, scan-resistant (S3-FIFO as of `quick_cache`). Cheap to share.
pub struct BlockCache {
    blocks: Cache<BlockKey, Bytes, ByBytes>,
    owners: AtomicU64,
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
        let items = usize::try_from(capacity / 16_384)
            .unwrap_or(usize::MAX)
            .max(64);
        Arc::new(BlockCache {
            blocks: Cache::with_weighter(items, capacity, ByBytes),
            owners: AtomicU64::new(1),
        })
    }

    /// An owner id never handed out before by this cache.
    pub fn new_owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// The block, if it is here.
    pub fn get(&self, key: BlockKey) -> Option<Bytes> {
        self.blocks.get(&key)
    }

    /// Keeps a block that was read, checked and decoded.
    pub fn insert(&self, key: BlockKey, block: Bytes) {
        self.blocks.insert(key, block);
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// Bytes allowed.
    pub fn capacity(&self) -> u64 {
        self.blocks.capacity()
    }

    /// Lookups that found their block.
    pub fn hits(&self) -> u64 {
        self.blocks.hits()
    }

    /// Lookups that did not.
    pub fn misses(&self) -> u64 {
        self.blocks.misses()
    }
}
