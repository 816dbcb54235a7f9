//! The disks of the machine: how large and how fast they are, and disks that go away.
//!
//! # Invariants
//! 1. A path is on the disk of the longest directory given to `set_capacity_below` that it lies in,
//!    else on the one that `set_capacity` is about.
//! 2. A disk that vanishes keeps what a power cut would have left of it. A handle to a file of it
//!    never works again.

use super::SimEnv;
use super::machine::State;
use super::rng::Rng;
use super::tree::names_of;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
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

/// Disks.
impl SimEnv {
    /// Gives the disk a size. What would take it past that fails with ENOSPC: appends outside
    /// reserved room, reserves, and new names on a disk that is full. Names and directories take no
    /// room.
    pub fn set_capacity(&self, bytes: u64) {
        self.set_capacity_below(Path::new("/"), bytes);
    }

    /// Makes a directory a disk of its own, of this size. The directory need not exist yet.
    pub fn set_capacity_below(&self, dir: &Path, bytes: u64) {
        self.machine
            .with(|state| state.capacities.0.insert(names_of(dir), bytes));
    }

    /// Makes the disks slow. The clock then moves with each call, and nothing else does: jobs that
    /// become due meanwhile run when somebody waits.
    pub fn set_latency(&self, latency: Latency) {
        self.machine.with(|state| state.latency = latency);
    }

    /// Takes away the disk mounted at `dir`, power and all: what was not synced is lost, kept or
    /// torn as by a crash.
    ///
    /// Files of it that are open fail with EIO from now on, even when it is back. What `dir` shows
    /// meanwhile is `absence`'s choice. [`bring_back`](Self::bring_back), [`heal`](Self::heal) and
    /// [`after_crash`](Self::after_crash) bring it back.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory; `Io` for the root or a file.
    pub fn vanish(&self, dir: &Path, absence: Absence) -> Result<()> {
        let gone = self.machine.with(|state| state.vanish(dir, absence));
        gone.map_err(|e| Error::io("take away", dir, e))
    }

    /// Takes away the disk mounted at `dir` just before step `step`, as [`vanish`](Self::vanish)
    /// does; nothing happens if there is no such directory then.
    pub fn vanish_at(&self, step: u64, dir: &Path, absence: Absence) {
        self.machine.with(|state| {
            state.plan.vanish_at = Some((step, dir.to_path_buf(), absence));
        });
    }

    /// Brings back a disk that has vanished; no error if it has not.
    pub fn bring_back(&self, dir: &Path) {
        self.machine.with(|state| {
            state.tree.bring_back(dir);
            state.note(format_args!("bring back {}", dir.display()));
        });
    }
}

impl State {
    pub(super) fn vanish(&mut self, dir: &Path, absence: Absence) -> io::Result<()> {
        let mut rng = Rng::new(self.rng.next());
        let cover = absence == Absence::Unmounted;
        self.tree.vanish(dir, cover, &mut rng)?;
        self.losses.push(names_of(dir));
        self.note(format_args!("vanish {} {absence:?}", dir.display()));
        Ok(())
    }
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
