//! Row: what the tree `rows` has of a docid.
//!
//! # Layout (little-endian)
//! ```text
//! | version u64 | time (µs) i64 | groups u16 | tiers | expiring u16 |
//!   version: the position of the record that last changed the row's cells
//!   groups: bit n is set if group n may have cells of the row
//!   tiers: nothing of a row without any and without `expiring` (see `tiers.rs`)
//!   expiring: bit n is set if group n may have cells of the row that expire; nothing if none has
//! ```

use crate::tiers::Tiers;
use quire_model::Position;

/// What is known of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) version: Position,
    pub(crate) time_micros: i64,
    pub(crate) groups: u16,
    pub(crate) tiers: Tiers,
    /// The groups that may have cells of it that expire.
    pub(crate) expiring: u16,
}

impl Row {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(18);
        out.extend_from_slice(&self.version.0.to_le_bytes());
        out.extend_from_slice(&self.time_micros.to_le_bytes());
        out.extend_from_slice(&self.groups.to_le_bytes());
        if !self.tiers.is_none() || self.expiring != 0 {
            self.tiers.encode(&mut out);
        }
        if self.expiring != 0 {
            out.extend_from_slice(&self.expiring.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Row> {
        let (version, rest) = bytes.split_first_chunk()?;
        let (time, rest) = rest.split_first_chunk()?;
        let (groups, mut rest) = rest.split_first_chunk()?;
        let groups = u16::from_le_bytes(*groups);
        let tiers = match rest {
            [] => Tiers::default(),
            _ => Tiers::take(&mut rest)?,
        };
        let expiring = match rest {
            [] => 0,
            rest => u16::from_le_bytes(rest.try_into().ok()?),
        };
        let is_whole = (tiers.cold | expiring) & !groups == 0;
        is_whole.then_some(Row {
            version: Position(u64::from_le_bytes(*version)),
            time_micros: i64::from_le_bytes(*time),
            groups,
            tiers,
            expiring,
        })
    }

    /// Whether the row's cells of a group are in the group's cold tree, and not in the other one.
    pub(crate) fn is_cold(&self, group: u8) -> bool {
        self.tiers.cold & (1 << group) != 0
    }

    /// When cells of a group were last written, or brought back.
    pub(crate) fn time_of(&self, group: u8) -> i64 {
        self.tiers.time_of(group).unwrap_or(self.time_micros)
    }
}
