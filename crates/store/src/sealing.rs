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
                tracing::warn!(
                    partition = %self.dir.display(),
                    %error,
                    "a segment could not be sealed"
                );
            }
        }
    }
}
