//! Fault injection: what fails, and when.

use super::disks::Absence;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// An error of a step that a test injects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device fails.
    Eio,
    /// The disk is full.
    Enospc,
}

impl Fault {
    pub(super) fn errno(self) -> Errno {
        match self {
            Fault::Eio => Errno::IO,
            Fault::Enospc => Errno::NOSPC,
        }
    }
}

/// An error of a read that a test injects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFault {
    /// The device fails.
    Eio,
    /// The bytes end before the requested ones, as if the file were shorter: `UnexpectedEnd`. A
    /// read that the system only splits is no fault: `Env` and `ReadFile` continue until they have
    /// all bytes. Reads that return no bytes of a file (a list, a length) are carried out.
    Short,
}

/// What interrupts an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// The machine stops; the operation may have been carried out, partly or wholly.
    Crash,
    /// The operation fails.
    Fault(Errno),
}

/// The planned faults, by step and by read.
#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    pub(super) crash_at: Option<u64>,
    pub(super) fail_at: BTreeMap<u64, Fault>,
    pub(super) fail_from: Option<(u64, Fault)>,
    pub(super) fail_syncs: bool,
    pub(super) fail_read_at: BTreeMap<u64, ReadFault>,
    pub(super) fail_reads_from: Option<(u64, ReadFault)>,
    pub(super) fail_reads_of: Option<PathBuf>,
    pub(super) vanish_at: Option<(u64, PathBuf, Absence)>,
}

impl FaultPlan {
    /// What interrupts the operation that is step `step`.
    pub(super) fn at(&self, step: u64, is_sync: bool) -> Option<Interruption> {
        if self.crash_at.is_some_and(|crash_step| step >= crash_step) {
            return Some(Interruption::Crash);
        }
        let from = since(self.fail_from, step);
        let sync = (is_sync && self.fail_syncs).then_some(Fault::Eio);
        let fault = self.fail_at.get(&step).copied().or(from).or(sync);
        fault.map(|fault| Interruption::Fault(fault.errno()))
    }

    /// How read `read`, of `path`, fails. `of_bytes`: it reads bytes of a file.
    pub(super) fn at_read(&self, read: u64, path: &Path, of_bytes: bool) -> io::Result<()> {
        let of_file = self.fail_reads_of.as_deref();
        let of_file = of_file.filter(|bad| path.starts_with(bad));
        let fault = self.fail_read_at.get(&read).copied();
        let fault = fault
            .or(since(self.fail_reads_from, read))
            .or(of_file.map(|_| ReadFault::Eio));
        match fault {
            Some(ReadFault::Eio) => Err(Errno::IO.into()),
            Some(ReadFault::Short) if of_bytes => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(ReadFault::Short) | None => Ok(()),
        }
    }
}

/// The fault that applies from a number on.
fn since<F>(from: Option<(u64, F)>, now: u64) -> Option<F> {
    from.filter(|(first, _)| now >= *first)
        .map(|(_, fault)| fault)
}
