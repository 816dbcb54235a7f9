//! Fixed layout: values that all have a value, keys of one length and values of one length, in two
//! columns.
//!
//! # Layout (little-endian)
//! ```text
//! | shared key bytes | own key bytes: count × o | values: count × v
//! | count (4) | v (4) | shared (1) | o (1) | 0 (4) |
//! ```
//! A key is the bytes that all keys share at their beginning, then its own `o`, 1 to 32. Entries
//! are in order of their keys, and all are puts. The zeros at the end stand where the other layout
//! has its number of restarts, of which there is at least one.
//!
//! A search compares the first eight own bytes as one number.

use super::place::EntryPlace;
use crate::TableDamage;
use crate::entry_kind::EntryKind;
use crate::fences;
use quire_seeded::{Bug, seeded};
use std::ops::Range;

/// The last bytes of such a block.
pub(super) const MARK: [u8; 4] = [0; 4];
/// Bytes after the columns.
pub(super) const END_BYTES: usize = 4 + 4 + 1 + 1 + 4;
/// Keys that are longer are left to the other layout, which cuts each to what differs from the one
/// before.
pub(super) const KEY_BYTES_MAX: usize = 32;

/// The shape of such a block. What it says of the block's bytes was checked when it was made of
/// them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixed {
    count: u32,
    value_bytes: u32,
    shared: u8,
    own: u8,
}

impl Fixed {
    /// The shape that `bytes` have.
    pub(super) fn parse(bytes: &[u8]) -> Result<Fixed, TableDamage> {
        let too_short = || TableDamage::new("end of a block", 0, END_BYTES, bytes.len());
        let (columns, end) = bytes
            .split_last_chunk::<END_BYTES>()
            .ok_or_else(too_short)?;
        let [c0, c1, c2, c3, v0, v1, v2, v3, shared, own, _, _, _, _] = *end;
        let (count, value_bytes) = (
            u32::from_le_bytes([c0, c1, c2, c3]),
            u32::from_le_bytes([v0, v1, v2, v3]),
        );
        let entry_bytes = u64::from(own) + u64::from(value_bytes);
        let expected = u64::from(count)
            .checked_mul(entry_bytes)
            .and_then(|entries| entries.checked_add(shared.into()));
        if expected != Some(columns.len() as u64) {
            let at = columns.len();
            return Err(TableDamage::new(
                "count of a block",
                at,
                expected.unwrap_or(u64::MAX),
                at,
            ));
        }
        if count == 0 || own == 0 || usize::from(own) > KEY_BYTES_MAX {
            let at = columns.len();
            return Err(TableDamage::new(
                "key bytes of a block",
                at,
                KEY_BYTES_MAX,
                own,
            ));
        }
        Ok(Fixed {
            count,
            value_bytes,
            shared,
            own,
        })
    }

    /// Number of entries.
    #[inline]
    pub(super) fn end(self) -> usize {
        self.count as usize
    }

    /// What all keys begin with.
    pub(super) fn shared_by_all(self, bytes: &[u8]) -> &[u8] {
        bytes.get(..self.shared.into()).unwrap_or_default()
    }

    /// The length of each key.
    pub(super) fn key_bytes(self) -> usize {
        usize::from(self.shared) + usize::from(self.own)
    }

    /// Where the own bytes of a key are.
    #[inline]
    pub(super) fn own(self, index: usize) -> Range<usize> {
        let start = usize::from(self.shared) + index * usize::from(self.own);
        start..start + usize::from(self.own)
    }

    /// How far the words are shifted: what is loaded past a key of fewer than eight bytes of its
    /// own goes.
    #[inline]
    fn shift(self) -> u32 {
        64 - 8 * u32::from(self.own.min(8))
    }

    /// The first eight own bytes of a key, or all.
    #[inline]
    fn word(self, bytes: &[u8], index: usize) -> u64 {
        // There are more than eight bytes after the last key: the end of the block.
        let rest = bytes.get(self.own(index).start..);
        let word = rest.and_then(|rest| rest.first_chunk::<8>());
        word.map_or(0, |word| u64::from_be_bytes(*word) >> self.shift())
    }

    /// The first eight bytes of the key numbered `index`, as [`fences::word`] has them; `shared` is
    /// that of what all keys share.
    #[inline]
    pub(super) fn key_word(self, bytes: &[u8], index: usize, shared: u64) -> u64 {
        let own = self.word(bytes, index) << self.shift();
        shared | own.checked_shr(8 * u32::from(self.shared)).unwrap_or(0)
    }

    /// Where the value numbered `index` is.
    #[inline]
    pub(super) fn value(self, index: usize) -> Range<usize> {
        let values = self.own(self.count as usize).start;
        let value = values + index * self.value_bytes as usize;
        value..value + self.value_bytes as usize
    }

    /// The entry numbered `index`.
    fn place(self, index: usize) -> EntryPlace {
        EntryPlace {
            at: index,
            next: index + 1,
            shared: self.shared.into(),
            unshared: self.own(index),
            kind: EntryKind::Put,
            value: self.value(index),
        }
    }

    /// The first entry at or after `key`, and whether its key is `key`.
    pub(super) fn search(self, bytes: &[u8], key: &[u8]) -> Option<(EntryPlace, bool)> {
        let count = self.count as usize;
        let all = self.shared_by_all(bytes);
        let Some(rest) = fences::strip_prefix(key, all) else {
            return (key < all).then(|| (self.place(0), false));
        };
        let own = |index| bytes.get(self.own(index)).unwrap_or_default();
        let sought = fences::word(rest) >> self.shift();
        let is_word = rest.len() == usize::from(self.own) && rest.len() <= 8;
        let found = match is_word {
            true => fences::count_less(count, |index| self.word(bytes, index) < sought),
            false => fences::count_less(count, |index| {
                let word = self.word(bytes, index);
                word < sought || word == sought && own(index) < rest
            }),
        };
        let found = found + usize::from(seeded(Bug::RestartOneTooFar) && found + 1 < count);
        (found < count).then(|| {
            let is_key = match is_word {
                true => self.word(bytes, found) == sought,
                false => own(found) == rest,
            };
            (self.place(found), is_key)
        })
    }
}
