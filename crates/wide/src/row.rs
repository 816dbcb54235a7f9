//! Row: what the tree `rows` has of a docid.
//!
//! # Layout (little-endian)
//! ```text
//! | version u64 | time (µs) i64 | groups u16 |
//!   version: the position of the row's newest record
//!   groups: bit n is set if group n may have cells of the row
//! ```

use quire_model::Position;

/// What is known of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) version: Position,
    pub(crate) time_micros: i64,
    pub(crate) groups: u16,
}

impl Row {
    pub(crate) fn encode(&self) -> [u8; 18] {
        let mut out = [0; 18];
        out[..8].copy_from_slice(&self.version.0.to_le_bytes());
        out[8..16].copy_from_slice(&self.time_micros.to_le_bytes());
        out[16..].copy_from_slice(&self.groups.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Row> {
        let (version, rest) = bytes.split_first_chunk()?;
        let (time, groups) = rest.split_first_chunk()?;
        Some(Row {
            version: Position(u64::from_le_bytes(*version)),
            time_micros: i64::from_le_bytes(*time),
            groups: u16::from_le_bytes(groups.try_into().ok()?),
        })
    }
}

/// The groups of a mask, by number.
pub(crate) fn groups_of(mask: u16) -> impl Iterator<Item = u8> {
    (0..16u8).filter(move |group| mask & (1 << group) != 0)
}
