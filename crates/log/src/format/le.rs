//! Little-endian fields of untrusted bytes. A read past their end gives `None` and never panics.

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The byte at `at`.
pub(crate) fn u8_at(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at).copied()
}

/// The four bytes at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

/// The eight bytes at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

/// The sixteen bytes at `at`, as they are.
pub(crate) fn bytes16_at(bytes: &[u8], at: usize) -> Option<[u8; 16]> {
    array(bytes, at)
}
