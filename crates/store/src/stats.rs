//! Figures about one store.

use crate::TreeFigures;
use quire_log::LogStats;
use quire_model::Position;

/// Figures about one store, since it was opened where they count events.
#[derive(Debug, Clone)]
pub struct StoreStats {
    /// The last record that views see.
    pub position: Position,
    /// The position that the table files are at: replay begins after it.
    pub applied: Position,
    /// The log.
    pub log: LogStats,
    /// Each tree that the manifest names.
    pub trees: Vec<TreeFigures>,
    /// Records written.
    pub records: u64,
    /// Writes (groups of records) done.
    pub writes: u64,
    /// Writes that were slowed or waited because memory was short.
    pub stalls: u64,
    /// How long they waited in all, in microseconds.
    pub stall_micros: u64,
    /// The longest that one write waited, in microseconds.
    pub stall_micros_max: u64,
    /// Flushes of memtables that had something in them, and all that were called for.
    pub flushes: u64,
    /// Compactions done, of trees.
    pub compactions: u64,
    /// Bytes of records in the log that later ones have superseded, and that compaction can
    /// reclaim.
    pub log_dead_bytes: u64,
    /// Segments of which that is not known yet: compaction will count it.
    pub segments_uncounted: u64,
    /// Segments of which it was known, and wrong: compaction found another number of bytes, and
    /// goes by that. A sum that is wrong is a bug.
    pub segments_miscounted: u64,
    /// Log segments that were rewritten or merged.
    pub segments_compacted: u64,
    /// Bytes of log files that this gave back.
    pub log_bytes_reclaimed: u64,
    /// Records that derived trees have followed.
    pub derived_records: u64,
    /// How long following and building derived trees took in all, in microseconds.
    pub derive_micros: u64,
    /// Why the job that builds derived trees last failed, if it did and has not succeeded since.
    pub derive_error: Option<String>,
    /// Why background work last failed, if it did and has not succeeded since.
    pub background_error: Option<String>,
    /// How many writes were visible how long after they were applied, by the bounds of
    /// [`Delays`](crate::Delays).
    pub visible_delays: Vec<u64>,
    /// The sum of these times, in microseconds.
    pub visible_delay_micros: u64,
}
