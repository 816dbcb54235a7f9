//! Index entries: a separator key and where its block is.

use super::frame::Handle;
use crate::fences::shared_bytes;
use crate::{TableDamage, varint};

/// Puts a key in `out` that is at or after `last` and before `next`: a short one if there is one.
/// `last` < `next`.
pub(crate) fn separator(last: &[u8], next: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let shared = shared_bytes(last, next);
    for (at, &byte) in last.iter().enumerate().skip(shared) {
        // One more than this byte is past `last`; and before `next`, if the keys differ earlier or
        // by more than one.
        if byte < u8::MAX && (at > shared || next.get(at).is_some_and(|&next| byte + 1 < next)) {
            out.extend_from_slice(last.get(..at).unwrap_or_default());
            out.push(byte + 1);
            return;
        }
    }
    out.extend_from_slice(last);
}

/// Puts the encoding of `handle` in `out`: offset and stored length, variable-length.
pub(crate) fn encode(handle: Handle, out: &mut Vec<u8>) {
    out.clear();
    varint::put(out, handle.offset);
    varint::put(out, handle.bytes);
}

/// The handle that an index entry's value holds.
pub(crate) fn decode(value: &[u8]) -> Result<Handle, TableDamage> {
    let mut at = 0;
    let handle = Handle {
        offset: varint::get(value, &mut at)?,
        bytes: varint::get(value, &mut at)?,
    };
    if at != value.len() {
        return Err(TableDamage::new(
            "length of an index entry",
            0,
            at,
            value.len(),
        ));
    }
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn separators_are_short() {
        let cases: &[(&[u8], &[u8], &[u8])] = &[
            (b"apple", b"melon", b"b"),
            (b"apple", b"banana", b"aq"),
            (b"a", b"ab", b"a"),
            (b"a\xff\xff", b"b", b"a\xff\xff"),
            (b"a\xffc", b"b", b"a\xffd"),
            (b"k1", b"k2", b"k1"),
        ];
        for (last, next, expected) in cases {
            let mut out = Vec::new();
            separator(last, next, &mut out);
            assert_eq!(&out, expected, "{last:?} {next:?}");
        }
    }

    proptest! {
        #[test]
        fn a_separator_separates(
            a in vec(prop_oneof![0u8..3, 253u8..=255], 0..6),
            b in vec(prop_oneof![0u8..3, 253u8..=255], 0..6),
        ) {
            prop_assume!(a != b);
            let (last, next) = if a < b { (a, b) } else { (b, a) };
            let mut out = Vec::new();
            separator(&last, &next, &mut out);
            prop_assert!(last <= out && out < next && out.len() <= last.len());
        }
    }
}
