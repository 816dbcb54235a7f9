//! The keys of the tree of expiries, which has the cells that expire in the order of their times.
//!
//! # Layout of the tree
//! ```text
//! | expiry (µs since 1970 UTC) i64 BE, its sign bit flipped | key of the cell |  ─►  | group u8 |
//! ```

/// The key of an entry.
pub(crate) fn key(expires: i64, cell_key: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + cell_key.len());
    key.extend_from_slice(&(expires ^ i64::MIN).to_be_bytes());
    key.extend_from_slice(cell_key);
    key
}

/// The time of an entry, and the key of its cell.
pub(crate) fn split(key: &[u8]) -> Option<(i64, &[u8])> {
    let (time, cell_key) = key.split_first_chunk()?;
    Some((i64::from_be_bytes(*time) ^ i64::MIN, cell_key))
}
