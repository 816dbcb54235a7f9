//! The disks of the machine: their size, their speed, and disks that vanish.
//!
//! # Invariants
//! 1. A path is on the disk of the longest directory given to `set_capacity_below` that contains
//!    it; otherwise on the disk of `set_capacity`.
//! 2. A disk that vanishes keeps what a power cut would have left of it. An open handle to one of
//!    its files never works again.

use std::collections::BTreeMap;
use std::time::Duration;

/// What is found in place of a disk that has vanished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// Every call to it fails with EIO: the device is gone, and still mounted.
    Failing,
    /// An empty directory, which can be written to: the mount point without its disk. Files written
    /// there are hidden, and not on the disk, when the disk is back.
    Unmounted,
}

/// The time that calls to a disk take, besides the microsecond of every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latency {
    /// For each step and each read.
    pub per_operation: Duration,
    /// For each MiB read, appended or synced.
    pub per_mib: Duration,
    /// At most this much more for each step and each read, as the seed decides.
    pub jitter: Duration,
}

/// Sizes of the disks in bytes, by the names of the directory where each is mounted.
#[derive(Debug, Clone, Default)]
pub(super) struct Capacities(pub(super) BTreeMap<Vec<String>, u64>);

impl Capacities {
    /// Where the disk that holds these names is mounted.
    pub(super) fn mount_of<'a>(&'a self, names: &[String]) -> &'a [String] {
        let mounts = self.0.keys().filter(|mount| names.starts_with(mount));
        mounts
            .max_by_key(|mount| mount.len())
            .map_or(&[], Vec::as_slice)
    }

    /// The size of the disk mounted there; `None` if it never fills.
    pub(super) fn of(&self, mount: &[String]) -> Option<u64> {
        self.0.get(mount).copied()
    }
}
