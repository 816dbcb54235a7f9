//! Figures about keys and values.

use quire_log::LogStats;
use quire_lsm::{FilterPagerStats, TreeStats};
use std::time::Duration;

/// Figures, since the opening where they count events.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KvStats {
    /// Memory that may be used, in bytes.
    pub memory_bytes: u64,
    /// Memory of memtables, in bytes.
    pub memtable_bytes: u64,
    /// Memory of the block cache, in bytes.
    pub cache_bytes: u64,
    /// Blocks found in the cache.
    pub cache_hits: u64,
    /// Blocks not found there.
    pub cache_misses: u64,
    /// The pages of filters, and which of them are in memory.
    pub filters: FilterPagerStats,
    /// The tree.
    pub tree: TreeStats,
    /// The log.
    pub log: LogStats,
    /// Bytes of log files that were dropped.
    pub log_dropped_bytes: u64,
    /// Writes done.
    pub writes: u64,
    /// Writes that were slowed or waited because memory was short.
    pub stalls: u64,
    /// How long they waited in all, in microseconds.
    pub stall_micros: u64,
    /// The longest that one write waited, in microseconds.
    pub stall_micros_max: u64,
    /// Memtables written out.
    pub flushes: u64,
    /// Compactions done.
    pub compactions: u64,
    /// Views and iterators that are not dropped yet.
    pub views: u64,
    /// The age of the oldest of them: it holds the files and memtables of its time.
    pub view_age: Option<Duration>,
    /// Why background work last failed, if it did and has not succeeded since.
    pub background_error: Option<String>,
}
