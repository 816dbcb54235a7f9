//! Packed numbers: each of the same number of bits, one behind the other, lowest bits first.
//!
//! # Invariants
//! 1. A width is 0 to 56, or 64: so every number lies in the eight bytes that begin at its first
//!    byte.
//! 2. A reader passes the bytes that follow the numbers, too: bits past a number's own are masked
//!    off. Past the end of the bytes everything is zero.

use crate::le;

/// The width for numbers up to `greatest`.
pub(crate) fn width_of(greatest: u64) -> u32 {
    match 64 - greatest.leading_zeros() {
        57.. => 64,
        width => width,
    }
}

/// Whether a file may name this width.
pub(crate) fn is_width(width: u32) -> bool {
    width <= 56 || width == 64
}

/// Bytes that `count` numbers take.
pub(crate) fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Appends numbers, each below 2^`width`.
pub(crate) fn pack(numbers: impl IntoIterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    assert!(is_width(width), "a packed number lies in eight bytes");
    if width == 64 {
        out.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
        return;
    }
    let (mut held, mut bits) = (0u64, 0);
    for number in numbers {
        debug_assert!(number <= mask(width), "a packed number is below 2^width");
        held |= number << bits;
        bits += width;
        if bits >= u64::BITS {
            out.extend_from_slice(&held.to_le_bytes());
            bits -= u64::BITS;
            // What the word had no room for.
            held = number >> (width - bits);
        }
    }
    let rest = held.to_le_bytes();
    out.extend_from_slice(rest.get(..bits.div_ceil(8) as usize).unwrap_or_default());
}

/// The number at `index`.
#[inline]
pub(crate) fn get(bytes: &[u8], width: u32, index: usize) -> u64 {
    let bit = index * width as usize;
    word_at(bytes, bit / 8) >> (bit % 8) & mask(width)
}

/// Numbers that are unpacked together: they begin and end with a byte, whatever their width.
pub(crate) const GROUP: usize = 64;

/// Fills `out` with the numbers from `index` on.
pub(crate) fn unpack(bytes: &[u8], width: u32, index: usize, out: &mut [u64]) {
    let (mut index, mut out) = (index, out);
    if !index.is_multiple_of(GROUP) {
        let first = (GROUP - index % GROUP).min(out.len());
        let (now, later) = out.split_at_mut(first);
        unpack_any(bytes, width, index, now);
        (index, out) = (index + first, later);
    }
    let (groups, rest) = out.as_chunks_mut();
    for group in groups {
        unpack_group(
            bytes.get(index / 8 * width as usize..).unwrap_or_default(),
            width,
            group,
        );
        index += GROUP;
    }
    unpack_any(bytes, width, index, rest);
}

/// The numbers one by one.
fn unpack_any(bytes: &[u8], width: u32, index: usize, out: &mut [u64]) {
    for (index, number) in (index..).zip(out) {
        *number = get(bytes, width, index);
    }
}

/// Fills `out` with the first 64 numbers of `bytes`.
pub(crate) fn unpack_group(bytes: &[u8], width: u32, out: &mut [u64; GROUP]) {
    /// With the width known, shifts and masks are constants.
    fn of<const WIDTH: usize>(bytes: &[u8], out: &mut [u64; GROUP]) {
        let Some((words, _)) = bytes.as_chunks::<8>().0.split_first_chunk::<WIDTH>() else {
            return unpack_any(bytes, WIDTH as u32, 0, out);
        };
        let words = words.map(u64::from_le_bytes);
        for (index, number) in out.iter_mut().enumerate() {
            let (at, shift) = (index * WIDTH / 64, index * WIDTH % 64);
            let low = words.get(at).copied().unwrap_or(0) >> shift;
            let high = match shift + WIDTH > 64 {
                true => words.get(at + 1).copied().unwrap_or(0) << (64 - shift),
                false => 0,
            };
            *number = (low | high) & mask(WIDTH as u32);
        }
    }
    macro_rules! widths {
        ($($width:literal)*) => {
            match width {
                0 => out.fill(0),
                $($width => of::<$width>(bytes, out),)*
                _ => unpack_any(bytes, width, 0, out),
            }
        };
    }
    widths!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32);
}

