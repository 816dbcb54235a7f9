//! Folding: the entries of one key, newest first, become one.

use crate::deadline::{self, DEADLINE_BYTES};
use crate::{Error, MergeError, Merger, Op, Result, SmallBytes, VALUE_BYTES_MAX};
use quire_seeded::{Bug, seeded};
use std::sync::Arc;

/// What an entry says of its key. The numbers are stored in table files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It has this value.
    Put = 0,
    /// It has no value, whatever older entries say.
    Delete = 1,
    /// Its value changes by this operand.
    Merge = 2,
    /// It has this value until a deadline, which comes first: see [`deadline`]. From then on it has
    /// none, whatever older entries say.
    PutUntil = 3,
}

impl Kind {
    /// The kind stored as `number`.
    pub(crate) fn from_number(number: u64) -> Option<Kind> {
        match number {
            0 => Some(Kind::Put),
            1 => Some(Kind::Delete),
            2 => Some(Kind::Merge),
            3 => Some(Kind::PutUntil),
            _ => None,
        }
    }
}

impl Kind {
    /// Whether an entry of this kind may have a value of so many bytes: a deadline takes some.
    #[inline]
    pub(crate) fn may_be_of(self, bytes: u64) -> bool {
        self != Kind::PutUntil || bytes >= DEADLINE_BYTES as u64
    }
}

/// Looks at a value that it is lent.
pub(crate) type Borrower<'a> = dyn FnMut(&[u8]) + 'a;

/// Somebody to whom a value is lent where it lies, instead of copying it; or nobody.
#[derive(Default)]
pub(crate) struct Visit<'a> {
    to: Option<&'a mut Borrower<'a>>,
    /// Whether it was: the entry that tells of it has no value then.
    pub(crate) lent: bool,
}

impl<'a> Visit<'a> {
    pub(crate) fn to(to: &'a mut Borrower<'a>) -> Visit<'a> {
        Visit {
            to: Some(to),
            lent: false,
        }
    }

    /// The entry of these: its value lent if it is one, and there is somebody; else copied.
    pub(crate) fn entry(&mut self, kind: Kind, value: &[u8]) -> Entry {
        match &mut self.to {
            Some(to) if kind == Kind::Put => {
                to(value);
                self.lent = true;
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
    pub(crate) kind: Kind,
    pub(crate) value: SmallBytes,
}

impl Entry {
    /// A tombstone.
    pub(crate) fn delete() -> Entry {
        Entry {
            kind: Kind::Delete,
            value: SmallBytes::EMPTY,
        }
    }

    /// The value it gives its key, once nothing older is left to fold; `now` is asked only if it
    /// has a deadline.
    #[inline]
    pub(crate) fn into_value(self, now: impl FnOnce() -> u64) -> Option<SmallBytes> {
        match self.kind {
            Kind::Put => Some(self.value),
            Kind::PutUntil => {
                let (value, deadline) = self.into_value_and_deadline()?;
                (deadline.is_none_or(|deadline| now() < deadline)).then_some(value)
            }
            Kind::Delete | Kind::Merge => None,
        }
    }

    /// That value, also past its deadline, and the deadline if it has one.
    pub(crate) fn into_value_and_deadline(self) -> Option<(SmallBytes, Option<u64>)> {
        match self.kind {
            Kind::Put => Some((self.value, None)),
            Kind::PutUntil => {
                let (deadline, _) = deadline::split(&self.value);
                Some((self.value.after(DEADLINE_BYTES), Some(deadline)))
            }
            Kind::Delete | Kind::Merge => None,
        }
    }
}

/// A key and what one place says of it, where that lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) kind: Kind,
    pub(crate) value: &'a [u8],
}

impl<'a> Said<'a> {
    /// A tombstone of a key.
    pub(crate) fn tombstone(key: &'a [u8]) -> Said<'a> {
        Said {
            key,
            kind: Kind::Delete,
            value: &[],
        }
    }

    /// The value that it gives its key at a moment, which is asked only if it has a deadline.
    #[inline]
    pub(crate) fn value_at(self, now: impl FnOnce() -> u64) -> Option<&'a [u8]> {
        match self.kind {
            Kind::Put => Some(self.value),
            Kind::PutUntil => {
                let (deadline, value) = deadline::split(self.value);
                (now() < deadline).then_some(value)
            }
            Kind::Delete | Kind::Merge => None,
        }
    }

    /// Itself, or a tombstone if its deadline has passed.
    pub(crate) fn or_expired(self, now: u64) -> Said<'a> {
        match self.kind == Kind::PutUntil && deadline::split(self.value).0 <= now {
            true => Said::tombstone(self.key),
            false => self,
        }
    }
}

