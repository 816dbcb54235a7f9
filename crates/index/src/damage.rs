//! IndexDamage: what a decoder says about bytes that make no sense.

/// Bytes that make no sense. The caller, which knows the file, adds its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damaged {what} at byte {offset}")]
pub struct IndexDamage {
    /// What was being read.
    pub what: &'static str,
    /// Where, in bytes from the start of the slice that was decoded.
    pub offset: u64,
}

impl IndexDamage {
    pub(crate) fn new(what: &'static str, offset: usize) -> IndexDamage {
        IndexDamage {
            what,
            offset: offset as u64,
        }
    }
}
