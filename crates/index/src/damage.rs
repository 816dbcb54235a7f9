//! Damage: what a decoder says about bytes that make no sense.

/// Bytes that make no sense, in what the decoder was handed. Whoever knows the file adds its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damaged {what} at byte {offset}")]
pub struct Damage {
    /// What was being read.
    pub what: &'static str,
    /// Where, in bytes from the start of what the decoder was handed.
    pub offset: u64,
}

impl Damage {
    pub(crate) fn new(what: &'static str, offset: usize) -> Damage {
        Damage {
            what,
            offset: offset as u64,
        }
    }
}
