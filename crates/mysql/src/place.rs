//! Where a reader of the binlog is, and the numbers that order changes.
//!
//! # Layout of a position
//! ```text
//! 63     55               36                    0
//! | epoch | number of file | offset in that file |   8, 19 and 36 bits; bit 63 is 0
//! ```
//! A row is at the offset of its event plus its number within the event: a row takes a byte or
//! more, so no two rows have one position. A chunk of the snapshot has the offset at which a
//! transaction ends, where no row is.

use quire_ship::Fault;
use serde::{Deserialize, Serialize};

const OFFSET_BITS: u32 = 36;
const FILE_BITS: u32 = 19;
const EPOCH_MAX: u64 = (1 << (63 - OFFSET_BITS - FILE_BITS)) - 1;

/// An offset in a file of the binlog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offset {
    pub(crate) file: String,
    pub(crate) offset: u64,
}

impl Offset {
    /// The number at the end of a file's name.
    fn number(&self) -> u64 {
        let digits = self.file.rsplit('.').next();
        digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }

    /// What orders offsets of one server.
    pub(crate) fn order(&self) -> (u64, u64) {
        (self.number(), self.offset)
    }
}

/// Where a reader can go on: what is before was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The server's id, and how many servers or snapshots took the place of another before it.
    pub(crate) server_id: u32,
    pub(crate) epoch: u64,
    /// The end of a transaction.
    pub(crate) at: Offset,
    /// The last transaction of each domain, as `gtid_slave_pos` has them.
    pub(crate) gtid: String,
    pub(crate) snapshot: Snapshot,
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
    /// Those up to this key, whose parts are written as SQL.
    After(Vec<String>),
    /// All.
    Done,
}

impl Place {
    /// Begins an epoch: positions from here on are above all before.
    ///
    /// # Errors
    /// If there is none left.
    pub(crate) fn next_epoch(&self) -> Result<u64, Fault> {
        match self.epoch < EPOCH_MAX {
            true => Ok(self.epoch + 1),
            false => Err(Fault::Stop(format!(
                "another server took the place, or all rows were read anew, for {EPOCH_MAX} times, \
                 and positions count no more: empty the sinks, remove their positions and run again"
            ))),
        }
    }

    /// Whether a server with these transactions before [`at`](Place::at) is the one of the place,
    /// whose offsets are those of the place.
    pub(crate) fn is_of(&self, gtid: Option<&str>) -> bool {
        gtid.is_some_and(|gtid| Gtids::parse(gtid) == Gtids::parse(&self.gtid))
    }
}

/// The position of a change at an offset.
pub(crate) fn position(epoch: u64, at: &Offset) -> u64 {
    let file = at.number() & ((1 << FILE_BITS) - 1);
    let offset = at.offset & ((1 << OFFSET_BITS) - 1);
    (epoch << (FILE_BITS + OFFSET_BITS)) | (file << OFFSET_BITS) | offset
}

/// The last transaction of each domain: `DOMAIN-SERVER-NUMBER` between commas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gtids(Vec<(u32, u32, u64)>);

impl Gtids {
    pub(crate) fn parse(text: &str) -> Gtids {
        let parts = text.split(',').filter_map(|gtid| {
            let mut numbers = gtid.trim().split('-');
            let domain = numbers.next()?.parse().ok()?;
            let server = numbers.next()?.parse().ok()?;
            Some((domain, server, numbers.next()?.parse().ok()?))
        });
        let mut parts: Vec<_> = parts.collect();
        parts.sort_unstable();
        Gtids(parts)
    }

    /// Takes a transaction in, which is the last of its domain now.
    pub(crate) fn advance(&mut self, gtid: (u32, u32, u64)) {
        self.0.retain(|known| known.0 != gtid.0);
        self.0.push(gtid);
        self.0.sort_unstable();
    }
}

impl std::fmt::Display for Gtids {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (domain, server, number)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{domain}-{server}-{number}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_grow_from_offset_to_file_to_epoch_and_fit_a_signed_version() {
        let at = |file: &str, offset| Offset {
            file: file.to_owned(),
            offset,
        };
        let order = [
            position(0, &at("binlog.000009", 4)),
            position(0, &at("binlog.000009", 1 << 33)),
            position(0, &at("binlog.000010", 4)),
            position(1, &at("a.b.000001", 4)),
            position(255, &at("a.b.524287", (1 << 36) - 1)),
        ];
        assert!(order.is_sorted());
        assert_eq!(order[4], i64::MAX as u64);
    }

    #[test]
    fn a_server_with_other_transactions_before_the_offset_is_another_one() {
        let mut place = Place {
            server_id: 1,
            epoch: 0,
            at: Offset {
                file: "binlog.000009".to_owned(),
                offset: 400,
            },
            gtid: "0-1-9,1-2-7".to_owned(),
            snapshot: Snapshot::Done,
            lost: None,
        };
        assert!(place.is_of(Some("1-2-7,0-1-9")));
        assert!(!place.is_of(Some("0-1-8,1-2-7")));
        assert!(!place.is_of(None));
        assert_eq!(place.next_epoch(), Ok(1));
        place.epoch = EPOCH_MAX;
        assert!(matches!(place.next_epoch(), Err(Fault::Stop(_))));
    }

    #[test]
    fn each_domain_has_its_last_transaction() {
        let mut gtids = Gtids::parse("1-2-7,0-1-9");
        gtids.advance((0, 3, 10));
        assert_eq!(gtids.to_string(), "0-3-10,1-2-7");
        assert_eq!(Gtids::parse(""), Gtids::default());
    }
}
