//! What a test sets up on the simulated machine: disks and faults.

use super::SimEnv;
use super::disks::{Absence, Latency};
use super::faults::{Fault, FaultPlan, ReadFault};
use super::tree::names_of;
use crate::{Error, Result};
use std::path::Path;

/// Disks.
impl SimEnv {
    /// Sets the size of the disk. Calls that would exceed it fail with ENOSPC: appends outside
    /// reserved space, reservations, and new names on a full disk. Names and directories take no
    /// space.
    pub fn set_capacity(&self, bytes: u64) {
        self.set_capacity_below(Path::new("/"), bytes);
    }

    /// Makes a directory a disk of its own, of this size. The directory need not exist yet.
    pub fn set_capacity_below(&self, dir: &Path, bytes: u64) {
        self.machine
            .with(|state| state.capacities.0.insert(names_of(dir), bytes));
    }

    /// Sets the latency of the disks. The clock then moves with each call, and nothing else does:
    /// jobs that become due meanwhile run when a caller waits.
    pub fn set_latency(&self, latency: Latency) {
        self.machine.with(|state| state.latency = latency);
    }

    /// Takes away the disk mounted at `dir`, with a power cut: unsynced data is lost, kept or torn
    /// as by a crash.
    ///
    /// Open files of it fail with EIO from now on, even when it is back. `absence` decides what
    /// `dir` shows meanwhile. [`bring_back`](Self::bring_back), [`heal`](Self::heal) and
    /// [`after_crash`](Self::after_crash) bring the disk back.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory; `Io` for the root or a file.
    pub fn vanish(&self, dir: &Path, absence: Absence) -> Result<()> {
        let gone = self.machine.with(|state| state.vanish(dir, absence));
        gone.map_err(|e| Error::io("take away", dir, e))
    }

    /// Takes away the disk mounted at `dir` just before step `step`, as [`vanish`](Self::vanish)
    /// does; nothing happens if that directory does not exist then.
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

/// Faults of steps and reads. A step that fails is not carried out, except that a prefix of an
/// append may be written.
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
    /// A file whose sync failed never becomes durable again, although later syncs of it return
    /// success: the real system drops pages that it could not write, and reports that once.
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

    /// Makes every read of a file, or of all files below a directory, fail with EIO from now on.
    pub fn fail_reads_of(&self, path: &Path) {
        self.machine
            .with(|state| state.plan.fail_reads_of = Some(path.to_path_buf()));
    }

    /// Removes all planned faults and crashes, and brings back every disk that has vanished. Size
    /// and speed of the disks stay.
    pub fn heal(&self) {
        self.machine.with(|state| {
            state.plan = FaultPlan::default();
            state.tree.bring_all_back();
            state.note(format_args!("heal"));
        });
    }
}
