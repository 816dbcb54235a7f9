//! [`Zone`]: what the directory of a column says of a block.

use crate::le;
use std::ops::RangeInclusive;

/// Rows of a block; the last one of a column may have fewer.
pub const BLOCK_ROWS: usize = 4096;
pub(super) const ENTRY_BYTES: usize = 40;
pub(super) const FOOTER_BYTES: usize = 8;
/// Bits of a row's number within a block.
pub(super) const ROW_BITS: u32 = 12;
const _: () = assert!(1 << ROW_BITS == BLOCK_ROWS && BLOCK_ROWS.is_multiple_of(64));

/// How a block is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// Each value is its distance from a line: constant values, frames of reference, ascending
    /// numbers.
    Line = 0,
    /// Each value is its distance from the least one, or none.
    Gaps = 1,
    /// Runs of equal values.
    Runs = 2,
}

impl Encoding {
    fn decode(byte: u8) -> Option<Encoding> {
        match byte {
            0 => Some(Encoding::Line),
            1 => Some(Encoding::Gaps),
            2 => Some(Encoding::Runs),
            _ => None,
        }
    }
}

/// What the directory says of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// The least value that is not 0; 0 if there is none.
    pub least: u64,
    /// The greatest value.
    pub greatest: u64,
    /// Rows without a value.
    pub zeros: u32,
    /// How it is encoded.
    pub encoding: Encoding,
    /// Bits of a packed number.
    pub width: u32,
    pub(super) base: u64,
    pub(super) slope: u32,
}

#[inline]
pub(super) fn is_in(value: u64, range: &RangeInclusive<u64>) -> bool {
    value != 0 && range.contains(&value)
}

impl Zone {
    /// Appends the directory's entry of a block that begins at `offset`.
    pub(super) fn encode(&self, offset: u64, out: &mut Vec<u8>) {
        for number in [offset, self.base, self.least, self.greatest] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.slope.to_le_bytes());
        out.extend_from_slice(&(self.zeros as u16).to_le_bytes());
        out.extend_from_slice(&[self.encoding as u8, self.width as u8]);
    }

    /// The zone of a directory entry, and where its block begins.
    pub(super) fn decode(entry: &[u8; ENTRY_BYTES]) -> Option<(u64, Zone)> {
        let zone = Zone {
            base: le::u64_at(entry, 8)?,
            least: le::u64_at(entry, 16)?,
            greatest: le::u64_at(entry, 24)?,
            slope: le::u32_at(entry, 32)?,
            zeros: u32::from(u16::from_le_bytes([entry[36], entry[37]])),
            encoding: Encoding::decode(entry[38])?,
            width: u32::from(entry[39]),
        };
        Some((le::u64_at(entry, 0)?, zone))
    }

    /// The value of a row whose distance from the line is `number`.
    #[inline]
    pub(super) fn line(&self, row: usize, number: u64) -> u64 {
        let slope = u64::from(self.slope).wrapping_mul(row as u64);
        self.base.wrapping_add(slope).wrapping_add(number)
    }

    /// Whether all rows, or none, are in a range; `None` if the rows must be read.
    pub(super) fn decides(&self, range: &RangeInclusive<u64>) -> Option<bool> {
        let apart = self.greatest < *range.start() || self.least > *range.end();
        if apart || self.greatest == 0 || range.is_empty() {
            return Some(false);
        }
        let all = self.zeros == 0 && range.contains(&self.least) && range.contains(&self.greatest);
        all.then_some(true)
    }
}
