//! Log retention: for how long a partition keeps its log for those who tail it.
//!
//! A log is dropped segment by segment. A segment is due once its last change is older than the
//! retention; what a flush, a follower or a copy still needs of it stays, as of any log.

use crate::record;
use crate::tail::is_change;
use crate::{Result, WidePartition};
use quire_model::Position;
use quire_store::{AnyStore, LogSettings};
use std::time::Duration;

impl WidePartition {
    /// Keeps changes for this long for those who [tail](WidePartition::tail) them, from now on; or
    /// no longer than the trees and followers need them.
    pub fn set_log_retention(&self, retention: Option<Duration>) {
        let log = self.kept_log();
        let mut kept = log.state.lock();
        kept.retention = retention;
        log.set_tailed(retention.is_some());
        match retention {
            Some(_) if kept.hold.is_none() => kept.hold = Some(self.store().hold_log(Position(0))),
            Some(_) => {}
            None => {
                kept.hold = None;
                kept.ended.clear();
            }
        }
    }

    /// Changes settings of the log. What is on disk stays as it is.
    ///
    /// # Errors
    /// `Invalid` for blocks that the log can't have; `Closed`.
    pub fn set_log(&self, settings: LogSettings) -> Result<()> {
        Ok(self.store().set_log(settings)?)
    }

    /// Drops the segments of the log that were kept long enough, and that nothing else needs.
    /// Returns how many bytes they had.
    ///
    /// # Errors
    /// `Corrupt` for damage in the log; `Closed`; those of the machine.
    pub fn drop_old_log(&self) -> Result<u64> {
        let mut kept = self.kept_log().state.lock();
        let Some(retention) = kept.retention else {
            return Ok(0);
        };
        let now = self.env().now_micros();
        let retention = i64::try_from(retention.as_micros()).unwrap_or(i64::MAX);
        let bases = self.store().log_segments();
        kept.ended.retain(|base, _| bases.first() <= Some(base));
        let mut needed = bases.first().copied().unwrap_or(Position(0));
        for sealed in bases.windows(2) {
            let &[base, next] = sealed else { break };
            let ended = match kept.ended.get(&base) {
                Some(ended) => *ended,
                None => self.last_change(next)?.unwrap_or(now).min(now),
            };
            kept.ended.insert(base, ended);
            if now.saturating_sub(ended) < retention {
                break;
            }
            needed = next;
        }
        if let Some(hold) = &kept.hold {
            hold.advance(needed);
        }
        Ok(self.store().drop_obsolete_log()?)
    }

    /// When the last record before a position was written; none if it is no change. A move of cells
    /// has the time of its row, and not its own.
    fn last_change(&self, next: Position) -> Result<Option<i64>> {
        let before = Position(next.0.saturating_sub(2));
        let Some(item) = self.store().tail(before)?.next() else {
            return Ok(None);
        };
        let (_, bytes) = item?;
        let (head, _) = record::decode(&bytes).map_err(|what| self.corrupt(what))?;
        Ok(is_change(&head).then_some(head.time_micros))
    }
}
