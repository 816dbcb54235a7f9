//! [`PartitionJob`]: work in the background on a partition of a wide collection, step by step, by
//! the newest schema.
//!
//! # Invariants
//! 1. A job keeps nothing alive between its steps, and a step is short: other background work comes
//!    between.
//! 2. Of several jobs of a kind for one partition, only the one of the newest schema goes on.
//! 3. A step waits until the bytes of the one before have had their time, and while disks or memory
//!    are busy.
//! 4. An error stands in the figures until a step succeeds, and a later step tries again.

use crate::write_gate::WriteGate;
use crate::{ErrorKind, Result};
use parking_lot::Mutex;
use quire_env::JobClass;
use quire_store::Durability;
use quire_wide::{Schema, WidePartition};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a step waits for disks and memory that are busy.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a step waits after an error.
const RETRY: Duration = Duration::from_secs(10);

/// What a job does.
pub(crate) trait Steps: Debug + Send + Sync + 'static {
    /// What it is called where its errors are reported.
    const NAME: &'static str;

    /// How long the first step by a schema waits; none if there is nothing to do by it.
    fn begins(&self, partition: &WidePartition, schema: &Arc<Schema>) -> Option<Duration>;

    /// One step. Gives how long the next one waits; none if all is done.
    fn step(&self, partition: &WidePartition, goal: &Goal) -> Result<Option<Duration>>;
}

/// By what a job goes.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    /// How many there were before it.
    pub(crate) number: u64,
    pub(crate) schema: Arc<Schema>,
    pub(crate) durability: Durability,
}

/// A job of a partition.
#[derive(Debug)]
pub(crate) struct PartitionJob<S> {
    partition: WidePartition,
    gate: Arc<WriteGate>,
    steps: S,
    goal: Mutex<Goal>,
    pauses: AtomicU64,
    error: Mutex<Option<String>>,
}

impl<S: Steps> PartitionJob<S> {
    /// That of a partition which was just opened.
    pub(crate) fn start(
        steps: S,
        (partition, gate): (WidePartition, Arc<WriteGate>),
        schema: &Arc<Schema>,
        durability: Durability,
    ) -> Arc<PartitionJob<S>> {
        let goal = Goal {
            number: 0,
            schema: Arc::clone(schema),
            durability,
        };
        let job = Arc::new(PartitionJob {
            partition,
            gate,
            steps,
            goal: Mutex::new(goal),
            pauses: AtomicU64::new(0),
            error: Mutex::new(None),
        });
        job.set(schema, durability);
        job
    }

    /// Goes on by this schema.
    pub(crate) fn set(self: &Arc<Self>, schema: &Arc<Schema>, durability: Durability) {
        let number = {
            let mut goal = self.goal.lock();
            *goal = Goal {
                number: goal.number + 1,
                schema: Arc::clone(schema),
                durability,
            };
            goal.number
        };
        *self.error.lock() = None;
        if let Some(wait) = self.steps.begins(&self.partition, schema) {
            self.schedule(number, wait);
        }
    }

    /// Times that a step waited for disks or memory.
    pub(crate) fn pauses(&self) -> u64 {
        self.pauses.load(Ordering::Relaxed)
    }

    /// Why the last step failed, if it did.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().clone()
    }

    fn schedule(self: &Arc<Self>, number: u64, after: Duration) {
        let weak = Arc::downgrade(self);
        let run = move || {
            if let Some(job) = weak.upgrade() {
                job.run(number);
            }
        };
        let env = self.partition.env();
        env.schedule(JobClass::Compaction, after, Box::new(run));
    }

    /// One step, by the goal of this number.
    fn run(self: &Arc<Self>, number: u64) {
        let goal = self.goal.lock().clone();
        if goal.number != number {
            return;
        }
        if self.partition.is_busy() {
            self.pauses.fetch_add(1, Ordering::Relaxed);
            return self.schedule(number, PAUSE);
        }
        // Others have replaced the partition: they have jobs of their own.
        let Some(gate) = self.gate.begin_write() else {
            return;
        };
        let stepped = self.steps.step(&self.partition, &goal);
        drop(gate);
        if let Err(error) = &stepped {
            if error.kind() == ErrorKind::Closed {
                return;
            }
            let partition = self.partition.number();
            tracing::warn!(partition, job = S::NAME, %error, "a step in the background failed");
        }
        let next = match &stepped {
            Ok(next) => *next,
            Err(_) => Some(RETRY),
        };
        *self.error.lock() = stepped.err().map(|error| format!("{}: {error}", S::NAME));
        if let Some(wait) = next {
            self.schedule(number, wait);
        }
    }
}
