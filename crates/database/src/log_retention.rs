//! When the log of a wide collection is dropped that was kept long enough for those who tail it: a
//! background job for each partition, while there is a retention.
//!
//! What is dropped is decided by the partition (`log_retention.rs` of `quire-wide`).
//!
//! # Invariants
//! 1. A job keeps nothing alive between its steps, and writes no record: followers have one too.
//! 2. Of several jobs for one partition, only the one of the newest retention goes on.
//! 3. An error stands in the figures until a step succeeds, and a later step tries again.

use crate::{Error, ErrorKind};
use parking_lot::Mutex;
use quire_env::JobClass;
use quire_wide::WidePartition;
use std::sync::Arc;
use std::time::Duration;

/// The shortest and the longest time between two steps.
const PERIOD_MIN: Duration = Duration::from_secs(1);
const PERIOD_MAX: Duration = Duration::from_secs(10);

/// The log retention of a partition.
#[derive(Debug)]
pub(crate) struct PartitionLogRetention {
    partition: WidePartition,
    /// How often the retention was set, and the retention.
    retention: Mutex<(u64, Option<Duration>)>,
    error: Mutex<Option<String>>,
}

impl PartitionLogRetention {
    /// That of a partition which was just opened. Nothing is done before a retention is set.
    pub(crate) fn start(partition: &WidePartition) -> Arc<PartitionLogRetention> {
        Arc::new(PartitionLogRetention {
            partition: partition.clone(),
            retention: Mutex::new((0, None)),
            error: Mutex::new(None),
        })
    }

    /// Goes on by this retention.
    pub(crate) fn set(self: &Arc<Self>, retention: Option<Duration>) {
        let number = {
            let mut now = self.retention.lock();
            if now.1 == retention {
                return;
            }
            *now = (now.0 + 1, retention);
            self.partition.set_log_retention(retention);
            now.0
        };
        *self.error.lock() = None;
        if let Some(retention) = retention {
            self.schedule(number, period(retention));
        }
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

    /// One step, by the retention that was the `number`th.
    fn run(self: &Arc<Self>, number: u64) {
        let (newest, retention) = *self.retention.lock();
        let Some(retention) = retention.filter(|_| newest == number) else {
            return;
        };
        let dropped = self.partition.drop_old_log().map_err(Error::from);
        if let Err(error) = &dropped {
            if error.kind() == ErrorKind::Closed {
                return;
            }
            let partition = self.partition.number();
            tracing::warn!(partition, %error, "the log could not be dropped");
        }
        *self.error.lock() = dropped.err().map(|error| format!("log retention: {error}"));
        self.schedule(number, period(retention));
    }
}

/// The time between two steps: no segment stays much longer than its age.
fn period(retention: Duration) -> Duration {
    (retention / 10).clamp(PERIOD_MIN, PERIOD_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quire_env::{Env, SimEnv, Volumes};
    use quire_model::{Key, Position};
    use quire_store::{Durability, Place, Shared, StoreOptions};
    use quire_wide::{Cell, Change, ColumnType, RowWrite, Schema, Triggers};

    #[test]
    fn a_job_drops_the_log_when_its_time_is_over() {
        const HOUR: Duration = Duration::from_secs(3600);
        let env = SimEnv::new(1);
        let schema = Schema::new().with_column("n", ColumnType::Int, "numbers");
        let schema = Arc::new(schema.unwrap());
        let shared = Shared::new(env.clone(), 8 << 20, None);
        let place = Place {
            volumes: Volumes::single("/db"),
            subdir: "p".into(),
            identity: [7; 16],
        };
        WidePartition::create(&shared, &place).unwrap();
        let mut options = StoreOptions {
            log_held: true,
            segment_age: Some(HOUR / 4),
            ..StoreOptions::default()
        };
        options.log.segment_bytes = 1 << 20;
        let opened = WidePartition::open(shared, place, 0, options, (&schema, None), env.gate());
        let partition = opened.unwrap();
        let write = |n| {
            let write = RowWrite::upsert(Key::from(1)).with(Change::set("n", Cell::Int(n)));
            let written = partition.write(&schema, &write, Triggers::none(), Durability::Sync);
            written.unwrap();
        };
        let changes = || {
            let tail = partition.tail(&schema, "_id", Position(0)).unwrap();
            let changes: quire_wide::Result<Vec<_>> = tail.collect();
            changes.unwrap().len()
        };
        let pass = |time: Duration| {
            let end = env.monotonic() + time;
            while env.monotonic() < end {
                env.advance(Duration::from_secs(5));
                env.run_due();
            }
        };
        let job = PartitionLogRetention::start(&partition);
        job.set(Some(HOUR));
        write(1);
        pass(HOUR / 2);
        partition.flush().unwrap();
        write(2);
        pass(HOUR / 3);
        assert_eq!(changes(), 2);
        pass(HOUR / 2);
        partition.flush().unwrap();
        assert_eq!(changes(), 1);
        pass(HOUR);
        assert_eq!(changes(), 0);
        assert_eq!(job.error(), None);

        // None is dropped without need once it is kept for longer.
        write(3);
        job.set(Some(HOUR * 100));
        partition.flush().unwrap();
        pass(HOUR * 2);
        assert_eq!(changes(), 1);
    }
}
