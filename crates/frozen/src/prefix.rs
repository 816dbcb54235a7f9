//! [`prefix`]: the first bytes of a byte string as a number, so that most comparisons need look no further.

/// The first eight bytes as a number, zeros behind a shorter string: never above that of a greater
/// one.
pub(crate) fn prefix(bytes: &[u8]) -> u64 {
    let mut first = [0; 8];
    for (to, from) in first.iter_mut().zip(bytes) {
        *to = *from;
    }
    u64::from_be_bytes(first)
}
