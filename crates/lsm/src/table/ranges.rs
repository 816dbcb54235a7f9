//! Ranges: the keys that a table deletes from older runs, as one frame of the file. A table that
//! deletes none has no such frame.
//!
//! # Layout (variable-length integers)
//! ```text
//! | length, first key | length, end … |      each range
//! ```
//! The end is the first key after the range; empty if it has no end.
//!
//! Ranges are in order, not empty, and apart from each other; so only the last may be without end.

use crate::range_tombstones::{RangeTombstones, is_before};
use crate::{KEY_BYTES_MAX, TableDamage, varint};

/// Appends a range.
pub(super) fn encode(from: &[u8], to: &[u8], out: &mut Vec<u8>) {
    varint::put_bytes(out, from);
    varint::put_bytes(out, to);
}

/// `count` ranges, and the bytes of memory that they take.
///
/// # Errors
/// [`TableDamage`] for bytes that [`encode`] does not give, of that many ranges in order.
pub(super) fn decode(bytes: &[u8], count: u64) -> Result<(RangeTombstones, u64), TableDamage> {
    let (mut tombstones, mut memory) = (RangeTombstones::default(), 0);
    let (mut at, mut found) = (0, 0);
    let mut last: Option<&[u8]> = None;
    while at < bytes.len() {
        let start = at;
        let from = varint::get_bytes(bytes, &mut at)?;
        let to = varint::get_bytes(bytes, &mut at)?;
        let after_last = last.is_none_or(|last| !is_before(from, last));
        if from.is_empty() || !after_last || !is_before(from, to) {
            return Err(TableDamage::new(
                "order of deleted ranges",
                start,
                0u64,
                found,
            ));
        }
        let longest = from.len().max(to.len());
        if longest > KEY_BYTES_MAX {
            return Err(TableDamage::new(
                "key of a range",
                start,
                KEY_BYTES_MAX,
                longest,
            ));
        }
        let mut one = RangeTombstones::default();
        memory += one.add(from, to, 0);
        tombstones.append(&one);
        last = Some(to);
        found += 1;
    }
    match found == count {
        true => Ok((tombstones, memory)),
        false => Err(TableDamage::new(
            "number of deleted ranges",
            0,
            count,
            found,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_come_back_and_those_out_of_order_or_cut_are_refused() {
        let encoded = |ranges: &[(&[u8], &[u8])]| {
            let mut out = Vec::new();
            for (from, to) in ranges {
                encode(from, to, &mut out);
            }
            out
        };
        let right: [(&[u8], &[u8]); 3] = [(b"a", b"c"), (b"c", b"cc"), (b"x", b"")];
        let bytes = encoded(&right);
        let (tombstones, _) = decode(&bytes, 3).unwrap();
        let back: Vec<_> = tombstones
            .iter()
            .map(|tombstone| (&*tombstone.from, &*tombstone.to))
            .collect();
        assert_eq!(back, right);
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length], 3).is_err(), "{length} bytes");
        }
        assert!(decode(&bytes, 2).is_err());
        let wrong: [[(&[u8], &[u8]); 2]; 5] = [
            [(b"a", b"c"), (b"b", b"d")],
            [(b"a", b""), (b"b", b"d")],
            [(b"a", b"b"), (b"c", b"c")],
            [(b"x", b"y"), (b"a", b"b")],
            [(b"", b"b"), (b"b", b"c")],
        ];
        for ranges in wrong {
            assert!(decode(&encoded(&ranges), 2).is_err(), "{ranges:?}");
        }
    }
}
