//! Variable-length integers: seven bits a byte, lowest first, the top bit set on all but the last
//! (LEB128).

/// Appends `value`.
pub(crate) fn put(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The value that `bytes` begin with, which are moved past it. `None` if they end first, or it is
/// over 32 bits.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<usize> {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return u32::try_from(value).ok().map(|value| value as usize);
        }
    }
    None
}
