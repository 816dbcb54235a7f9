//! The document encoding: its bytes, and how they are read.
//!
//! # Invariants
//! 1. A value is a slice: its end comes from what holds it, so no value stores its own length, and
//!    any value can be copied into another document as it is.
//! 2. The encoding of a JSON text is unique up to white space and the spelling of string escapes.
//! 3. Reading checks every bound and the nesting, and reads no byte of an item twice. Bytes that
//!    break these rules read as absent or null, in bounded time, and never panic.
//!
//! # Layout (little-endian)
//! ```text
//! document   | 1: version | object |
//!
//! value      | tag | payload, to the end of the slice |
//!   0x00 null
//!   0x01 false, 0x02 true
//!   0x03 int      two's complement in as few bytes as hold it (0 to 8; zero is none)
//!   0x04 uint     8 bytes, above i64::MAX
//!   0x05 decimal  | sign in bit 7, digits after the point (1 to 22) in bits 0-6 |
//!                 | all digits as an integer, in as few bytes as hold it (0 to 8) |
//!                 a number written plainly, like 1.10 or -0.5
//!   0x06 number   its text: exponents, more digits than a decimal holds, and `-0`
//!   0x07 string   UTF-8
//!   0x08 bytes, 0x09 timestamp: kept free for these types
//!   0x10, 0x11, 0x12 array and 0x18, 0x19, 0x1a object, with offsets of w = 1, 2, 4 bytes:
//!
//! array      | tag | items ... | end of each item: count * w | count: w |
//! object     | tag | entries ... | end of each entry: count * w | index, if count > 8 | count: w |
//!   ends are offsets from the tag, ascending; the first item starts at 1, the next where one ends.
//!   w is the smallest that holds the last end.
//!
//! entry      | name bytes: LEB128 | name: UTF-8 | value |
//!
//! index      | end of each bucket in the list: buckets * s | list of entry numbers: count * s |
//!   s is 1, 2 or 4, the smallest that holds count; buckets is count, rounded up to a power of
//!   two and halved. A name's bucket is the low bits of its XXH3-64. The list is ordered by bucket,
//!   then by name bytewise: one or two names a bucket, and names chosen to collide cost a binary
//!   search, not a scan.
//! ```

use xxhash_rust::xxh3::xxh3_64;

/// Version of the encoding, the first byte of every document.
pub(crate) const VERSION: u8 = 1;

/// Objects with more fields than this have an index.
pub(crate) const SCAN_FIELDS_MAX: usize = 8;

/// The first byte of each value.
pub(crate) mod tag {
    pub(crate) const NULL: u8 = 0x00;
    pub(crate) const FALSE: u8 = 0x01;
    pub(crate) const TRUE: u8 = 0x02;
    pub(crate) const INT: u8 = 0x03;
    pub(crate) const UINT: u8 = 0x04;
    pub(crate) const DECIMAL: u8 = 0x05;
    pub(crate) const NUMBER: u8 = 0x06;
    pub(crate) const STRING: u8 = 0x07;
    /// With offsets of one byte; plus 1 for two, plus 2 for four.
    pub(crate) const ARRAY: u8 = 0x10;
    /// With offsets of one byte; plus 1 for two, plus 2 for four.
    pub(crate) const OBJECT: u8 = 0x18;
}

/// Width of an offset or a number up to some largest value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    One = 0,
    Two = 1,
    Four = 2,
}

impl Width {
    /// The smallest width that holds `value`.
    #[inline]
    pub(crate) fn of(value: usize) -> Width {
        match value {
            0..=0xff => Width::One,
            0x100..=0xffff => Width::Two,
            _ => Width::Four,
        }
    }

    #[inline]
    pub(crate) fn bytes(self) -> usize {
        1 << self as usize
    }

    /// Element `index` of a table of this width at `at`.
    #[inline]
    pub(crate) fn read(self, bytes: &[u8], at: usize, index: usize) -> Option<usize> {
        let at = at.checked_add(index.checked_mul(self.bytes())?)?;
        Some(match self {
            Width::One => usize::from(*bytes.get(at)?),
            Width::Two => usize::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)),
            Width::Four => u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize,
        })
    }
}

