//! Variable-length integers: seven bits a byte, lowest first, the top bit set on all but the last
//! (LEB128).

use crate::TableDamage;

/// The most bytes a u64 takes.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

/// Appends `value`.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The value at `*at` in `bytes`; moves `*at` past it.
///
/// # Errors
/// [`TableDamage`] if the bytes end first, or the value is over a u64; `*at` is then as it was.
pub(crate) fn get(bytes: &[u8], at: &mut usize) -> Result<u64, TableDamage> {
    let mut value = 0u64;
    for index in 0..VARINT_BYTES_MAX {
        let Some(&byte) = bytes.get(*at + index) else {
            break;
        };
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * index as u32;
        if shift == 63 && bits > 1 {
            break;
        }
        value |= bits << shift;
        if byte < 0x80 {
            *at += index + 1;
            return Ok(value);
        }
    }
    Err(TableDamage::new(
        "variable-length integer",
        *at,
        VARINT_BYTES_MAX,
        bytes.len().saturating_sub(*at),
    ))
}

/// A length at `*at`, and that many bytes after it; moves `*at` past both.
///
/// # Errors
/// [`TableDamage`] if the bytes end first; `*at` is then as it was.
pub(crate) fn get_bytes<'a>(bytes: &'a [u8], at: &mut usize) -> Result<&'a [u8], TableDamage> {
    let mut next = *at;
    let length = get(bytes, &mut next)?;
    let left = bytes.len() - next;
    match usize::try_from(length)
        .ok()
        .and_then(|length| bytes.get(next..next.checked_add(length)?))
    {
        Some(found) => {
            *at = next + found.len();
            Ok(found)
        }
        None => Err(TableDamage::new("length", *at, left, length)),
    }
}

/// Appends the length of `bytes`, then `bytes`.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_value_comes_back_and_every_cut_is_refused(value: u64) {
            let mut bytes = vec![7];
            put(&mut bytes, value);
            let mut at = 1;
            prop_assert_eq!(get(&bytes, &mut at), Ok(value));
            prop_assert_eq!(at, bytes.len());
            for length in 1..bytes.len() {
                let mut at = 1;
                prop_assert!(get(&bytes[..length], &mut at).is_err());
                prop_assert_eq!(at, 1);
            }
        }
    }

    #[test]
    fn a_value_over_64_bits_and_a_length_past_the_end_are_refused() {
        let mut at = 0;
        assert!(get(&[0xff; 10], &mut at).is_err());
        assert!(get(&[0xff; 11], &mut at).is_err());
        let mut bytes = Vec::new();
        put(&mut bytes, u64::MAX);
        assert!(get_bytes(&bytes, &mut at).is_err());
        assert_eq!(
            get_bytes(&[2, 1], &mut at),
            Err(TableDamage::new("length", 0, 1, 2))
        );
        assert_eq!(at, 0);
    }
}
