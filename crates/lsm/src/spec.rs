//! What a tree is made of.

use crate::table::bits_per_key;
use crate::{
    BlockCodec, CompactionPolicy, DynMerger, Error, FilterPager, Geometric, Result, TableFiles,
    Tier,
};
use quire_env::{BlockCache, Budget, Env};
use std::sync::Arc;

/// The largest block: larger ones make a point read copy too much.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// With the last entry, and filter and index, a table still is below 4 GiB, as far as an index in
/// memory counts.
const TABLE_BYTES_MAX: u64 = 2 << 30;
/// A filter with more bits than this per key costs memory and saves nothing.
const FILTER_BITS_MAX: u32 = 64;

/// A tree's identity and shape. All but `id` may differ from one opening to the next: tables say
/// themselves how they were written.
#[derive(Debug, Clone)]
pub struct TreeSpec {
    /// Its number within the partition; every table carries it.
    pub id: u32,
    /// Its name, for operators.
    pub name: String,
    /// What merge operands mean; a tree without one refuses them.
    pub merger: Option<Arc<dyn DynMerger>>,
    /// Bytes of a data block before compression, 1 to 1 MiB; 4 to 8 KiB serve point reads well. A
    /// larger entry gets a block of its own.
    pub block_bytes: usize,
    /// How blocks are stored.
    pub codec: BlockCodec,
    /// Whether point reads look at data blocks that are stored as they are in a map of the file:
    /// without the block cache, checked each time. An I/O error on a mapped page
    /// kills the process (SIGBUS): see [`quire_env::FileMap`].
    pub mapped: bool,
    /// Bits of filter per key, up to 64: 10 let about 1 % of absent keys through. 0: no filter.
    pub filter_bits_per_key: u32,
    /// Which runs are merged when.
    pub compaction: Arc<dyn CompactionPolicy>,
    /// A run's tables are cut at this length in bytes, or at 4 Mi entries.
    pub table_bytes_max: u64,
    /// Its new tables go to the volumes of this medium.
    pub tier: Tier,
}

/// How many bits per key a filter needs that lets this part of the absent keys through: 0.02 takes
/// 9, 0.01 takes 10. At 1 or more, 0: no filter.
#[must_use]
pub fn filter_bits_per_key(false_positives: f64) -> u32 {
    bits_per_key(false_positives, FILTER_BITS_MAX)
}

impl TreeSpec {
    /// A tree with the usual shape: 8 KiB blocks, LZ4, 10 filter bits per key, 64 MiB tables, no
    /// merger, [`Geometric`] compaction.
    pub fn new(id: u32, name: impl Into<String>) -> TreeSpec {
        TreeSpec {
            id,
            name: name.into(),
            merger: None,
            block_bytes: 8 << 10,
            codec: BlockCodec::Lz4,
            mapped: false,
            filter_bits_per_key: 10,
            compaction: Arc::new(Geometric),
            table_bytes_max: 64 << 20,
            tier: Tier::default(),
        }
    }

    /// Refuses what no tree can be.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: String| {
            Err(Error::InvalidArgument(format!(
                "tree {}: {what}",
                self.name
            )))
        };
        if self.block_bytes == 0 || self.block_bytes > BLOCK_BYTES_MAX {
            return wrong(format!(
                "block_bytes {} is not 1 to {BLOCK_BYTES_MAX}",
                self.block_bytes
            ));
        }
        self.codec.of_pack().check().or_else(wrong)?;
        if self.filter_bits_per_key > FILTER_BITS_MAX {
            return wrong(format!(
                "filter_bits_per_key {} is over {FILTER_BITS_MAX}",
                self.filter_bits_per_key
            ));
        }
        if self.table_bytes_max == 0 || self.table_bytes_max > TABLE_BYTES_MAX {
            return wrong(format!(
                "table_bytes_max {} is not 1 to {TABLE_BYTES_MAX}",
                self.table_bytes_max
            ));
        }
        Ok(())
    }
}

/// What a tree shares with the others of its partition and process.
#[derive(Debug, Clone)]
pub struct TreeContext {
    /// Where its tables live.
    pub files: Arc<TableFiles>,
    /// The machine.
    pub env: Arc<dyn Env>,
    /// Which filter pages are in memory.
    pub filters: Arc<FilterPager>,
    /// Blocks of tables, once read.
    pub cache: Arc<BlockCache>,
    /// What memtables, pinned indexes, and the buffers of flushes and compactions are charged to.
    pub budget: Arc<Budget>,
}