/// Buckets in the index of an object of `count` (over [`SCAN_FIELDS_MAX`]) fields.
#[inline]
pub(crate) fn buckets(count: usize) -> usize {
    debug_assert!(count > SCAN_FIELDS_MAX, "only larger objects have an index");
    count.next_power_of_two() / 2
}

/// The bucket of `name`, of `buckets` (a power of two).
#[inline]
pub(crate) fn bucket(name: &[u8], buckets: usize) -> usize {
    debug_assert!(
        buckets.is_power_of_two(),
        "the number of buckets is a power of two"
    );
    xxh3_64(name) as usize & buckets.saturating_sub(1)
}

/// An entry's name and value.
#[inline]
pub(crate) fn split_entry(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name_bytes, rest) = read_leb128(entry)?;
    rest.split_at_checked(name_bytes)
}

/// Appends `value` in base 128, low digits first, bit 7 set on all but the last.
pub(crate) fn write_leb128(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a number of at most four base-128 digits (names are far shorter than 2^28), in its
/// shortest form only.
fn read_leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, mut rest) = bytes.split_first()?;
    let mut value = usize::from(first & 0x7f);
    let (mut byte, mut shift) = (first, 0);
    while byte >= 0x80 {
        (byte, rest) = rest.split_first().map(|(&byte, rest)| (byte, rest))?;
        shift += 7;
        if byte == 0 || shift > 21 {
            return None;
        }
        value |= usize::from(byte & 0x7f) << shift;
    }
    Some((value, rest))
}

/// A signed integer in as few bytes as hold it.
pub(crate) fn write_int(value: i64, out: &mut Vec<u8>) {
    // The bits that differ from the sign, and one sign bit, are stored; zero needs no byte.
    let bits = if value == 0 {
        0
    } else {
        65 - (value ^ (value >> 63)).leading_zeros() as usize
    };
    out.extend(value.to_le_bytes().into_iter().take(bits.div_ceil(8)));
}

/// Reads what [`write_int`] wrote; no other spelling.
pub(crate) fn read_int(bytes: &[u8]) -> Option<i64> {
    let sign = match bytes.last() {
        None => return Some(0),
        Some(last) => (*last as i8) >> 7,
    };
    let mut whole = [sign as u8; 8];
    whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
    let value = i64::from_le_bytes(whole);
    // One byte fewer would do if the last one only repeats the sign.
    let wasteful = match bytes {
        [only] => *only == 0,
        [.., before, last] => *last == sign as u8 && (*before as i8) >> 7 == sign,
        [] => false,
    };
    (!wasteful).then_some(value)
}

/// An unsigned integer in as few bytes as hold it.
pub(crate) fn write_uint(value: u64, out: &mut Vec<u8>) {
    let bits = 64 - value.leading_zeros() as usize;
    out.extend(value.to_le_bytes().into_iter().take(bits.div_ceil(8)));
}

/// Reads what [`write_uint`] wrote; no other spelling.
pub(crate) fn read_uint(bytes: &[u8]) -> Option<u64> {
    let mut whole = [0; 8];
    whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
    (bytes.last() != Some(&0)).then_some(u64::from_le_bytes(whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_round_trip_in_their_shortest_form(value: i64, shift in 0..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            write_int(value, &mut bytes);
            prop_assert_eq!(read_int(&bytes), Some(value));
            let padding = if value < 0 { 0xff } else { 0 };
            bytes.push(padding);
            prop_assert_eq!(read_int(&bytes), None);

            let value = value as u64;
            bytes.clear();
            write_uint(value, &mut bytes);
            prop_assert_eq!(read_uint(&bytes), Some(value));
        }

        #[test]
        fn lengths_round_trip(value in 0_usize..1 << 28) {
            let mut bytes = Vec::new();
            write_leb128(value, &mut bytes);
            prop_assert_eq!(read_leb128(&bytes), Some((value, &[][..])));
        }
    }
}
