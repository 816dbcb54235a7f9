//! [`Slice`]: one of some parts of all values.

use crate::mix::hash;

/// One of `of` parts of all values, by a hash: each value is in one, and parts are about equally
/// large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    /// From 0 on.
    pub(crate) number: u32,
    pub(crate) of: u32,
}

impl Slice {
    /// Every value.
    pub(crate) const ALL: Slice = Slice { number: 0, of: 1 };

    /// Whether the value with these bytes is in it.
    pub(crate) fn contains(self, bytes: &[u8]) -> bool {
        self.of == 1 || hash(bytes) % u64::from(self.of) == u64::from(self.number)
    }
}
