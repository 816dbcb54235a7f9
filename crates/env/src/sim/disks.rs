//! The disks of the machine: how large and how fast they are, and disks that go away.
//!
//! # Invariants
//! 1. A path is on the disk of the longest directory given to `set_capacity_below` that it lies in,
//!    else on the one that `set_capacity` is about.
//! 2. A disk that vanishes keeps what a power cut would have left of it. A handle to a file of it
//!    never works again.

use std::collections::BTreeMap;
use std::time::Duration;

/// What is found where a disk was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// Every call that goes there fails with EIO: the device is gone, the mount is not.
    Failing,
    /// An empty directory, which can be written to: the mount point that no disk is mounted at.
    /// What is written there is hidden, and not on the disk, when the disk is back.
    Unmounted,
}

/// What the calls that go to a disk take, beside the microsecond that every call takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latency {
    /// Of each step and each read.
    pub per_operation: Duration,
    /// Of each MiB read, appended or synced.
    pub per_mib: Duration,
    /// Up to so much more for each step and each read, as the seed decides.
    pub jitter: Duration,
}

/// Sizes of the disks in bytes, by the names that lead to where each is mounted.
#[derive(Debug, Clone, Default)]
pub(super) struct Capacities(pub(super) BTreeMap<Vec<String>, u64>);

impl Capacities {
    /// Where the disk is mounted that holds these names.
    pub(super) fn mount_of<'a>(&'a self, names: &[String]) -> &'a [String] {
        let mounts = self.0.keys().filter(|mount| names.starts_with(mount));
        mounts
            .max_by_key(|mount| mount.len())
            .map_or(&[], Vec::as_slice)
    }

    /// The size of the disk mounted there; none if it does not fill.
    pub(super) fn of(&self, mount: &[String]) -> Option<u64> {
        self.0.get(mount).copied()
    }
}
