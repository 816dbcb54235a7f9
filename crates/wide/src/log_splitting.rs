//! The kept log of a partition that is split: each new partition gets all of it, so that those who
//! tail the old one go on in the new ones from whatever position they have seen.
//!
//! # Invariants
//! 1. A new partition has the changes of its own rows under their positions, and a record that
//!    holds the position in the place of any other record. No opening replays them.
//! 2. The copy never begins with the first position: a follower would take it for all that there
//!    is. The first record of a tailed partition is no change of a row (see `partition.rs`).

use crate::record;
use crate::splitting::{OwnerOf, foreign};
use crate::tail::is_change;
use crate::{Result, WidePartition};
use quire_model::{Key, Position};
use quire_store::{LogCopy, Place};

/// How many records are copied between two calls of the one who watches.
const WATCH_EVERY: u64 = 1024;

impl WidePartition {
    /// The first record that a split up to this position copies; none if the log is not kept, or
    /// has nothing of it.
    pub(crate) fn first_copied(&self, upto: Position) -> Option<Position> {
        let first = self.store().log_first().max(Position(2));
        (self.kept_log().is_tailed() && first <= upto).then_some(first)
    }

    /// Makes the logs of the stores at these places, of the records from `first` to `upto`. False
    /// if `goes_on` returned it.
    pub(crate) fn copy_log(
        &self,
        (first, upto): (Position, Position),
        places: &[Place],
        owner: OwnerOf<'_>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let seen = Position(first.0 - 1);
        let begin = |place: &Place| {
            let options = self.kept_log().options.clone();
            LogCopy::begin(self.shared(), place, options, seen)
        };
        let copies = places.iter().map(begin);
        let mut copies = copies.collect::<quire_store::Result<Vec<_>>>()?;
        let mut next = first;
        for item in self.store().tail(seen)? {
            let (position, bytes) = item?;
            if position > upto {
                break;
            }
            if position != next {
                return Err(self.missing(next));
            }
            next = position.next();
            let (head, _) = record::decode(&bytes).map_err(|what| self.corrupt(what))?;
            let own = match is_change(&head) && !head.key.is_empty() {
                true => Some(owner(&Key::decode(head.key)?)),
                false => None,
            };
            let other = foreign(&head, self.kept_log().tailed()).encode();
            for (number, copy) in copies.iter_mut().enumerate() {
                copy.append(match own == Some(number) {
                    true => bytes.to_vec(),
                    false => other.clone(),
                })?;
            }
            if position.0 % WATCH_EVERY == 0 && !goes_on() {
                return Ok(false);
            }
        }
        if next != upto.next() {
            return Err(self.missing(next));
        }
        for copy in copies {
            copy.finish()?;
        }
        Ok(true)
    }
}
