//! Sealing the log's newest segment by its age, so that one that grows slowly can be compacted, and
//! copied whole, all the same.
//!
//! # Invariants
//! 1. Age is measured by the machine's monotonic clock, from the first record that this opening
//!    wrote to the segment: a clock that is set wrong, or right again, seals nothing.
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
    /// The base of the newest segment, and when its first record was written.
    newest: Option<(Position, Duration)>,
    /// A job will look.
    scheduled: bool,
}

impl Sealing {
    pub(crate) fn new(age: Option<Duration>) -> Sealing {
        Sealing {
            age,
            newest: None,
            scheduled: false,
        }
    }

    /// For the newest segment too, once more is written to it.
    pub(crate) fn set_age(&mut self, age: Option<Duration>) {
        self.age = age;
        // A job that is on its way may come too late.
        self.scheduled = false;
    }

    /// Takes note of a record in the segment that begins with `base`. How long from now a job is to
    /// look; `None` if one will, or need not.
    fn note(&mut self, base: Position, now: Duration) -> Option<Duration> {
        let age = self.age?;
        if self.newest.is_none_or(|(newest, _)| newest != base) {
            self.newest = Some((base, now));
        }
        let is_scheduled = std::mem::replace(&mut self.scheduled, true);
        (!is_scheduled).then_some(age)
    }

    /// What a job finds: the segment to be sealed, or how long from now it is to look again.
    fn look(&mut self, now: Duration) -> Option<Result<Position, Duration>> {
        self.scheduled = false;
        let (age, (base, began)) = (self.age?, self.newest?);
        let left = (began + age).saturating_sub(now);
        if left.is_zero() {
            self.newest = None;
            return Some(Ok(base));
        }
        self.scheduled = true;
        Some(Err(left))
    }
}

impl<M: Machine> Inner<M> {
    /// Sees to it that the segment that a new record is in is sealed in time.
    pub(crate) fn note_for_sealing(&self, position: Position) {
        let mut sealing = self.sealing.lock();
        if sealing.age.is_none() {
            return;
        }
        let now = self.shared.env().monotonic();
        let base = self.log.segment_base(position).ok();
        let wait = base.and_then(|base| sealing.note(base, now));
        drop(sealing);
        if let Some(wait) = wait {
            self.schedule_seal(wait);
        }
    }

    fn schedule_seal(&self, after: Duration) {
        self.background(JobClass::Flush, after, |inner| {
            let found = inner.sealing.lock().look(inner.shared.env().monotonic());
            match found {
                Some(Ok(base)) => inner.seal(base),
                Some(Err(wait)) => inner.schedule_seal(wait),
                None => {}
            }
        });
    }

    /// Seals the segment that begins with `base`, if it is still the newest.
    fn seal(&self, base: Position) {
        let is_newest = self.log.segment_base(self.log.last()).ok() == Some(base);
        if !is_newest || self.check_open().is_err() {
            return;
        }
        match self.log.rotate() {
            Ok(()) => self.schedule_compaction(),
            Err(error) => {
                // It is sealed when it is large enough, or when it is old enough once more.
                tracing::warn!(partition = %self.dir.display(), %error, "a segment could not be sealed");
            }
        }
    }
}
