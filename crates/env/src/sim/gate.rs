//! The simulator's gate: a caller that waits at it runs the background jobs.

use super::machine::SimMachine;
use crate::job::Gate;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

impl SimMachine {
    /// Runs one job that is due. False if there is none.
    pub(super) fn run_due_job(&self) -> bool {
        let job = self.with(|state| {
            let (class, job) = state.jobs.take(state.clock(), &mut state.rng)?;
            state.note(format_args!("run {class:?} job"));
            Some(job)
        });
        match job {
            Some(job) => {
                job();
                true
            }
            None => false,
        }
    }

    /// Runs one job, moving the clock to its due time if that is not past `deadline`. False if
    /// there is none; the clock is then at `deadline`.
    fn run_job_until(&self, deadline: Duration) -> bool {
        self.with(|state| {
            let due = state
                .jobs
                .next_due()
                .map_or(deadline, |due| due.min(deadline));
            state.advance(due.saturating_sub(state.clock()));
        });
        self.run_due_job()
    }

    /// Runs one job, whenever it is due. False if there is none.
    pub(super) fn run_next_job(&self) -> bool {
        let due = self.with(|state| state.jobs.next_due());
        due.is_some_and(|due| self.run_job_until(due))
    }
}

/// The simulator's [`Gate`].
pub(super) struct SimGate {
    machine: Arc<SimMachine>,
    /// Counts calls of `notify`.
    epoch: AtomicU64,
}

impl SimGate {
    pub(super) fn new(machine: Arc<SimMachine>) -> SimGate {
        SimGate {
            machine,
            epoch: AtomicU64::new(0),
        }
    }
}

impl fmt::Debug for SimGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimGate")
            .field("epoch", &self.epoch)
            .finish()
    }
}

impl Gate for SimGate {
    fn notify(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    fn wait_until(&self, ready: &mut dyn FnMut() -> bool, timeout: Duration) -> bool {
        let clock = || self.machine.with(|state| state.clock());
        let deadline = clock().saturating_add(timeout);
        loop {
            let seen = self.epoch.load(Ordering::SeqCst);
            if ready() {
                return true;
            }
            // As on the real machine, jobs run even while a caller polls with no timeout at all,
            // and `ready` is called early only after a `notify`.
            let mut running = self.machine.run_job_until(deadline);
            while running && self.epoch.load(Ordering::SeqCst) == seen && clock() < deadline {
                running = self.machine.run_job_until(deadline);
            }
            if !running || clock() >= deadline {
                return ready();
            }
        }
    }
}
