//! Where an entry lies in its block.

use crate::entry_kind::EntryKind;
use std::ops::Range;

/// An entry where it lies: ranges of the block.
#[derive(Debug)]
pub(super) struct EntryPlace {
    /// Where it is: an offset, or a number in order.
    pub(super) at: usize,
    /// Where the next one is, or would be.
    pub(super) next: usize,
    /// How many bytes of its key are those of the key before, or of the part that all share.
    pub(super) shared: usize,
    pub(super) unshared: Range<usize>,
    pub(super) kind: EntryKind,
    pub(super) value: Range<usize>,
}
