//! Table damage: what a decoder that knows no file says about bytes that make no sense.

use crate::Error;
use std::path::Path;

/// Bytes that make no sense, by their offset in what the decoder was handed. The caller
/// adds the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {offset}: expected {expected:#x}, found {found:#x}")]
pub struct TableDamage {
    /// What was being read.
    pub what: &'static str,
    /// Where, in bytes from the start of what the decoder was handed.
    pub offset: u64,
    /// The value, or the bound, that would have made sense.
    pub expected: u64,
    /// What was there.
    pub found: u64,
}

impl TableDamage {
    /// Damage at `offset`.
    pub(crate) fn new(
        what: &'static str,
        offset: usize,
        expected: impl TryInto<u64>,
        found: impl TryInto<u64>,
    ) -> TableDamage {
        let number = |value: Option<u64>| value.unwrap_or(u64::MAX);
        TableDamage {
            what,
            offset: offset as u64,
            expected: number(expected.try_into().ok()),
            found: number(found.try_into().ok()),
        }
    }

    /// The same damage as an error about `path`, in which the bytes handed to the decoder began at
    /// `base`.
    ///
    /// For a compressed block the offset counts bytes of its contents from the place where the
    /// block is stored.
    pub(crate) fn in_file(self, path: &Path, base: u64) -> Error {
        Error::Corrupt {
            path: path.to_path_buf(),
            what: self.what,
            offset: base.saturating_add(self.offset),
            expected: self.expected,
            found: self.found,
        }
    }
}
