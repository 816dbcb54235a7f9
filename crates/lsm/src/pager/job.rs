//! Job: when the pager looks at its pages.
//!
//! Filters hold it too. It does not hold the pager, so that neither keeps the other.

use parking_lot::Mutex;
use quire_env::{Env, JobClass};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A job in the background that runs after requests, and not too often.
pub(crate) struct Job {
    env: Arc<dyn Env>,
    /// Does the work; true if there is more.
    run: Box<dyn Fn() -> bool + Send + Sync>,
    scheduled: AtomicBool,
    /// It does not run before this, by the monotonic clock.
    earliest: Mutex<Duration>,
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("scheduled", &self.scheduled)
            .finish_non_exhaustive()
    }
}

impl Job {
    /// A job that does `run`, and does so again at once if that returns true.
    pub(super) fn new(
        env: Arc<dyn Env>,
        earliest: Duration,
        run: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Arc<Job> {
        Arc::new(Job {
            env,
            run,
            scheduled: AtomicBool::new(false),
            earliest: Mutex::new(earliest),
        })
    }

    /// Sets when it runs next at the earliest.
    pub(super) fn not_before(&self, earliest: Duration) {
        *self.earliest.lock() = earliest;
    }

    /// Has it run, if it is not due already.
    pub(crate) fn wake(self: &Arc<Self>) {
        if self.scheduled.load(Ordering::Relaxed) || self.scheduled.swap(true, Ordering::Relaxed) {
            return;
        }
        let earliest = *self.earliest.lock();
        self.schedule(earliest.saturating_sub(self.env.monotonic()));
    }

    fn schedule(self: &Arc<Self>, after: Duration) {
        // It does not keep the machine, which this holds, from being dropped.
        let job = Arc::downgrade(self);
        let run = Box::new(move || {
            if let Some(job) = job.upgrade() {
                match (job.run)() {
                    true => job.schedule(Duration::ZERO),
                    false => job.scheduled.store(false, Ordering::Relaxed),
                }
            }
        });
        self.env.schedule(JobClass::Flush, after, run);
    }
}
