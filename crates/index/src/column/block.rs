//! [`Block`]: the rows of one block, read and searched where they lie.

use super::zone::{BLOCK_ROWS, Encoding, ROW_BITS, Zone, is_in};
use crate::packed::{GROUP, get, group_in_range, packed_bytes, unpack, unpack_group};
use std::ops::RangeInclusive;

/// One block, its entry checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) zone: Zone,
    pub(super) rows: usize,
    /// From its first byte to the end of the column.
    pub(super) bytes: &'a [u8],
}

/// Appends the rows for which `is_wanted` gives true, in their order. Without branches, which the
/// processor often could not predict.
pub(super) fn keep(rows: &[u32], is_wanted: impl Iterator<Item = bool>, kept: &mut Vec<u32>) {
    let mut end = kept.len();
    kept.resize(end + rows.len(), 0);
    for (row, is_wanted) in rows.iter().zip(is_wanted) {
        if let Some(to) = kept.get_mut(end) {
            *to = *row;
        }
        end += usize::from(is_wanted);
    }
    kept.truncate(end);
}

impl Block<'_> {
    /// Whether its values are all its base and a packed number.
    pub(super) fn is_frame(&self) -> bool {
        self.zone.encoding == Encoding::Line && self.zone.slope == 0
    }

    /// Whether it has all these rows of the column.
    pub(super) fn has(&self, rows: &[u32]) -> bool {
        rows.iter()
            .all(|row| (*row as usize % BLOCK_ROWS) < self.rows)
    }

    /// Appends the rows, all of this block, whose values are in a range: by their packed numbers.
    pub(super) fn keep_of_frame(
        &self,
        rows: &[u32],
        range: &RangeInclusive<u64>,
        kept: &mut Vec<u32>,
    ) {
        let (low, distance) = self.numbers_in(range);
        let numbers = rows
            .iter()
            .map(|row| self.number(*row as usize % BLOCK_ROWS));
        keep(
            rows,
            numbers.map(|number| number.wrapping_sub(low) <= distance),
            kept,
        );
    }

    #[inline]
    pub(super) fn line(&self, row: usize, number: u64) -> u64 {
        self.zone.line(row, number)
    }

    #[inline]
    pub(super) fn gap(&self, number: u64) -> u64 {
        match number {
            0 => 0,
            _ => self.zone.base.wrapping_add(number),
        }
    }

    /// The packed number of a row.
    #[inline]
    pub(super) fn number(&self, row: usize) -> u64 {
        get(self.bytes, self.zone.width, row)
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> u64 {
        match self.zone.encoding {
            Encoding::Line => self.line(row, self.number(row)),
            Encoding::Gaps => self.gap(self.number(row)),
            Encoding::Runs => self.run_of(row).1,
        }
    }

    /// The rows and the value of the run that a row is in.
    #[inline(never)]
    pub(super) fn run_of(&self, row: usize) -> (std::ops::Range<usize>, u64) {
        let last = |run: usize| get(self.bytes, ROW_BITS, run) as usize;
        let (mut low, mut high) = (0, self.zone.slope as usize - 1);
        while low < high {
            let middle = (low + high) / 2;
            match last(middle) < row {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let start = low.checked_sub(1).map_or(0, |before| last(before) + 1);
        (start..last(low) + 1, self.run_value(low))
    }

    fn run_value(&self, run: usize) -> u64 {
        let values = packed_bytes(self.zone.slope as usize, ROW_BITS);
        let bytes = self.bytes.get(values..).unwrap_or_default();
        self.zone
            .base
            .wrapping_add(get(bytes, self.zone.width, run))
    }

    /// The runs, as their rows and their value; whatever the bytes are, they follow each other and
    /// end at the last row.
    fn runs(&self) -> impl Iterator<Item = (std::ops::Range<usize>, u64)> {
        let (count, mut start) = (self.zone.slope as usize, 0);
        (0..count).map(move |run| {
            let end = match run + 1 == count {
                true => self.rows,
                false => get(self.bytes, ROW_BITS, run) as usize + 1,
            };
            let rows = start..end.clamp(start, self.rows);
            start = rows.end;
            (rows, self.run_value(run))
        })
    }

    /// Fills `out` with the values from `start` on; there are as many rows.
    pub(super) fn read(&self, start: usize, out: &mut [u64]) {
        match self.zone.encoding {
            Encoding::Line => {
                unpack(self.bytes, self.zone.width, start, out);
                let slope = u64::from(self.zone.slope);
                let mut line = self.line(start, 0);
                for value in out {
                    *value = value.wrapping_add(line);
                    line = line.wrapping_add(slope);
                }
            }
            Encoding::Gaps => {
                unpack(self.bytes, self.zone.width, start, out);
                for value in out {
                    *value = self.gap(*value);
                }
            }
            Encoding::Runs => {
                for (rows, value) in self.runs() {
                    let from = rows.start.max(start) - start;
                    let to = rows.end.max(start) - start;
                    let to = to.min(out.len());
                    out.get_mut(from..to).unwrap_or_default().fill(value);
                }
            }
        }
    }

    /// Appends the bits of the rows in `range`, 64 at a time.
    pub(super) fn scan(&self, range: &RangeInclusive<u64>, bits: &mut Vec<u64>) {
        let words = self.rows.div_ceil(64);
        let start = bits.len();
        match (self.zone.decides(range), self.zone.encoding) {
            (Some(false), _) => bits.resize(start + words, 0),
            (Some(true), _) => {
                bits.resize(start + words, u64::MAX);
                if let Some(last) = bits.last_mut().filter(|_| !self.rows.is_multiple_of(64)) {
                    *last = u64::MAX >> (64 - self.rows % 64);
                }
            }
            (None, Encoding::Runs) => {
                bits.resize(start + words, 0);
                let found = self.runs().filter(|(_, value)| is_in(*value, range));
                for row in found.flat_map(|(rows, _)| rows) {
                    if let Some(word) = bits.get_mut(start + row / 64) {
                        *word |= 1 << (row % 64);
                    }
                }
            }
            (None, _) => {
                let mut group = [0; GROUP];
                let (low, distance) = self.numbers_in(range);
                for first in (0..self.rows).step_by(GROUP) {
                    let at = first / 8 * self.zone.width as usize;
                    let bytes = self.bytes.get(at..).unwrap_or_default();
                    let (width, high) = (self.zone.width, low.saturating_add(distance));
                    let narrow = match self.zone.slope {
                        0 => group_in_range(bytes, width, low, high),
                        _ => None,
                    };
                    let found = narrow.unwrap_or_else(|| {
                        match self.zone.slope {
                            0 => unpack_group(bytes, width, &mut group),
                            _ => self.read(first, &mut group),
                        }
                        // One comparison is enough: what is below the range wraps around.
                        (0..).zip(&group).fold(0, |word, (at, number)| {
                            word | u64::from(number.wrapping_sub(low) <= distance) << at
                        })
                    });
                    let past = first + GROUP > self.rows;
                    let mask = if past {
                        !(u64::MAX << (self.rows - first))
                    } else {
                        u64::MAX
                    };
                    bits.push(found & mask);
                }
            }
        }
    }

    /// The least number of the range, and the distance from it to the greatest: of packed numbers,
    /// or of values if the block has a slope. The zone could not decide the range, so some number
    /// is in it.
    fn numbers_in(&self, range: &RangeInclusive<u64>) -> (u64, u64) {
        let base = if self.zone.slope == 0 {
            self.zone.base
        } else {
            0
        };
        let low = (*range.start()).max(1).max(self.zone.least);
        let high = (*range.end()).min(self.zone.greatest);
        (low.wrapping_sub(base), high.wrapping_sub(low))
    }
}
