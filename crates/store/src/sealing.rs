//! Sealing the log's newest segment by its age, so that one that grows slowly can be compacted, and copied whole, all the same.
//!
//! # Invariants
//! 1. Age is measured by the machine's monotonic clock, from the first record that this opening wrote to the segment: a clock
//!    that is set wrong, or right again, seals nothing.
//! 2. A segment without records is never sealed: a log that is not written to grows no files.

use crate::Machine;
use crate::store::Inner;
use quire_env::JobClass;
use quire_model::Position;
use std::time::Duration;

/// When the newest segment is sealed.
#[derive(Debug)]
pub(crate) struct Sealing {
    age: Option<Duration>,
    /// The base of the segment that a job was scheduled for.
    scheduled: Option<Position>,
}

impl Sealing {
    pub(crate) fn new(age: Option<Duration>) -> Sealing {
        Sealing {
            age,
            scheduled: None,
        }
    }

    /// For segments that are not scheduled yet.
    pub(crate) fn set_age(&mut self, age: Option<Duration>) {
        self.age = age;
    }

    /// How long from now the segment that begins with `base` is to be sealed; `None` if that is settled, or never.
    fn schedule(&mut self, base: Position) -> Option<Duration> {
        let age = self.age?;
        (self.scheduled.replace(base) != Some(base)).then_some(age)
    }
}

impl<M: Machine> Inner<M> {
    /// Sees to it that the segment that a new record is in is sealed in time.
    pub(crate) fn schedule_seal(&self, position: Position) {
        let mut sealing = self.sealing.lock();
        if sealing.age.is_none() {
            return;
        }
        let Some((base, age)) = self
            .log
            .segment_base(position)
            .ok()
            .and_then(|base| Some((base, sealing.schedule(base)?)))
        else {
            return;
        };
        drop(sealing);
        let weak = self.me.clone();
        let job = move || {
            if let Some(inner) = weak.upgrade() {
                inner.seal(base);
            }
        };
        self.shared
            .env()
            .schedule(JobClass::Flush, age, Box::new(job));
    }

    /// Seals the segment that begins with `base`, if it is still the newest.
    fn seal(&self, base: Position) {
        let is_newest = self.log.segment_base(self.log.last()).ok() == Some(base);
        if !is_newest || self.check_open().is_err() {
            return;
        }
        match self.log.roll() {
            Ok(()) => self.schedule_compaction(),
            Err(error) => {
                // It is sealed when it is large enough, or its successor is old enough.
                tracing::warn!(partition = %self.dir.display(), %error, "a segment could not be sealed");
            }
        }
    }
}