/// Whether each of the first 64 numbers of `bytes` is `low` or more, and at most `high`: a bit for
/// each, the first one lowest. `None` if they have more than 15 bits.
///
/// Several numbers lie in a word, each with a bit to spare above it, and are compared at once.
///
/// Source: Lamport 1975, "Multiple byte processing with full-word instructions".
pub(crate) fn group_in_range(bytes: &[u8], width: u32, low: u64, high: u64) -> Option<u64> {
    match width {
        1..=7 => lanes_in_range::<8>(bytes, width, low, high),
        8..=15 => lanes_in_range::<16>(bytes, width, low, high),
        _ => None,
    }
}

/// The same, of numbers that take `LANE` bits of a word each, 8 or 16.
#[inline]
fn lanes_in_range<const LANE: u32>(bytes: &[u8], width: u32, low: u64, high: u64) -> Option<u64> {
    debug_assert!(width < LANE, "each lane has a bit to spare");
    let spare = 1 << (LANE - 1);
    (low < spare).then_some(())?;
    let ones = u64::MAX / mask(LANE);
    let (lows, spares) = (low * ones, spare * ones);
    let highs = (high.min(spare - 1) * ones) | spares;
    let lanes = (u64::BITS / LANE) as usize;
    // Spreads the packed numbers, one to a lane: halves are moved apart, then halves of these.
    let part = |numbers: u64, together: u32| {
        let (bits, room) = (together * width, together * LANE);
        let halves = u64::MAX / mask(2 * room) * mask(bits);
        numbers & halves | (numbers & halves << bits) << (room - bits)
    };
    let mut found = 0;
    for word in 0..GROUP / lanes {
        let bit = word * lanes * width as usize;
        let mut numbers = word_at(bytes, bit / 8) >> (bit % 8);
        if LANE == 8 {
            numbers = part(numbers, 4);
        }
        numbers = part(part(numbers, 2), 1);
        let is_in = ((numbers | spares) - lows) & (highs - numbers) & spares;
        // Moves the bits of all lanes side by side: a product is a sum of shifts, whose uppermost
        // bits hold the result.
        let shifts = match LANE {
            8 => 0x0102_0408_1020_4080,
            _ => 0x0001_0002_0004_0008,
        };
        let side_by_side = (is_in >> (LANE - 1)).wrapping_mul(shifts) >> (64 - LANE);
        found |= (side_by_side & mask(lanes as u32)) << (word * lanes);
    }
    Some(found)
}

#[inline]
fn mask(width: u32) -> u64 {
    !u64::MAX.checked_shl(width).unwrap_or(0)
}

#[inline]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    le::u64_at(bytes, at).unwrap_or_else(|| last_word(bytes, at))
}

#[cold]
fn last_word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    for (to, from) in word.iter_mut().zip(bytes.get(at..).unwrap_or_default()) {
        *to = *from;
    }
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back_at_every_width(
            numbers in vec(any::<u64>(), 0..200),
            shift in 0u32..64,
            start in 0usize..200,
        ) {
            let numbers: Vec<_> = numbers.into_iter().map(|number| number >> shift).collect();
            let width = width_of(numbers.iter().copied().max().unwrap_or(0));
            prop_assert!(is_width(width));
            let mut bytes = Vec::new();
            pack(numbers.iter().copied(), width, &mut bytes);
            prop_assert_eq!(bytes.len(), packed_bytes(numbers.len(), width));
            for (index, number) in numbers.iter().enumerate() {
                prop_assert_eq!(get(&bytes, width, index), *number);
            }
            let (low, high) = (
                numbers.first().map_or(0, |low| *low),
                numbers.last().map_or(0, |high| *high),
            );
            let is_in = |index: usize| (low..=high).contains(&get(&bytes, width, index));
            let expected =
                (0..GROUP).fold(0, |bits, index| bits | u64::from(is_in(index)) << index);
            let found = group_in_range(&bytes, width, low, high);
            prop_assert_eq!(found, (1..=15).contains(&width).then_some(expected));
            let rest = numbers.get(start..).unwrap_or_default();
            let mut out = vec![7; rest.len()];
            unpack(&bytes, width, start, &mut out);
            prop_assert_eq!(&out, rest);
        }
    }
}
