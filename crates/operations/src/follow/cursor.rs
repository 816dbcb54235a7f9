//! How far a copy of a partition is, and whether it is one: what a follower says of itself, and its
//! leader's judgement.

use quire_database::{Error, Result};
use quire_model::Position;
use quire_store::AnyStore;
use serde::{Deserialize, Serialize};

/// How many of its records a copy shows: the newest, then ever older ones, twice as far back each
/// time.
const RECORDS_SHOWN: u32 = 16;

/// The answer to a copy.
pub(crate) enum Verdict {
    Follows,
    StartOver(String),
    Diverged(String),
}

/// How far a follower's partition is.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cursor {
    pub(crate) collection: u32,
    pub(crate) partition: u32,
    /// Position of its last record.
    pub(crate) seen: u64,
    /// Positions and checksums of some of its records, the newest first.
    pub(crate) records: Vec<(u64, u64)>,
}

impl Cursor {
    /// That of a store.
    ///
    /// # Errors
    /// `Corrupt` for damage; `Closed`; those of the machine.
    pub(crate) fn of(collection: u32, partition: u32, store: &dyn AnyStore) -> Result<Cursor> {
        let seen = store.extent().last;
        let older = (0..RECORDS_SHOWN).filter_map(|n| seen.0.checked_sub((1 << n) >> 1));
        let mut records = Vec::new();
        for position in older.filter(|position| *position > 0).map(Position) {
            if let Some(fingerprint) = store.fingerprint(position)? {
                records.push((position.0, fingerprint));
            }
        }
        Ok(Cursor {
            collection,
            partition,
            seen: seen.0,
            records,
        })
    }

    /// Compares it with the partition that it is a copy of, of the collection `name`.
    ///
    /// # Errors
    /// `Invalid` if it makes no sense; `Corrupt`; those of the machine.
    pub(crate) fn judge(&self, name: &str, store: &dyn AnyStore) -> Result<Verdict> {
        let at = |position: Position| {
            format!(
                "partition {} of {name:?}, position {position}",
                self.partition
            )
        };
        let (seen, last) = (Position(self.seen), store.extent().last);
        if seen > last {
            return Ok(Verdict::Diverged(format!(
                "it has records that this database does not have: {} and before, while the last \
                 here is {last}",
                at(seen)
            )));
        }
        let mut is_newest_known = seen == Position(0);
        for (position, theirs) in &self.records {
            let position = Position(*position);
            if position > seen || position == Position(0) {
                return Err(Error::Invalid(
                    "a follower that knows more than it has".into(),
                ));
            }
            match store.fingerprint(position)? {
                Some(ours) if ours != *theirs => {
                    return Ok(Verdict::Diverged(format!(
                        "it has another record than this database: {}",
                        at(position)
                    )));
                }
                Some(_) => is_newest_known |= position == seen,
                None => {}
            }
        }
        if is_newest_known {
            return Ok(Verdict::Follows);
        }
        // Compaction removed it from both logs, and there is none after it: it was of what another
        // partition has, since a split.
        let is_shown = self.records.iter().any(|(shown, _)| *shown == self.seen);
        if seen == last && !is_shown && store.fingerprint(seen)?.is_none() {
            return Ok(Verdict::Follows);
        }
        // Nothing shows whether the records after it are the same here.
        Ok(Verdict::StartOver(format!(
            "the log no longer has the follower's last record: {}",
            at(seen)
        )))
    }
}
