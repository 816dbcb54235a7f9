//! Entry: what one place, a memtable at a position or a run, says of a key.

use crate::SmallBytes;
use crate::deadline::{self, DEADLINE_BYTES};
use crate::entry_kind::EntryKind;

/// Looks at a value where it lies.
pub(crate) type Visitor<'a> = dyn FnMut(&[u8]) + 'a;

/// A zero-copy visit: a visitor that is shown a value where it lies, if there is one.
#[derive(Default)]
pub(crate) struct Visit<'a> {
    visitor: Option<&'a mut Visitor<'a>>,
    /// Whether the visitor was shown the value. The entry that is returned then has no value.
    pub(crate) is_done: bool,
}

impl<'a> Visit<'a> {
    pub(crate) fn by(visitor: &'a mut Visitor<'a>) -> Visit<'a> {
        Visit {
            visitor: Some(visitor),
            is_done: false,
        }
    }

    /// The entry of these. A value is shown to the visitor if there is one, and else copied.
    pub(crate) fn entry(&mut self, kind: EntryKind, value: &[u8]) -> Entry {
        match &mut self.visitor {
            Some(visitor) if kind == EntryKind::Put => {
                visitor(value);
                self.is_done = true;
                let value = SmallBytes::EMPTY;
                Entry { kind, value }
            }
            _ => Entry {
                kind,
                value: SmallBytes::copy_from_slice(value),
            },
        }
    }
}

/// What one place (a memtable at a position, a run) says of a key. A tombstone's value is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    pub(crate) value: SmallBytes,
}

impl Entry {
    /// A tombstone.
    pub(crate) fn delete() -> Entry {
        Entry {
            kind: EntryKind::Delete,
            value: SmallBytes::EMPTY,
        }
    }

    /// The value it gives its key, once nothing older is left to fold; `now` is read only if it
    /// has a deadline.
    #[inline]
    pub(crate) fn into_value(self, now: impl FnOnce() -> u64) -> Option<SmallBytes> {
        match self.kind {
            EntryKind::Put => Some(self.value),
            EntryKind::PutUntil => {
                let (value, deadline) = self.into_value_and_deadline()?;
                (deadline.is_none_or(|deadline| now() < deadline)).then_some(value)
            }
            EntryKind::Delete | EntryKind::Merge => None,
        }
    }

    /// That value, also past its deadline, and the deadline if it has one.
    pub(crate) fn into_value_and_deadline(self) -> Option<(SmallBytes, Option<u64>)> {
        match self.kind {
            EntryKind::Put => Some((self.value, None)),
            EntryKind::PutUntil => {
                let (deadline, _) = deadline::split(&self.value);
                Some((self.value.after(DEADLINE_BYTES), Some(deadline)))
            }
            EntryKind::Delete | EntryKind::Merge => None,
        }
    }
}

/// A key and what one place says of it, where that lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryRef<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) kind: EntryKind,
    pub(crate) value: &'a [u8],
}

impl<'a> EntryRef<'a> {
    /// A tombstone of a key.
    pub(crate) fn tombstone(key: &'a [u8]) -> EntryRef<'a> {
        EntryRef {
            key,
            kind: EntryKind::Delete,
            value: &[],
        }
    }

    /// The value that it gives its key at `now`, which is read only if it has a deadline.
    #[inline]
    pub(crate) fn value_at(self, now: impl FnOnce() -> u64) -> Option<&'a [u8]> {
        match self.kind {
            EntryKind::Put => Some(self.value),
            EntryKind::PutUntil => {
                let (deadline, value) = deadline::split(self.value);
                (now() < deadline).then_some(value)
            }
            EntryKind::Delete | EntryKind::Merge => None,
        }
    }

    /// Itself, or a tombstone if its deadline has passed.
    pub(crate) fn or_expired(self, now: u64) -> EntryRef<'a> {
        match self.kind == EntryKind::PutUntil && deadline::split(self.value).0 <= now {
            true => EntryRef::tombstone(self.key),
            false => self,
        }
    }
}
