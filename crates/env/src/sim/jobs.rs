//! Background jobs of the simulator. They are queued and run one at a time, when a caller waits at
//! a gate or a test says so, never inside another call.
//!
//! # Invariants
//! 1. Jobs of a class start in order of their due time; those with the same due time, in order of
//!    arrival. The seed decides which class goes first when several are due.
//! 2. The clock moves to the due time of a job only when no other job is due before it.

use super::rng::Rng;
use crate::job::{Job, JobClass};
use std::collections::BTreeMap;
use std::time::Duration;

/// By due time and order of arrival.
type Queue = BTreeMap<(Duration, u64), Job>;

/// The jobs that have not started.
#[derive(Default)]
pub(super) struct Jobs {
    flush: Queue,
    compaction: Queue,
    derive: Queue,
    arrived: u64,
}

impl Jobs {
    pub(super) fn push(&mut self, class: JobClass, due: Duration, job: Job) {
        let key = (due, self.arrived);
        self.arrived += 1;
        self.queue(class).insert(key, job);
    }

    fn queue(&mut self, class: JobClass) -> &mut Queue {
        match class {
            JobClass::Flush => &mut self.flush,
            JobClass::Compaction => &mut self.compaction,
            JobClass::Derive => &mut self.derive,
        }
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        let first = |queue: &Queue| queue.keys().next().map(|(due, _)| *due);
        let queues = [&self.flush, &self.compaction, &self.derive];
        queues.into_iter().filter_map(first).min()
    }

    /// A job that is due at `now`.
    pub(super) fn take(&mut self, now: Duration, rng: &mut Rng) -> Option<(JobClass, Job)> {
        let is_due = |queue: &Queue| queue.keys().next().is_some_and(|(due, _)| *due <= now);
        let (mut chosen, mut count) = (None, 0);
        for class in [JobClass::Flush, JobClass::Compaction, JobClass::Derive] {
            if is_due(self.queue(class)) {
                count += 1;
                // Each of those that are due as likely.
                if count == 1 || rng.one_in(count) {
                    chosen = Some(class);
                }
            }
        }
        let class = chosen?;
        let ((due, _), job) = self.queue(class).pop_first()?;
        assert!(due <= now, "no job starts before it is due");
        Some((class, job))
    }
}
