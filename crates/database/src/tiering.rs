//! When cells move between tiers: a background job for each partition of a wide collection that has
//! a group with two tiers, or cold rows of one that had.
//!
//! What moves is decided by the partition (`moves.rs` of `quire-wide`).
//!
//! An error ends a pass, and the next pass tries again.

use crate::partition_job::{Goal, Steps};
use crate::{Error, Result};
use parking_lot::Mutex;
use quire_wide::{Schema, TierPass, TierStep, WidePartition};
use std::sync::Arc;
use std::time::Duration;

/// The shortest and the longest time between the beginnings of two passes.
const PERIOD_MIN: Duration = Duration::from_secs(1);
const PERIOD_MAX: Duration = Duration::from_secs(3600);

/// How long at most rows that were written or read wait to come back, if nothing is busy.
const LOOK: Duration = Duration::from_secs(10);

/// The tiers of a partition.
#[derive(Debug, Default)]
pub(crate) struct Tiering {
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The number of the goal that it is of.
    number: u64,
    pass: TierPass,
    /// When the next pass begins, by the monotonic clock; the past once it has begun.
    next: Duration,
}

impl Steps for Tiering {
    const NAME: &'static str = "tiers";

    fn begins(&self, partition: &WidePartition, schema: &Arc<Schema>) -> Option<Duration> {
        partition.has_tiers(schema).then_some(PERIOD_MIN)
    }

    fn step(&self, partition: &WidePartition, goal: &Goal) -> Result<Option<Duration>> {
        if !partition.has_tiers(&goal.schema) {
            return Ok(None);
        }
        let mut progress = self.progress.lock();
        if progress.number != goal.number {
            *progress = Progress {
                number: goal.number,
                ..Progress::default()
            };
        }
        let now = partition.env().monotonic();
        let is_due = progress.next <= now;
        if !is_due && !partition.is_tier_wanted() {
            return Ok(Some(LOOK.min(progress.next - now)));
        }
        let stepped = partition.tier_step(&goal.schema, &mut progress.pass, goal.durability);
        if stepped.is_err() {
            progress.pass = TierPass::default();
        }
        let TierStep { wait, is_over, .. } = stepped.map_err(Error::from)?;
        if !is_over && is_due {
            return Ok(Some(wait));
        }
        let period = period(&goal.schema);
        if is_over && is_due {
            progress.next = now + period;
        }
        Ok(Some(wait.max(LOOK.min(period))))
    }
}

/// The time between the beginnings of two passes: nothing stays hot much longer than its age.
fn period(schema: &Schema) -> Duration {
    let groups = schema.groups().iter();
    let ages = groups.filter_map(|group| Some(group.tiers?.after));
    let tenth = ages.min().map_or(PERIOD_MAX, |age| age / 10);
    tenth.clamp(PERIOD_MIN, PERIOD_MAX)
}
