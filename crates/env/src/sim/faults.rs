//! What goes wrong, and when.

use rustix::io::Errno;
use std::collections::BTreeMap;

/// An error of the machine that a test asks for.
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

/// What interrupts an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// The machine stops; the operation may have been carried out, in part or whole.
    Crash,
    /// The operation fails.
    Fault(Errno),
}

/// The faults asked for, by step.
#[derive(Debug, Default)]
pub(super) struct FaultPlan {
    pub(super) crash_at: Option<u64>,
    pub(super) fail_at: BTreeMap<u64, Fault>,
    pub(super) fail_from: Option<(u64, Fault)>,
    pub(super) fail_syncs: bool,
}

impl FaultPlan {
    /// What interrupts the operation that is step `step`.
    pub(super) fn at(&self, step: u64, is_sync: bool) -> Option<Interruption> {
        if self.crash_at.is_some_and(|crash_step| step >= crash_step) {
            return Some(Interruption::Crash);
        }
        let from = self
            .fail_from
            .filter(|(from, _)| step >= *from)
            .map(|(_, fault)| fault);
        let sync = (is_sync && self.fail_syncs).then_some(Fault::Eio);
        let fault = self.fail_at.get(&step).copied().or(from).or(sync);
        fault.map(|fault| Interruption::Fault(fault.errno()))
    }
}
