//! Entry kinds, as memtables and table files number them.

use crate::deadline::DEADLINE_BYTES;

/// What an entry says of its key. The numbers are stored in table files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// It has this value.
    Put = 0,
    /// It has no value, whatever older entries say.
    Delete = 1,
    /// Its value changes by this operand.
    Merge = 2,
    /// It has this value until a deadline, which comes first: see [`deadline`](crate::deadline).
    /// From then on it has none, whatever older entries say.
    PutUntil = 3,
}

impl EntryKind {
    /// The kind stored as `number`.
    pub(crate) fn from_number(number: u64) -> Option<EntryKind> {
        match number {
            0 => Some(EntryKind::Put),
            1 => Some(EntryKind::Delete),
            2 => Some(EntryKind::Merge),
            3 => Some(EntryKind::PutUntil),
            _ => None,
        }
    }

    /// Whether an entry of this kind may have a value of this length: a deadline takes some.
    #[inline]
    pub(crate) fn may_be_of(self, bytes: u64) -> bool {
        self != EntryKind::PutUntil || bytes >= DEADLINE_BYTES as u64
    }
}
