//! Variable-length integers: seven bits a byte, lowest first, the top bit set on all but the last.

/// The most bytes that one takes.
const BYTES_MAX: usize = 5;

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off `bytes`; `None` if they begin with none of 32 bits.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u32> {
    let mut number = 0u64;
    for at in 0..BYTES_MAX {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return u32::try_from(number).ok();
        }
    }
    None
}

/// Appends bytes behind their length.
///
/// The caller has checked that they are fewer than 4 GiB.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(u32::try_from(bytes.len()).is_ok(), "lengths have 32 bits");
    put(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

/// Takes what [`put_bytes`] wrote.
pub(crate) fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}
