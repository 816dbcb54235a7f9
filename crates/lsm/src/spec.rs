//! What a tree is made of, and what is written to it.

use crate::table::bits_per_key;
use crate::{CompactionPolicy, DynMerger, Error, FilterPager, Geometric, Result, TableFiles};
use quire_env::{BlockCache, Budget, Env};
use quire_pack::Packer;
use std::sync::Arc;

/// The longest key, in bytes. Keys have at least one.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// The longest value or operand, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// The largest block asked for: larger ones make a point read copy too much.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// With the last entry, and filter and index, a table still is below 4 GiB, as far as an index in
/// memory counts.
const TABLE_BYTES_MAX: u64 = 2 << 30;
/// A filter with more bits than this per key costs memory and saves nothing.
const FILTER_BITS_MAX: u32 = 64;

/// How blocks are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// As they are.
    None,
    /// LZ4, where it saves at least an eighth.
    Lz4,
    /// zstd, where it saves at least an eighth: smaller than LZ4, for a few times the CPU.
    Zstd {
        /// From 1, which is fast, to 19, which is slow and small.
        level: u8,
    },
}

impl Codec {
    fn of_pack(self) -> quire_pack::Codec {
        match self {
            Codec::None => quire_pack::Codec::None,
            Codec::Lz4 => quire_pack::Codec::Lz4,
            Codec::Zstd { level } => quire_pack::Codec::Zstd {
                level,
                dictionary_bytes: 0,
            },
        }
    }

    /// What packs blocks so; `None` if they stay as they are.
    pub(crate) fn packer(self) -> Option<Packer> {
        (self != Codec::None).then(|| Packer::new(self.of_pack(), None))
    }
}

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
    pub codec: Codec,
    /// Whether point reads look at data blocks that are stored as they are in a map of the file:
    /// without the block cache, checked each time. What the disk can no longer read then ends the
    /// process: see [`quire_env::FileMap`].
    pub mapped: bool,
    /// Bits of filter per key, up to 64: 10 let about 1 % of absent keys through. 0: no filter.
    pub filter_bits_per_key: u32,
    /// Which runs are merged when.
    pub compaction: Arc<dyn CompactionPolicy>,
    /// A run's tables are cut at this length in bytes, or at 4 Mi entries.
    pub table_bytes_max: u64,
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
            codec: Codec::Lz4,
            mapped: false,
            filter_bits_per_key: 10,
            compaction: Arc::new(Geometric),
            table_bytes_max: 64 << 20,
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

/// A change to one key, or to a range of them from that key on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<'a> {
    /// The key has this value.
    Put(&'a [u8]),
    /// The key has no value.
    Delete,
    /// The key's value changes by this operand of the tree's [`Merger`].
    Merge(&'a [u8]),
    /// The key and those after it have no value, up to this one, which keeps its own; an empty one
    /// is no end. None, if this one is not after the key.
    DeleteRange(&'a [u8]),
    /// The key has a value until a deadline, and none from then on:
    /// [`DEADLINE_BYTES`](crate::DEADLINE_BYTES) of microseconds since 1970 UTC, little-endian,
    /// then the value. An operand over it keeps the deadline, also where that has passed: whoever
    /// writes operands looks before whether it has
    /// ([`TreeReader::get_with_deadline`](crate::TreeReader::get_with_deadline)), and writes a
    /// value then.
    PutUntil(&'a [u8]),
}
