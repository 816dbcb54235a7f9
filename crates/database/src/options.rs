//! The options of an open database.

use crate::{Error, Result};
use quire_env::IoLimits;
use std::time::Duration;

/// The least memory that a database can work in.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

/// Options of an open database. They are given each time it is opened; none of them is stored.
/// [`DatabaseBuilder`](crate::DatabaseBuilder) has a method for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// Make the database if the directory is absent or empty. Default true.
    pub create_if_missing: bool,
    /// What memtables, caches and buffers may hold, in bytes. More holds more of the data in
    /// memory; what the process takes beyond it is code, stacks and the requests under way. Default
    /// 256 MiB, at least 16 MiB.
    pub memory_bytes: u64,
    /// Record bytes of a partition after which its memtables are flushed even if they are small, so
    /// that opening after a crash replays a bounded part of the log. Default 256 MiB.
    pub replay_bytes_max: u64,
    /// Size of a log segment in bytes. Default 256 MiB.
    pub segment_bytes: u64,
    /// Every byte of every file is read and checked in the background once in this time, evenly
    /// spread, so that bytes that rot are found early; off if `None`. A shorter time takes more of
    /// the disk. Default 7 days.
    pub scrub_period: Option<Duration>,
    /// The least percentage of live documents in the log's sealed segments: below it, segments are
    /// compacted in the background. At 80 they take up to 1.25 times what is live in them. More
    /// saves disk; less copies less. Default 80, at most 99; 0 compacts the log only by
    /// [`Collection::compact`](crate::Collection::compact).
    pub log_live_percent: u32,
    /// Whether background jobs change documents: delete them as the
    /// [retention](crate::CollectionSettings::retention_secs) of their collections says, and move
    /// cells between the tiers of column groups. Off for a database that follows another one: it
    /// gets that one's deletions and moves. Default true.
    pub retention: bool,
    /// How the disks of named volumes admit I/O and compactions, all alike; by their media if
    /// `None`, the default. The first database of a process that uses a disk decides.
    pub io: Option<IoLimits>,
    /// Whether disks of named volumes have an I/O manager and a compaction limiter. Default true;
    /// false is for measuring what they are worth.
    pub io_manager: bool,
}

impl Default for DatabaseOptions {
    fn default() -> DatabaseOptions {
        DatabaseOptions {
            create_if_missing: true,
            memory_bytes: 256 << 20,
            replay_bytes_max: 256 << 20,
            segment_bytes: 256 << 20,
            scrub_period: Some(Duration::from_secs(7 * 24 * 3600)),
            log_live_percent: 80,
            retention: true,
            io: None,
            io_manager: true,
        }
    }
}

impl DatabaseOptions {
    pub(crate) fn check(&self) -> Result<()> {
        if self.memory_bytes < MEMORY_BYTES_MIN {
            let what = format!(
                "memory_bytes is {}; a database needs at least {MEMORY_BYTES_MIN}",
                self.memory_bytes
            );
            return Err(Error::Invalid(what));
        }
        if self
            .scrub_period
            .is_some_and(|period| period < Duration::from_secs(1))
        {
            let what = "scrub_period must be at least a second".to_string();
            return Err(Error::Invalid(what));
        }
        if self.log_live_percent > 99 {
            let what = format!(
                "log_live_percent is {}; it must be 0 to 99",
                self.log_live_percent
            );
            return Err(Error::Invalid(what));
        }
        Ok(())
    }
}
