//! Tiers: which of the two trees of a group has a row's cells, and since when they are as they are.
//!
//! # Layout (little-endian)
//! ```text
//! | cold u16 | timed u16 | time (µs) i64 … |
//!   cold: bit n is set if the cells of group n are in its cold tree
//!   timed: bit n is set if a time of group n follows, the lowest first: when cells of the group
//!   were last written, or brought back since they were read
//! ```

use crate::GROUPS_MAX;

/// What a row says of groups with two tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tiers {
    pub(crate) cold: u16,
    timed: u16,
    times: [i64; GROUPS_MAX],
}

impl Tiers {
    /// Those of a row without times.
    pub(crate) fn of_cold(cold: u16) -> Tiers {
        Tiers {
            cold,
            ..Tiers::default()
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.cold == 0 && self.timed == 0
    }

    pub(crate) fn time_of(&self, group: u8) -> Option<i64> {
        let is_timed = self.timed & (1 << group) != 0;
        is_timed.then(|| self.times.get(usize::from(group)).copied())?
    }

    pub(crate) fn set_time(&mut self, group: u8, micros: i64) {
        if let Some(time) = self.times.get_mut(usize::from(group)) {
            *time = micros;
            self.timed |= 1 << group;
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.cold.to_le_bytes());
        out.extend_from_slice(&self.timed.to_le_bytes());
        for group in groups_of(self.timed) {
            let time = self.time_of(group).unwrap_or_default();
            out.extend_from_slice(&time.to_le_bytes());
        }
    }

    /// Takes what [`encode`](Tiers::encode) wrote off `bytes`.
    pub(crate) fn take(bytes: &mut &[u8]) -> Option<Tiers> {
        let (cold, rest) = bytes.split_first_chunk()?;
        let (timed, mut rest) = rest.split_first_chunk()?;
        let mut tiers = Tiers::of_cold(u16::from_le_bytes(*cold));
        for group in groups_of(u16::from_le_bytes(*timed)) {
            let (time, after) = rest.split_first_chunk()?;
            tiers.set_time(group, i64::from_le_bytes(*time));
            rest = after;
        }
        *bytes = rest;
        Some(tiers)
    }
}

/// The groups of a mask, by number.
pub(crate) fn groups_of(mask: u16) -> impl Iterator<Item = u8> {
    (0..16u8).filter(move |group| mask & (1 << group) != 0)
}
