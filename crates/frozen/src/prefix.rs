//! [`prefix`]: the first bytes of a byte string as a number, which decides most comparisons.

/// The first eight bytes as a number; a shorter string is padded with zeros. A greater string never
/// has a smaller number.
#[inline]
pub(crate) fn prefix(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut first = [0; 8];
    for (to, from) in first.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_be_bytes(first)
}
