//! Options of keys and values.

use crate::pairs::Pairs;
use crate::{Codec, Durability, Error, LogCodec, Merger, Result};
use quire_lsm::{
    CompactionPolicy, FoldBytes, Geometric, SpaceBounded, TreeSpec, filter_bits_per_key,
};
use quire_store::StoreOptions;
use std::sync::Arc;
use std::time::Duration;

/// Of blocks that are looked at in a map: a read checks one, and mostly wants one entry of it.
const BLOCK_BYTES_MAPPED: usize = 1 << 10;
/// Of others: smaller ones are packed to more bytes, and to read and keep one costs more than its
/// bytes do.
const BLOCK_BYTES: usize = 4 << 10;

/// Less than this is no room to work in.
const MEMTABLE_BYTES_MIN: u64 = 64 << 10;

/// A segment of the log is sealed at the size of a memtable, but at least at this: it is dropped
/// whole.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// At most so much of the log waits in memory while the disk is busy with what came before.
const PENDING_BYTES_MAX: u64 = 16 << 20;

/// How keys and values are opened. All may differ from one opening to the next: files say
/// themselves how they were written.
#[derive(Debug, Clone)]
pub struct KvOptions {
    /// Memory for memtables, block cache and buffers, in bytes. Default 512 MiB.
    pub memory_bytes: u64,
    /// The size at which a memtable is written out as a file, in bytes; up to four times as much is
    /// taken of `memory_bytes` while the disk is slower than the writers. Larger ones mean less
    /// merging later, and a longer opening after a crash. Default: a sixteenth of `memory_bytes`.
    pub memtable_bytes: Option<u64>,
    /// How blocks of table files are packed. Default LZ4. zstd is smaller, for a few times the CPU;
    /// its levels are 1 to 19.
    pub codec: Codec,
    /// Whether blocks of table files that are stored as they are (all, with [`Codec::None`]) are
    /// read where the system has them in memory, by a map of the file, and not copied into memory
    /// of our own. Each is checked each time. Reads take about half as long where data is larger
    /// than the cache and the system holds it, and some more where all fits into the cache; but a
    /// disk that can't read again what it has read before, or a file that is truncated, then ends
    /// the process (SIGBUS) instead of being an error. Default true.
    pub map: bool,
    /// Which part of the keys that are not there the filter of a table file lets through, above 0:
    /// each costs the search of a block. Default 0.02, for which a key takes 9 bits; 0.01 takes 10,
    /// 0.001 takes 16. 1: no filter.
    pub filter_false_positives: f64,
    /// What older versions and deleted keys may take of the table files at most, in percent of what
    /// is live, 1 or more; what is being written comes on top. For keys that are written again and
    /// again: all is merged into one run each time that this much has been written. None, the
    /// default: merging goes by the sizes of runs alone, which writes least, and garbage may take
    /// as much as what is live.
    pub space_percent: Option<u32>,
    /// How the log is packed. Its records live for minutes, so the default is not at all.
    pub log_codec: LogCodec,
    /// How durable a write is when it is acknowledged, unless it says so itself. Default `Sync`.
    /// With `None` the log is left to the system to write, and mostly dropped before that.
    pub durability: Durability,
    /// How long a view or an iterator may be kept; none is the default. What one holds, memory and
    /// disk, is given back then, and using it is an error of kind `Gone`.
    pub view_age_max: Option<Duration>,
    /// What operands of [`Kv::merge`](crate::Kv::merge) mean. A directory that has seen merges is
    /// always opened with the same.
    pub merger: Option<Arc<dyn Merger>>,
    /// Whether to make the directory if it is absent or empty. Default true.
    pub create_if_missing: bool,
}

impl Default for KvOptions {
    fn default() -> KvOptions {
        KvOptions {
            memory_bytes: 512 << 20,
            memtable_bytes: None,
            codec: Codec::Lz4,
            map: true,
            filter_false_positives: 0.02,
            space_percent: None,
            log_codec: LogCodec::None,
            durability: Durability::Sync,
            view_age_max: None,
            merger: None,
            create_if_missing: true,
        }
    }
}

impl KvOptions {
    /// Refuses what can't work.
    pub(crate) fn check(&self) -> Result<()> {
        let memtable_bytes = self.memtable_bytes();
        if memtable_bytes < MEMTABLE_BYTES_MIN {
            return Err(Error::Invalid(format!(
                "memtable_bytes is {memtable_bytes}: at least {MEMTABLE_BYTES_MIN} are needed"
            )));
        }
        if self.filter_false_positives.is_nan() || self.filter_false_positives <= 0.0 {
            return Err(Error::Invalid(format!(
                "filter_false_positives is {}: it must be above 0, and is 1 for no filter",
                self.filter_false_positives
            )));
        }
        if self.space_percent == Some(0) {
            return Err(Error::Invalid(
                "space_percent is 0: at least 1 is needed".into(),
            ));
        }
        if self.memtables_bytes() > self.memory_bytes {
            return Err(Error::Invalid(format!(
                "memtable_bytes is {memtable_bytes}: four times that is more than memory_bytes, {}",
                self.memory_bytes
            )));
        }
        Ok(())
    }

    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes.unwrap_or(self.memory_bytes / 16)
    }

    /// What all memtables may take together: the store writes one out at a quarter of it.
    pub(crate) fn memtables_bytes(&self) -> u64 {
        self.memtable_bytes().saturating_mul(4)
    }

    /// The options of the store below.
    pub(crate) fn of_store(&self) -> StoreOptions {
        let compaction: Arc<dyn CompactionPolicy> = match self.space_percent {
            Some(percent) => Arc::new(SpaceBounded { percent }),
            None => Arc::new(Geometric),
        };
        let mut options = StoreOptions {
            trees: vec![TreeSpec {
                compaction,
                merger: self
                    .merger
                    .clone()
                    .map(|merger| Arc::new(FoldBytes(merger)) as _),
                codec: self.codec,
                block_bytes: match (self.codec, self.map) {
                    (Codec::None, true) => BLOCK_BYTES_MAPPED,
                    _ => BLOCK_BYTES,
                },
                mapped: self.map,
                filter_bits_per_key: filter_bits_per_key(self.filter_false_positives),
                ..Pairs::tree()
            }],
            // By the size of memtables alone.
            replay_bytes_max: u64::MAX,
            ..StoreOptions::default()
        };
        options.log.codec = self.log_codec;
        // What nobody waits for is soon in table files, and dropped from the log.
        options.log.rotate_unsynced = self.durability == Durability::None;
        options.log.segment_bytes = self
            .memtable_bytes()
            .clamp(SEGMENT_BYTES_MIN, options.log.segment_bytes);
        options.log.pending_bytes_max = (self.memory_bytes / 16).min(PENDING_BYTES_MAX) as usize;
        options
    }
}
