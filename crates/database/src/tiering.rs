//! When cells move between tiers: a background job for each partition of a wide collection that has
//! a group with two tiers, or cold rows of one that had.
//!
//! What moves is decided by the partition (`moves.rs` of `quire-wide`).
//!
//! # Invariants
//! 1. A job keeps nothing alive between its steps, and a step is short: other background work comes
//!    between.
//! 2. Of several jobs for one partition, only the one of the newest schema goes on.
//! 3. A step waits until the bytes of the one before have had their time, and while disks or memory
//!    are busy.
//! 4. An error ends a pass, stands in the figures until a step succeeds, and the next pass tries
//!    again.

use crate::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use quire_env::JobClass;
use quire_store::Durability;
use quire_wide::{Schema, TierPass, TierStep, WidePartition};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The shortest and the longest time between the beginnings of two passes.
const PERIOD_MIN: Duration = Duration::from_secs(1);
const PERIOD_MAX: Duration = Duration::from_secs(3600);

/// How long at most rows that were written or read wait to come back, if nothing is busy.
const LOOK: Duration = Duration::from_secs(10);

/// How long a step waits for disks and memory that are busy.
const PAUSE: Duration = Duration::from_millis(200);

/// The tiers of a partition.
#[derive(Debug)]
pub(crate) struct PartitionTiering {
    partition: WidePartition,
    /// How often it was set, and by what it goes.
    goal: Mutex<(u64, Goal)>,
    progress: Mutex<Progress>,
    pauses: AtomicU64,
    error: Mutex<Option<String>>,
}

#[derive(Debug, Clone)]
struct Goal {
    schema: Arc<Schema>,
    durability: Durability,
}

#[derive(Debug, Default)]
struct Progress {
    /// The number of the goal that it is of.
    number: u64,
    pass: TierPass,
    /// When the next pass begins, by the monotonic clock; the past once it has begun.
    next: Duration,
}

impl PartitionTiering {
    /// That of a partition which was just opened.
    pub(crate) fn start(
        partition: &WidePartition,
        schema: &Arc<Schema>,
        durability: Durability,
    ) -> Arc<PartitionTiering> {
        let goal = Goal {
            schema: Arc::clone(schema),
            durability,
        };
        let tiering = Arc::new(PartitionTiering {
            partition: partition.clone(),
            goal: Mutex::new((0, goal)),
            progress: Mutex::default(),
            pauses: AtomicU64::new(0),
            error: Mutex::new(None),
        });
        tiering.set(schema, durability);
        tiering
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
        if self.partition.has_tiers(schema) {
            self.schedule(number, PERIOD_MIN);
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
            if let Some(tiering) = weak.upgrade() {
                tiering.run(number);
            }
        };
        let env = self.partition.env();
        env.schedule(JobClass::Compaction, after, Box::new(job));
    }

    /// One step, by the schema that was the `number`th.
    fn run(self: &Arc<Self>, number: u64) {
        let (newest, goal) = self.goal.lock().clone();
        if newest != number || !self.partition.has_tiers(&goal.schema) {
            return;
        }
        if self.partition.is_busy() {
            self.pauses.fetch_add(1, Ordering::Relaxed);
            return self.schedule(number, PAUSE);
        }
        let stepped = self.step(number, &goal);
        if let Err(error) = &stepped {
            if error.kind() == ErrorKind::Closed {
                return;
            }
            let partition = self.partition.number();
            tracing::warn!(partition, %error, "moving cells between tiers failed");
        }
        let wait = match &stepped {
            Ok(wait) => *wait,
            Err(_) => LOOK,
        };
        *self.error.lock() = stepped.err().map(|error| format!("tiers: {error}"));
        self.schedule(number, wait);
    }

    /// Gives how long the next step waits.
    fn step(&self, number: u64, goal: &Goal) -> Result<Duration> {
        let mut progress = self.progress.lock();
        if progress.number != number {
            *progress = Progress {
                number,
                ..Progress::default()
            };
        }
        let now = self.partition.env().monotonic();
        let is_due = progress.next <= now;
        if !is_due && !self.partition.is_tier_wanted() {
            return Ok(LOOK.min(progress.next - now));
        }
        let stepped = self
            .partition
            .tier_step(&goal.schema, &mut progress.pass, goal.durability);
        if stepped.is_err() {
            progress.pass = TierPass::default();
        }
        let TierStep { wait, is_over, .. } = stepped.map_err(Error::from)?;
        if !is_over && is_due {
            return Ok(wait);
        }
        let period = period(&goal.schema);
        if is_over && is_due {
            progress.next = now + period;
        }
        Ok(wait.max(LOOK.min(period)))
    }
}

/// The time between the beginnings of two passes: nothing stays hot much longer than its age.
fn period(schema: &Schema) -> Duration {
    let groups = schema.groups().iter();
    let ages = groups.filter_map(|group| Some(group.tiers?.after));
    let tenth = ages.min().map_or(PERIOD_MAX, |age| age / 10);
    tenth.clamp(PERIOD_MIN, PERIOD_MAX)
}
