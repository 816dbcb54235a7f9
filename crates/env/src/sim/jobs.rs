//! Background work in the simulator: jobs queue up and run one at a time, while somebody waits at a
//! gate or when the test says so, never inside another call.
//!
//! # Invariants
//! 1. Jobs of a class start in order of their due time, and of their arrival where that is equal;
//!    which class goes first when both are due is the seed's choice.
//! 2. The clock is moved to a job's due time only when no other job is due before.

use super::machine::Machine;
use super::rng::Rng;
use crate::{Gate, Job, JobClass};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// By due time and order of arrival.
type Queue = BTreeMap<(Duration, u64), Job>;

/// The jobs that have not started.
#[derive(Default)]
pub(super) struct Jobs {
    flush: Queue,
    compaction: Queue,
    arrived: u64,
}

impl Jobs {
    pub(super) fn push(&mut self, class: JobClass, due: Duration, job: Job) {
        let key = (due, self.arrived);
        self.arrived += 1;
        match class {
            JobClass::Flush => self.flush.insert(key, job),
            JobClass::Compaction => self.compaction.insert(key, job),
        };
    }

    fn next_due(&self) -> Option<Duration> {
        let first = |queue: &Queue| queue.keys().next().map(|(due, _)| *due);
        [first(&self.flush), first(&self.compaction)]
            .into_iter()
            .flatten()
            .min()
    }

    /// A job that is due at `now`.
    fn take(&mut self, now: Duration, rng: &mut Rng) -> Option<(JobClass, Job)> {
        let is_due = |queue: &Queue| queue.keys().next().is_some_and(|(due, _)| *due <= now);
        let class = match (is_due(&self.flush), is_due(&self.compaction)) {
            (false, false) => return None,
            (true, true) if rng.one_in(2) => JobClass::Compaction,
            (true, _) => JobClass::Flush,
            (false, true) => JobClass::Compaction,
        };
        let queue = match class {
            JobClass::Flush => &mut self.flush,
            JobClass::Compaction => &mut self.compaction,
        };
        queue.pop_first().map(|(_, job)| (class, job))
    }
}

impl Machine {
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
    machine: Arc<Machine>,
    /// Counts calls of `notify`.
    epoch: AtomicU64,
}

impl SimGate {
    pub(super) fn new(machine: Arc<Machine>) -> SimGate {
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
            // As on the real machine, jobs get on even while a caller polls with no timeout at all,
            // and only what is notified is looked at before the time is up.
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
