//! Ingesting: a follower's store takes the records of the store that it follows, under their
//! positions.
//!
//! # Invariants
//! 1. A record goes to the position that it has in the other store, which is the one after the
//!    last: the log of a follower is a prefix of the other's log.
//! 2. Records that the machine would refuse are refused before the log has them.

use crate::{Durability, Error, Machine, Result, Store};
use bytes::Bytes;
use quire_model::Position;
use std::sync::atomic::Ordering;

impl<M: Machine> Store<M> {
    /// Takes records of the store that this one follows, the first of them at position `first`.
    /// They survive a crash together or not at all; `durability` says when they do. Readers see
    /// them at once if `visible`, else with the next that are: so that they never see half of what
    /// was written together.
    ///
    /// Slows down, or waits, as [`write`](Store::write) does.
    ///
    /// # Errors
    /// Nothing was written: `Invalid` if `first` is not the position after the last; `Corrupt` if a
    /// record makes no sense there; else as of [`write`](Store::write).
    pub fn ingest(
        &self,
        first: Position,
        records: &[Bytes],
        visible: bool,
        durability: Durability,
    ) -> Result<()> {
        let inner = &*self.inner;
        let ((), position) = self.with_writer(|writer| {
            let next = inner.log.last().next();
            if first != next {
                return Err(Error::Invalid(format!(
                    "records from position {first} on can't follow position {}",
                    inner.log.last()
                )));
            }
            let checked = writer.machine.check(first, records);
            checked.map_err(|(position, reason)| Error::Record {
                path: inner.dir.clone(),
                position,
                reason,
            })?;
            let records: Vec<&[u8]> = records.iter().map(AsRef::as_ref).collect();
            Ok(((), inner.append(writer, &records)?))
        })?;
        match visible {
            true => self.acknowledge(position, durability),
            false => Ok(()),
        }
    }

    /// Says whether the log is to be compacted in the background. A follower that is far behind
    /// puts it off: what it copies now is superseded by what comes next, and it takes what others
    /// could use to catch up.
    pub fn hold_log_compaction(&self, hold: bool) {
        let inner = &*self.inner;
        if inner.log_compaction_held.swap(hold, Ordering::AcqRel) && !hold {
            inner.schedule_compaction();
        }
    }
}