/// A tree's merger and name: what it takes to fold.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    pub(crate) tree: String,
    pub(crate) merger: Option<Arc<dyn Merger>>,
}

impl Folder {
    /// What `op` makes of `key`, over what the same place said of it before. The result covers
    /// both: whatever older places say folds under it alone.
    ///
    /// # Errors
    /// `InvalidArgument` for a merge without a merger, `Merge`, or `TooLarge` for what the fold
    /// made.
    pub(crate) fn write(&self, key: &[u8], before: Option<&Entry>, op: Op<'_>) -> Result<Entry> {
        let operand = match op {
            Op::Put(value) => {
                return Ok(Entry {
                    kind: Kind::Put,
                    value: SmallBytes::copy_from_slice(value),
                });
            }
            Op::PutUntil(timed) => {
                return Ok(Entry {
                    kind: Kind::PutUntil,
                    value: SmallBytes::copy_from_slice(timed),
                });
            }
            Op::Delete | Op::DeleteRange(_) => return Ok(Entry::delete()),
            Op::Merge(operand) => operand,
        };
        self.merger()?;
        match before {
            None => Ok(Entry {
                kind: Kind::Merge,
                value: SmallBytes::copy_from_slice(operand),
            }),
            Some(before) => self.under(key, before, operand),
        }
    }

    /// `operand` over the older entry `older`.
    fn under(&self, key: &[u8], older: &Entry, operand: &[u8]) -> Result<Entry> {
        let merger = self.merger()?;
        let mut out = Vec::new();
        let (kind, merged) = match older.kind {
            Kind::Put => (
                Kind::Put,
                merger.apply(key, Some(&older.value), operand, &mut out),
            ),
            Kind::PutUntil => {
                let (_, value) = deadline::split(&older.value);
                let merged = merger.apply(key, Some(value), operand, &mut out);
                let deadline = older.value.iter().take(DEADLINE_BYTES).copied();
                out.splice(..0, deadline);
                (Kind::PutUntil, merged)
            }
            Kind::Delete => (Kind::Put, merger.apply(key, None, operand, &mut out)),
            Kind::Merge if seeded(Bug::OperandsSwapped) => (
                Kind::Merge,
                merger.combine(key, operand, &older.value, &mut out),
            ),
            Kind::Merge => (
                Kind::Merge,
                merger.combine(key, &older.value, operand, &mut out),
            ),
        };
        merged.map_err(|source| self.refused(source))?;
        self.check_value(out.len())?;
        Ok(Entry {
            kind,
            value: SmallBytes::from(out),
        })
    }

    /// Refuses a value or operand of more than [`VALUE_BYTES_MAX`].
    pub(crate) fn check_value(&self, bytes: usize) -> Result<()> {
        if bytes > VALUE_BYTES_MAX {
            return Err(Error::TooLarge {
                tree: self.tree.clone(),
                what: "value",
                limit: VALUE_BYTES_MAX as u64,
                found: bytes as u64,
            });
        }
        Ok(())
    }

    fn merger(&self) -> Result<&dyn Merger> {
        self.merger
            .as_deref()
            .ok_or_else(|| Error::InvalidArgument(format!("tree {} has no merger", self.tree)))
    }

    fn refused(&self, source: MergeError) -> Error {
        Error::Merge {
            tree: self.tree.clone(),
            source,
        }
    }
}

/// The fold of one key, in progress.
#[derive(Debug, Default)]
pub(crate) struct Fold {
    entry: Option<Entry>,
}

impl Fold {
    /// Adds what the next older place says. True when nothing older matters any more.
    pub(crate) fn push(&mut self, folder: &Folder, key: &[u8], older: Entry) -> Result<bool> {
        let entry = match &self.entry {
            None => older,
            Some(newer) => folder.under(key, &older, &newer.value)?,
        };
        let done = entry.kind != Kind::Merge;
        self.entry = Some(entry);
        Ok(done)
    }

    /// Whether no place has named the key yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.entry.is_none()
    }

    /// What the places seen say of the key together; `None` if none named it. With `bottom`, no
    /// older place is left, so an operand is applied to no value and the result is a value or a
    /// tombstone.
    pub(crate) fn finish(self, folder: &Folder, key: &[u8], bottom: bool) -> Result<Option<Entry>> {
        match self.entry {
            Some(entry)
                if entry.kind == Kind::Merge && (bottom || seeded(Bug::OperandResolvedEarly)) =>
            {
                folder.under(key, &Entry::delete(), &entry.value).map(Some)
            }
            entry => Ok(entry),
        }
    }
}
