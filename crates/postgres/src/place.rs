//! Where a reader of the stream is, and the numbers that order changes.
//!
//! # Layout of a position
//! ```text
//! 63  62              10           0
//! | 0 | LSN of the commit | number |   52 and 10 bits
//! ```
//! A change has the position of its transaction's commit, or the one after the last, whichever is
//! higher: a transaction may have more rows than numbers. Its rows take more of the log than that,
//! so positions soon are those of the log again. The end of a transaction has a position too, where
//! no row is; a chunk of the snapshot has the last one that was given.

use quire_ship::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

const NUMBER_BITS: u32 = 10;
const LSN_MAX: u64 = (1 << 52) - 1;

/// Where a reader can go on: what is before was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The cluster's number, and the table's in it.
    pub(crate) system: String,
    pub(crate) table: u32,
    /// The slot, and how many were lost before it.
    pub(crate) slot: String,
    pub(crate) lost_count: u32,
    /// All that was committed before it was given; 0 if the slot is not made yet.
    pub(crate) lsn: u64,
    /// The position of the last change.
    pub(crate) last: u64,
    pub(crate) snapshot: Snapshot,
    /// Transactions that were given while rows are read, and that the last chunk may not have seen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) unseen: Vec<u32>,
    /// Why the last snapshot was begun, if not because it was the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lost: Option<String>,
}

/// How far the rows were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Snapshot {
    /// None yet.
    Begun,
    /// Those up to this key, whose parts are as the server writes them.
    After(Vec<String>),
    /// All.
    Done,
}

impl Place {
    /// Reads a stored place.
    ///
    /// # Errors
    /// If it is none.
    pub(crate) fn read(stored: &Value) -> Result<Place> {
        serde_json::from_value(stored.clone())
            .map_err(|error| Error::Source(format!("the stored place can't be read: {error}")))
    }

    /// The same place, of a slot that is a copy of this one's.
    pub(crate) fn forked(&self) -> Place {
        Place {
            slot: format!("{}_fork", self.slot_name()),
            lost_count: 0,
            ..self.clone()
        }
    }

    /// The slot's name. One that took the place of a lost one has its number behind it, so it is
    /// found again if a kill came before the place was stored.
    pub(crate) fn slot_name(&self) -> String {
        match self.lost_count {
            0 => self.slot.clone(),
            count => format!("{}_{count}", self.slot),
        }
    }
}

/// The position after `last` of a change of a transaction.
pub(crate) fn position_after(last: u64, commit_lsn: u64) -> u64 {
    (commit_lsn.min(LSN_MAX) << NUMBER_BITS).max(last + 1)
}

/// An LSN as SQL writes it.
pub(crate) fn parse_lsn(text: &str) -> Option<u64> {
    let (upper, lower) = text.split_once('/')?;
    let upper = u64::from(u32::from_str_radix(upper, 16).ok()?);
    let lower = u64::from(u32::from_str_radix(lower, 16).ok()?);
    Some((upper << 32) | lower)
}

/// An LSN for people.
pub(crate) fn show_lsn(lsn: u64) -> String {
    format!("{:X}/{:X}", lsn >> 32, lsn & u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_grow_within_a_transaction_and_between_and_fit_a_signed_version() {
        let first = position_after(0, 5000);
        let mut last = first;
        for _ in 0..3000 {
            assert!(position_after(last, 5000) > last);
            last = position_after(last, 5000);
        }
        assert_eq!(last, first + 3000);
        assert_eq!(position_after(last, 5001), last + 1);
        assert_eq!(position_after(last, 6000), 6000 << NUMBER_BITS);
        let end = position_after(last, u64::MAX);
        assert!(i64::try_from(position_after(end, u64::MAX)).is_ok());
    }

    #[test]
    fn log_positions_are_read_and_shown() {
        assert_eq!(parse_lsn("16/B374D848"), Some(0x16_B374_D848));
        assert_eq!(show_lsn(0x16_B374_D848), "16/B374D848");
        assert_eq!(parse_lsn("16"), None);
        assert_eq!(parse_lsn("1/123456789"), None);
    }
}
