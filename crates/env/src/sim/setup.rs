//! What a test sets up on the simulated machine: disks and faults.

use super::SimEnv;
use super::disks::{Absence, Latency};
use super::faults::{Fault, FaultPlan, ReadFault};
use super::tree::names_of;
use crate::{Error, Result};
use std::path::Path;

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

/// Faults of steps and reads. A step that fails is not carried out, but for an append, of which a
/// first part may be.
impl SimEnv {
    /// Makes step `step` fail.
    pub fn fail_at(&self, step: u64, fault: Fault) {
        self.machine
            .with(|state| state.plan.fail_at.insert(step, fault));
    }

    /// Makes step `step` and every later one fail.
    pub fn fail_from(&self, step: u64, fault: Fault) {
        self.machine
            .with(|state| state.plan.fail_from = Some((step, fault)));
    }

    /// Makes every sync of a file or a directory fail with EIO from now on, or no longer.
    ///
    /// A file whose sync failed never keeps anything again, although later syncs of it return
    /// success: the real machine forgets what it could not write, and says so once.
    pub fn fail_syncs(&self, fail: bool) {
        self.machine.with(|state| state.plan.fail_syncs = fail);
    }

    /// Makes read `read` fail; [`reads`](Self::reads) is the number of the next one.
    pub fn fail_read_at(&self, read: u64, fault: ReadFault) {
        self.machine
            .with(|state| state.plan.fail_read_at.insert(read, fault));
    }

    /// Makes read `read` and every later one fail.
    pub fn fail_reads_from(&self, read: u64, fault: ReadFault) {
        self.machine
            .with(|state| state.plan.fail_reads_from = Some((read, fault)));
    }

    /// Makes every read of a file, or of all below a directory, fail with EIO from now on.
    pub fn fail_reads_of(&self, path: &Path) {
        self.machine
            .with(|state| state.plan.fail_reads_of = Some(path.to_path_buf()));
    }

    /// Forgets all faults and crashes that are planned, and brings back every disk that is gone.
    /// The size and the speed of the disks stay.
    pub fn heal(&self) {
        self.machine.with(|state| {
            state.plan = FaultPlan::default();
            state.tree.bring_all_back();
            state.note(format_args!("heal"));
        });
    }
}
