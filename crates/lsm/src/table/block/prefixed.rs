//! Prefixed layout: entries of any lengths, keys cut to what differs from the key before.
//!
//! # Layout (little-endian; `v` is a variable-length integer)
//! ```text
//! | entry … | restart (4) … | restarts (4) |
//! entry: | shared v | unshared v | value length × 4 + kind v | unshared key bytes | value |
//! ```
//! An entry's key is the first `shared` bytes of the key before it, then its own. Each n-th entry
//! is a *restart*: it shares nothing, and its offset stands in the table at the end, so a search
//! halves its way over restarts and reads at most n entries. There is at least one entry, and the
//! first is a restart.

use super::place::EntryPlace;
use crate::entry_kind::EntryKind;
use crate::fences::shared_bytes;
use crate::{TableDamage, varint};
use quire_seeded::{Bug, seeded};
use std::cmp::Ordering as Order;
use std::ops::Range;

/// The shape of such a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefixed {
    entries_end: usize,
    restarts: usize,
}

impl Prefixed {
    /// The shape that `bytes` have.
    ///
    /// # Errors
    /// [`TableDamage`] if there is no room for the restarts they say they have, or for an entry.
    pub(super) fn parse(bytes: &[u8]) -> Result<Prefixed, TableDamage> {
        let restarts = match bytes.last_chunk::<4>() {
            Some(count) => u32::from_le_bytes(*count) as usize,
            None => return Err(TableDamage::new("restart count", 0, 4u64, bytes.len())),
        };
        let count_at = bytes.len() - 4;
        match restarts
            .checked_mul(4)
            .and_then(|table| count_at.checked_sub(table))
        {
            Some(entries_end) if restarts > 0 && entries_end > 0 => Ok(Prefixed {
                entries_end,
                restarts,
            }),
            _ => Err(TableDamage::new(
                "restart count",
                count_at,
                count_at / 4,
                restarts,
            )),
        }
    }

    /// The end of the last entry.
    pub(super) fn end(self) -> usize {
        self.entries_end
    }

    fn restart(self, bytes: &[u8], index: usize) -> Result<usize, TableDamage> {
        let at = self.entries_end + 4 * index;
        let offset = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
        match offset.map(|offset| u32::from_le_bytes(*offset) as usize) {
            Some(offset) if offset < self.entries_end => Ok(offset),
            found => Err(TableDamage::new(
                "restart",
                at,
                self.entries_end,
                found.unwrap_or(usize::MAX),
            )),
        }
    }

    /// The entry at the offset `at`.
    pub(super) fn place(self, bytes: &[u8], at: usize) -> Result<EntryPlace, TableDamage> {
        let entries = bytes.get(..self.entries_end).unwrap_or_default();
        let mut next = at;
        let head = entries.get(at..).and_then(|rest| rest.first_chunk::<3>());
        let (shared, unshared, tag) = match head {
            // Mostly all three are short.
            Some(&[shared, unshared, tag]) if (shared | unshared | tag) < 0x80 => {
                next += 3;
                (shared.into(), unshared.into(), tag.into())
            }
            _ => (
                varint::get(entries, &mut next)?,
                varint::get(entries, &mut next)?,
                varint::get(entries, &mut next)?,
            ),
        };
        let kind = EntryKind::from_number(tag & 3)
            .filter(|kind| kind.may_be_of(tag >> 2))
            .ok_or_else(|| TableDamage::new("kind of an entry", at, 2u64, tag & 3))?;
        let too_long =
            |length| TableDamage::new("length in an entry", at, entries.len() - next, length);
        let range = |start: usize, length: u64| -> Result<Range<usize>, TableDamage> {
            let end = usize::try_from(length)
                .ok()
                .and_then(|length| start.checked_add(length));
            match end {
                Some(end) if end <= entries.len() => Ok(start..end),
                _ => Err(too_long(length)),
            }
        };
        let unshared = range(next, unshared)?;
        let value = range(unshared.end, tag >> 2)?;
        Ok(EntryPlace {
            at,
            next: value.end,
            shared: usize::try_from(shared).map_err(|_| too_long(shared))?,
            unshared,
            kind,
            value,
        })
    }

    /// The key of the restart numbered `index`.
    fn restart_key(self, bytes: &[u8], index: usize) -> Result<&[u8], TableDamage> {
        let at = self.restart(bytes, index)?;
        let place = self.place(bytes, at)?;
        if place.shared != 0 {
            return Err(TableDamage::new(
                "shared key bytes of a restart",
                at,
                0u64,
                place.shared,
            ));
        }
        Ok(bytes.get(place.unshared).unwrap_or_default())
    }

    /// The offset of the last restart before the offset `before`.
    pub(super) fn restart_before(self, bytes: &[u8], before: usize) -> Result<usize, TableDamage> {
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.restart(bytes, middle)? < before {
                true => low = middle,
                false => high = middle,
            }
        }
        match self.restart(bytes, low)? {
            found if found < before => Ok(found),
            found => Err(TableDamage::new(
                "first restart",
                self.entries_end,
                0u64,
                found,
            )),
        }
    }

    /// The first entry at or after `key`, and whether its key is `key`.
    pub(super) fn search(
        self,
        bytes: &[u8],
        key: &[u8],
    ) -> Result<Option<(EntryPlace, bool)>, TableDamage> {
        // The last restart before the key, or the first of all.
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.restart_key(bytes, middle)? < key {
                low = middle + usize::from(seeded(Bug::RestartOneTooFar) && middle + 1 < high);
            } else {
                high = middle;
            }
        }
        let mut next = self.restart(bytes, low)?;
        // Of the entry before, which is before the key: its length, and how many bytes it has in
        // common with the key.
        let (mut before, mut common) = (0, 0);
        while next < self.entries_end {
            let place = self.place(bytes, next)?;
            if place.shared > before {
                return Err(TableDamage::new(
                    "shared key bytes",
                    next,
                    before,
                    place.shared,
                ));
            }
            before = place.shared + place.unshared.len();
            // One that has more in common with the entry before than the key has is before the key
            // too.
            if place.shared <= common {
                let own = bytes.get(place.unshared.clone()).unwrap_or_default();
                let rest = key.get(place.shared..).unwrap_or_default();
                match own.cmp(rest) {
                    Order::Less => common = place.shared + shared_bytes(own, rest),
                    order => return Ok(Some((place, order == Order::Equal))),
                }
            }
            next = place.next;
        }
        Ok(None)
    }
}
