//! When the cells of columns move to other groups: a background job for each partition of a wide
//! collection, as long as a column is to move.
//!
//! What moves is decided by the partition (`column_work.rs` of `quire-wide`).
//!
//! # Invariants
//! 1. A job keeps nothing alive between its steps, and a step is short: other background work comes
//!    between.
//! 2. Of several jobs for one partition, only the one of the newest schema goes on.
//! 3. A step waits until the bytes of the one before have had their time, and while disks or memory
//!    are busy.
//! 4. An error stands in the figures until a step succeeds, and the next step tries again.

use crate::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use quire_env::JobClass;
use quire_store::Durability;
use quire_wide::{ColumnStep, Schema, WidePartition};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a step waits for disks and memory that are busy.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a step waits after an error.
const RETRY: Duration = Duration::from_secs(10);

/// The moves of columns in a partition.
#[derive(Debug)]
pub(crate) struct PartitionColumnMoving {
    partition: WidePartition,
    /// How often it was set, and by what it goes.
    goal: Mutex<(u64, Goal)>,
    pauses: AtomicU64,
    error: Mutex<Option<String>>,
}

#[derive(Debug, Clone)]
struct Goal {
    schema: Arc<Schema>,
    durability: Durability,
}

impl PartitionColumnMoving {
    /// That of a partition which was just opened.
    pub(crate) fn start(
        partition: &WidePartition,
        schema: &Arc<Schema>,
        durability: Durability,
    ) -> Arc<PartitionColumnMoving> {
        let goal = Goal {
            schema: Arc::clone(schema),
            durability,
        };
        let moving = Arc::new(PartitionColumnMoving {
            partition: partition.clone(),
            goal: Mutex::new((0, goal)),
            pauses: AtomicU64::new(0),
            error: Mutex::new(None),
        });
        moving.set(schema, durability);
        moving
    }

    /// Goes on by this schema.
    pub(crate) fn set(self: &Arc<Self>, schema: &Arc<Schema>, durability: Durability) {
        let number = {
            let mut goal = self.goal.lock();
            let schema = Arc::clone(schema);
            *goal = (goal.0 + 1, Goal { schema, durability });
            goal.0
        };
        *self.error.lock() = None;
        // Of a partition that can't be read the first step tells.
        if self.partition.has_column_moves(schema).unwrap_or(true) {
            self.schedule(number, Duration::ZERO);
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
        let job = move || {
            if let Some(moving) = weak.upgrade() {
                moving.run(number);
            }
        };
        let env = self.partition.env();
        env.schedule(JobClass::Compaction, after, Box::new(job));
    }

    /// One step, by the schema that was the `number`th.
    fn run(self: &Arc<Self>, number: u64) {
        let (newest, goal) = self.goal.lock().clone();
        if newest != number {
            return;
        }
        if self.partition.is_busy() {
            self.pauses.fetch_add(1, Ordering::Relaxed);
            return self.schedule(number, PAUSE);
        }
        let stepped = self.step(&goal);
        if let Err(error) = &stepped {
            if error.kind() == ErrorKind::Closed {
                return;
            }
            let partition = self.partition.number();
            tracing::warn!(partition, %error, "moving a column to another group failed");
        }
        let next = match &stepped {
            Ok(step) => (!step.is_over).then_some(step.wait),
            Err(_) => Some(RETRY),
        };
        *self.error.lock() = stepped.err().map(|error| format!("columns: {error}"));
        if let Some(wait) = next {
            self.schedule(number, wait);
        }
    }

    fn step(&self, goal: &Goal) -> Result<ColumnStep> {
        let step = self.partition.column_step(&goal.schema, goal.durability);
        step.map_err(Error::from)
    }
}
