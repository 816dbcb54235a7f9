//! How a store is opened.

use crate::DerivedTrees;
use quire_log::{Codec, LogOptions};
use quire_lsm::TreeSpec;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The log's.
    pub log: LogOptions,
    /// Trees that are to be shaped otherwise than [`Machine::trees`](crate::Machine::trees) says,
    /// by their ids.
    pub trees: Vec<TreeSpec>,
    /// The derived trees that the store is opened with. Those that its manifest does not name are
    /// not there before [`Store::add_trees`](crate::Store::add_trees); those that it names and that
    /// are not given here stay on disk, are not read, and are built anew once they are given again.
    pub derived: Vec<Arc<dyn DerivedTrees>>,
    /// Record bytes after which derived trees are brought up to date in the background: at most
    /// about this much is not in them yet. Eight times as much while nobody reads them, as when a
    /// collection is loaded. A flush brings them up to date too. Default 1 MiB.
    pub derived_lag_bytes: u64,
    /// The time after which derived trees are brought up to date with a record that was published,
    /// if that has not happened before. Eight times as long while nobody reads them. Default 50 ms.
    pub derived_lag: Duration,
    /// Record bytes after which memtables are flushed even if they are small, so that opening
    /// replays a bounded part of the log. More makes larger, fewer flushes; less makes opening
    /// after a crash faster. Default 256 MiB.
    pub replay_bytes_max: u64,
    /// How much of the sealed part of the log is to be live, 0 to 100 percent: as long as less of
    /// it is, segments are compacted. So at 80 it takes up to 1.25 times what is live in it. More
    /// saves disk; less copies less. Default 80.
    pub log_live_percent: u32,
    /// The dead bytes of records that the newest segment may hold at least, or that may wait for a
    /// flush: past it, and half of what is live, the segment is sealed and memtables are flushed,
    /// so that compaction gives the space back. Less gives back sooner; more copies less. Default
    /// 32 MiB.
    pub dead_bytes_min: u64,
    /// Whether all of the log stays, also what a flush would drop, where it is not kept anyway:
    /// until the owner advances or drops [the hold](crate::Store::take_opening_hold) on it. Default
    /// false.
    pub log_held: bool,
    /// The newest segment of the log is sealed this long after its first record; only at its size
    /// if `None`, the default.
    pub segment_age: Option<Duration>,
}

/// Settings of a store's log that may change while it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// As of [`LogOptions`], for segments begun from now on.
    pub block_bytes: usize,
    /// As of [`LogOptions`], for segments begun from now on.
    pub codec: Codec,
    /// As of [`StoreOptions`], from the next record on.
    pub segment_age: Option<Duration>,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            log: LogOptions::default(),
            trees: Vec::new(),
            derived: Vec::new(),
            derived_lag_bytes: 1 << 20,
            derived_lag: Duration::from_millis(50),
            replay_bytes_max: 256 << 20,
            log_live_percent: 80,
            dead_bytes_min: 32 << 20,
            log_held: false,
            segment_age: None,
        }
    }
}
