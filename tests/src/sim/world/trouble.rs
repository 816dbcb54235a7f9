//! The faults of the machine, and the errors that they excuse.

use super::World;
use quire_env::{Absence, Fault, Latency, ReadFault};
use quiredb::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Free bytes of a disk that does not fill.
const ROOMY: u64 = 1 << 40;

/// The faults that may happen now. They last until all faults end and the database was opened
/// again, or, for a full disk, until there is space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trouble {
    /// None: any error is a failure of the test.
    None,
    /// The disk may be full: errors are `Full`, and nothing becomes read-only by that.
    Full,
    /// Any step may fail.
    Any,
}

/// The faults that reads may meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reads {
    /// No fault.
    Whole,
    /// A device that fails.
    Failing,
    /// Fewer bytes than the file has, or other bytes: errors may report damage.
    Damaged,
}

impl World {
    /// Fails the test unless the present faults may cause this error.
    #[track_caller]
    pub(super) fn accept(&self, error: &Error, doing: &str) {
        if self.env.crashed() {
            return;
        }
        self.excused.set(self.excused.get() + 1);
        let kind = error.kind();
        match self.trouble {
            Trouble::None => panic!("{doing}: {error} ({kind:?}), on a machine that is well"),
            Trouble::Full => assert_eq!(kind, ErrorKind::Full, "{doing} on a full disk: {error}"),
            Trouble::Any if kind == ErrorKind::Corrupt && self.reads == Reads::Damaged => {}
            // A fault is not damage, and the call was not wrong.
            Trouble::Any => assert!(
                matches!(
                    kind,
                    ErrorKind::Io | ErrorKind::Full | ErrorKind::ReadOnly | ErrorKind::Closed
                ),
                "{doing} on a failing machine: {error} ({kind:?})"
            ),
        }
    }

    /// As [`accept`](World::accept), for the result of a call. `None` after an error.
    #[track_caller]
    pub(super) fn accepted<T>(&self, outcome: quiredb::Result<T>, doing: &str) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(error) => {
                self.accept(&error, doing);
                None
            }
        }
    }

    /// A fault is planned, before or between operations: any error is allowed from now on.
    pub(crate) fn allow_faults(&mut self) {
        self.trouble = Trouble::Any;
    }

    pub(super) fn crash_in(&mut self, steps: u32, seed: u64) {
        self.env.crash_at(self.env.operations() + u64::from(steps));
        self.crash_seed = seed;
    }

    pub(super) fn fail_in(&mut self, steps: u32, full: bool, lasting: bool) {
        let fault = if full { Fault::Enospc } else { Fault::Eio };
        let step = self.env.operations() + u64::from(steps);
        match lasting {
            true => self.env.fail_from(step, fault),
            false => self.env.fail_at(step, fault),
        }
        self.allow_faults();
    }

    pub(super) fn fail_read_in(&mut self, reads: u32, short: bool, lasting: bool) {
        let (fault, meet) = match short {
            true => (ReadFault::Short, Reads::Damaged),
            false => (ReadFault::Eio, Reads::Failing),
        };
        let read = self.env.reads() + u64::from(reads);
        match lasting {
            true => self.env.fail_reads_from(read, fault),
            false => self.env.fail_read_at(read, fault),
        }
        self.reads = self.reads.max(meet);
        self.allow_faults();
    }

    pub(super) fn fail_syncs(&mut self) {
        self.env.fail_syncs(true);
        self.allow_faults();
    }

    /// Takes a disk away, if it exists.
    pub(super) fn vanish(&mut self, volume: u32) {
        let Some(dir) = self.volume_dir(volume) else {
            return;
        };
        if self.env.vanish(&dir, Absence::Failing).is_ok() {
            self.vanished = true;
            self.reads = self.reads.max(Reads::Failing);
            self.allow_faults();
        }
    }

    pub(super) fn volume_dir(&self, volume: u32) -> Option<PathBuf> {
        let volume = self.volumes.iter().nth(volume as usize - 1)?;
        Some(volume.path.clone())
    }

    pub(super) fn slow(&mut self, micros: u32) {
        let time = Duration::from_micros(micros.into());
        self.env.set_latency(Latency {
            per_operation: time,
            per_mib: time,
            jitter: time,
        });
    }

    pub(super) fn fill(&mut self, disk: &Path, spare: u32) {
        self.env.set_capacity_below(disk, ROOMY);
        let used = self.env.used_bytes(disk);
        self.env.set_capacity_below(disk, used + u64::from(spare));
        self.filled = true;
        self.trouble = self.trouble.max(Trouble::Full);
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self) {
        // This removes a planned crash, too.
        self.env.heal();
        self.undo_rot();
        self.vanished = false;
        for disk in self.volumes.iter() {
            self.env.set_capacity_below(&disk.path, ROOMY);
        }
        self.env.set_capacity(ROOMY);
        self.filled = false;
        if self.trouble == Trouble::Full {
            self.trouble = Trouble::None;
        }
    }

    /// The database is not opened while a disk is gone or holds damaged bytes: it could not tell
    /// what is there from what was not finished.
    pub(super) fn well_for_opening(&mut self) {
        if self.vanished {
            self.heal();
        }
        self.undo_rot();
    }

    /// All faults have ended, with all their effects.
    pub(super) fn end_trouble(&mut self) {
        self.trouble = Trouble::None;
        self.reads = Reads::Whole;
        self.vanished = false;
    }
}
