//! Giving back the space of what is dead, soon after it died.
//!
//! Segments are compacted once they are sealed and their records are in the trees' files. Left to
//! themselves, the newest segment is sealed at its size, and memtables are flushed when they are
//! large. So a few documents that are written over and over, or all deleted, would keep what they
//! were. After a record was superseded a job looks whether much is dead that no compaction can see
//! yet; then it seals the newest segment, and flushes.
//!
//! # Invariants
//! 1. A look costs no I/O. It leads to some only for as many dead bytes as
//!    [`dead_bytes_min`](crate::StoreOptions::dead_bytes_min), and half of what is live: so the work
//!    is in proportion to what it gives back.
//! 2. One look at most is due at a time.

use crate::store::Inner;
use crate::{Machine, Result};
use quire_env::JobClass;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long after a record was superseded a job looks.
const LOOK_AFTER: Duration = Duration::from_secs(20);

/// What is dead and can't be compacted yet, and what is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DeadSpace {
    live_bytes: u64,
    /// In the newest segment.
    unsealed_bytes: u64,
    /// Superseded since the last flush.
    unflushed_bytes: u64,
}

impl DeadSpace {
    fn is_worth_it(&self, dead_bytes_min: u64) -> bool {
        // What is both counts once.
        let dead_bytes = self.unsealed_bytes.max(self.unflushed_bytes);
        dead_bytes >= dead_bytes_min.max(self.live_bytes / 2)
    }
}

impl<M: Machine> Inner<M> {
    /// Has a job look soon, because a record was superseded.
    pub(crate) fn note_dead(&self) {
        let is_off = !M::LOG_IS_KEPT || self.options.log_live_percent == 0;
        if is_off || self.dead_look_due.swap(true, Ordering::AcqRel) {
            return;
        }
        self.background(JobClass::Flush, LOOK_AFTER, |inner| {
            inner.dead_look_due.store(false, Ordering::Release);
            if inner.check_writable().is_err()
                || inner.log_compaction_held.load(Ordering::Acquire)
                || !inner.dead_space().is_worth_it(inner.options.dead_bytes_min)
            {
                return;
            }
            if let Err(error) = inner.give_back() {
                // The next record that is superseded has it tried again.
                tracing::warn!(
                    partition = %inner.dir.display(),
                    %error,
                    "the space of what is dead could not be given back yet"
                );
            }
        });
    }

    fn dead_space(&self) -> DeadSpace {
        let writer = self.writer.lock();
        let segments = self.log.segments();
        let dead_bytes = |segment| writer.space.dead_bytes(segment);
        let live = segments
            .iter()
            .map(|segment| segment.record_bytes.saturating_sub(dead_bytes(segment)));
        DeadSpace {
            live_bytes: live.sum(),
            unsealed_bytes: segments.last().map_or(0, dead_bytes),
            unflushed_bytes: writer.superseded_bytes,
        }
    }

    fn give_back(&self) -> Result<()> {
        self.seal_log()?;
        self.flush()?;
        self.schedule_compaction();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_must_be_dead_by_itself_and_beside_what_is_live() {
        let table = [
            ((0, 10, 0), true),
            ((0, 9, 9), false),
            ((0, 0, 10), true),
            ((30, 14, 14), false),
            ((30, 15, 0), true),
        ];
        for ((live_bytes, unsealed_bytes, unflushed_bytes), expected) in table {
            let dead = DeadSpace {
                live_bytes,
                unsealed_bytes,
                unflushed_bytes,
            };
            assert_eq!(dead.is_worth_it(10), expected, "{dead:?}");
        }
    }
}
