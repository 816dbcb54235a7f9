//! When retention runs: a background job for each partition, again and again while the collection
//! has a rule, or the partition documents that expire.
//!
//! What is deleted is decided by the partition (`retention.rs` and `expired.rs` of
//! `quire-collection`).
//!
//! # Invariants
//! 1. A job keeps nothing alive between its steps, and a step is short: other background work comes
//!    between.
//! 2. Of several jobs for one partition, only the one of the newest rule goes on.
//! 3. An error ends a pass, stands in the figures until a step succeeds, and the next pass tries
//!    again.

use crate::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use quire_collection::{Partition, Retained, Retention, RetentionRule};
use quire_env::JobClass;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The shortest and the longest time between two passes.
const PERIOD_MIN: Duration = Duration::from_secs(1);
const PERIOD_MAX: Duration = Duration::from_secs(10);

/// A partition's retention.
#[derive(Debug)]
pub(crate) struct PartitionRetention {
    partition: Partition,
    /// How often the rule was set, and the rule.
    rule: Mutex<(u64, RetentionRule)>,
    progress: Mutex<Retention>,
    deleted: AtomicU64,
    error: Mutex<Option<String>>,
}

impl PartitionRetention {
    /// That of a partition which was just opened.
    pub(crate) fn start(partition: &Partition, rule: RetentionRule) -> Arc<PartitionRetention> {
        let retention = Arc::new(PartitionRetention {
            partition: partition.clone(),
            rule: Mutex::new((0, RetentionRule::default())),
            progress: Mutex::new(partition.retention()),
            deleted: AtomicU64::new(0),
            error: Mutex::new(None),
        });
        retention.set(rule);
        // Of a partition that can't be read the first step tells.
        if partition.has_expiring().unwrap_or(true) {
            retention.expect_expired();
        }
        retention
    }

    /// Goes on by this rule, and deletes what has expired if it did so before.
    pub(crate) fn set(self: &Arc<Self>, rule: RetentionRule) {
        self.change(|now| RetentionRule {
            expired: now.expired,
            ..rule
        });
    }

    /// From now on deletes what has expired too.
    pub(crate) fn expect_expired(self: &Arc<Self>) {
        self.change(|now| RetentionRule {
            expired: true,
            ..now
        });
    }

    /// Deletes nothing from now on, until a rule is set again. Waits for the end of a step. Returns
    /// the rule that it had.
    pub(crate) fn stop(&self) -> RetentionRule {
        let rule = {
            let mut now = self.rule.lock();
            let rule = now.1;
            *now = (now.0 + 1, RetentionRule::default());
            rule
        };
        drop(self.progress.lock());
        rule
    }

    /// Goes on after [`stop`](PartitionRetention::stop), by the rule that it gave.
    pub(crate) fn go_on(self: &Arc<Self>, rule: RetentionRule) {
        self.change(|_| rule);
    }

    fn change(self: &Arc<Self>, rule: impl FnOnce(RetentionRule) -> RetentionRule) {
        let (number, rule) = {
            let mut now = self.rule.lock();
            let rule = rule(now.1);
            if now.1 == rule {
                return;
            }
            *now = (now.0 + 1, rule);
            *now
        };
        *self.error.lock() = None;
        if rule != RetentionRule::default() {
            self.schedule(number, period(rule));
        }
    }

    /// Documents deleted so far.
    pub(crate) fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// Why the last step failed, if it did.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().clone()
    }

    fn schedule(self: &Arc<Self>, number: u64, after: Duration) {
        let weak = Arc::downgrade(self);
        let job = move || {
            if let Some(retention) = weak.upgrade() {
                retention.run(number);
            }
        };
        let env = self.partition.env();
        env.schedule(JobClass::Compaction, after, Box::new(job));
    }

    /// One step, by the rule that was the `number`th.
    fn run(self: &Arc<Self>, number: u64) {
        let (newest, rule) = *self.rule.lock();
        if newest != number {
            return;
        }
        let stepped = self.step(number, rule);
        if let Err(error) = &stepped {
            if error.kind() == ErrorKind::Closed {
                return;
            }
            let partition = self.partition.number();
            tracing::warn!(partition, %error, "retention failed");
        }
        let more = stepped.as_ref().is_ok_and(|retained| retained.more);
        *self.error.lock() = stepped.err().map(|error| format!("retention: {error}"));
        self.schedule(number, if more { Duration::ZERO } else { period(rule) });
    }

    fn step(&self, number: u64, rule: RetentionRule) -> Result<Retained> {
        let mut progress = self.progress.lock();
        // Who stops it waits for this lock.
        if self.rule.lock().0 != number {
            return Ok(Retained::default());
        }
        let retained = self.partition.retain(rule, &mut progress);
        let retained = retained.map_err(Error::from)?;
        self.deleted.fetch_add(retained.deleted, Ordering::Relaxed);
        Ok(retained)
    }
}

/// The time between two passes: nothing stays much longer than its age.
fn period(rule: RetentionRule) -> Duration {
    match rule.expired {
        true => PERIOD_MIN,
        false => {
            let tenth = rule.age.map_or(PERIOD_MAX, |age| age / 10);
            tenth.clamp(PERIOD_MIN, PERIOD_MAX)
        }
    }
}

#[cfg(test)]
mod tests;
