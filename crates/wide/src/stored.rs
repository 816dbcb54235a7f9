//! What a group's tree has of a cell: the cell, behind the time when it expires if it does.
//!
//! No clock decides what a tree has: readers compare the time with theirs, and a pass removes what
//! has expired by records of the log (see `expiry.rs`).
//!
//! # Layout
//! ```text
//! | cell |      or      | 8 u8 | expiry (µs since 1970 UTC) i64 LE | cell |
//! ```

use crate::Cell;
use quire_seeded::{Bug, seeded};

const EXPIRING: u8 = 8;

/// The bytes before a cell that expires.
pub(crate) const EXPIRY_BYTES: usize = 9;

/// What a tree has of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored<'a> {
    /// From when on there is none.
    pub(crate) expires: Option<i64>,
    /// Its bytes.
    pub(crate) cell: &'a [u8],
}

impl<'a> Stored<'a> {
    /// Takes apart what a tree has.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn split(bytes: &'a [u8]) -> Result<Stored<'a>, String> {
        match bytes {
            [EXPIRING, rest @ ..] => {
                let split = rest.split_first_chunk();
                let (micros, cell) = split.ok_or("a time of expiry that is cut short")?;
                Ok(Stored {
                    expires: Some(i64::from_le_bytes(*micros)),
                    cell,
                })
            }
            cell => Ok(Stored {
                expires: None,
                cell,
            }),
        }
    }

    /// Whether there is no such cell at a time.
    pub(crate) fn has_expired(&self, now_micros: i64) -> bool {
        let has_passed = |expires| expires <= now_micros;
        self.expires.is_some_and(has_passed) && !seeded(Bug::ExpiredCellRead)
    }
}

/// The bytes of a cell in a tree.
pub(crate) fn encode(cell: &Cell, expires: Option<i64>) -> Vec<u8> {
    let mut out = Vec::with_capacity(EXPIRY_BYTES + cell.bytes());
    put_expiry(expires, &mut out);
    out.extend(cell.encode());
    out
}

/// Appends what is before a cell.
pub(crate) fn put_expiry(expires: Option<i64>, out: &mut Vec<u8>) {
    if let Some(micros) = expires {
        out.push(EXPIRING);
        out.extend_from_slice(&micros.to_le_bytes());
    }
}

/// The cell that a tree has, unless it has expired by then.
///
/// # Errors
/// What is wrong with the bytes.
pub(crate) fn cell_at(bytes: &[u8], now_micros: i64) -> Result<Option<Cell>, String> {
    let stored = Stored::split(bytes)?;
    let cell = Cell::decode(stored.cell)?;
    Ok((!stored.has_expired(now_micros)).then_some(cell))
}
