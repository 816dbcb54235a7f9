//! Folding: the entries of one key become one entry, or an accumulator.

use crate::deadline::{self, DEADLINE_BYTES};
use crate::entry::{Entry, EntryRef};
use crate::entry_kind::EntryKind;
use crate::merger::{self, DynMerger, MergeError, Merger};
use crate::{Error, Result, SmallBytes, VALUE_BYTES_MAX};
use quire_seeded::{Bug, seeded};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// A fold of this many operands needs no allocation for their list.
const OPERANDS: usize = 8;

/// A tree's merger and name: what it takes to fold.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    pub(crate) tree: String,
    pub(crate) merger: Option<Arc<dyn DynMerger>>,
}

/// The entries of one key that count, where they lie: operands, and what they change.
#[derive(Debug, Default)]
pub(crate) struct Stack<'a> {
    /// Newest first.
    operands: SmallVec<[&'a [u8]; OPERANDS]>,
    /// A value or a tombstone; `None` if none was found.
    base: Option<(EntryKind, &'a [u8])>,
}

impl<'a> Stack<'a> {
    /// Adds the next older entry. True if nothing older matters.
    pub(crate) fn push(&mut self, kind: EntryKind, value: &'a [u8]) -> bool {
        debug_assert!(self.base.is_none(), "nothing older counts than a value");
        match kind {
            EntryKind::Merge => {
                self.operands.push(value);
                false
            }
            EntryKind::Put | EntryKind::Delete | EntryKind::PutUntil => {
                self.base = Some((kind, value));
                true
            }
        }
    }

    /// Adds a tombstone below all entries.
    pub(crate) fn push_deletion(&mut self) {
        self.push(EntryKind::Delete, &[]);
    }

    /// The one entry that it is, or that its operands make.
    #[cfg(all(test, feature = "loom"))]
    pub(crate) fn into_one(self, folder: &Folder, key: &[u8]) -> Option<Entry> {
        match (&self.base, self.operands.is_empty()) {
            (None, true) => None,
            (Some((kind, value)), true) => Some(Entry {
                kind: *kind,
                value: SmallBytes::copy_from_slice(value),
            }),
            _ => folder.encode(key, self, false).ok(),
        }
    }

    /// The operands, oldest first.
    fn into_operands(self) -> SmallVec<[&'a [u8]; OPERANDS]> {
        let mut operands = self.operands;
        if !seeded(Bug::OperandsSwapped) {
            operands.reverse();
        }
        if seeded(Bug::OldestOperandSkipped) && operands.len() > 1 {
            operands.remove(0);
        }
        operands
    }
}

/// A value as it is kept: what was stored, and what changes it.
#[derive(Debug, Clone, Default)]
pub struct ValueParts {
    /// The value below all operands, if there is one.
    pub base: Option<SmallBytes>,
    /// Merge operands, the oldest first.
    pub operands: Vec<SmallBytes>,
}

/// The entries that a look-up found of one key, newest first: operands, then at most one other.
#[derive(Debug, Default)]
pub(crate) struct Found {
    newest: Option<Entry>,
    /// Empty, unless the newest is an operand.
    older: Vec<Entry>,
}

impl Found {
    /// Adds the next older entry. True if nothing older matters.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) -> bool {
        let is_done = entry.kind != EntryKind::Merge;
        match &self.newest {
            None => self.newest = Some(entry),
            Some(_) => self.older.push(entry),
        }
        is_done
    }

    /// Whether no entry was found.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_none()
    }

    /// How many.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        usize::from(self.newest.is_some()) + self.older.len()
    }

    /// The entry that they make, with nothing older: a value or a tombstone.
    #[inline]
    pub(crate) fn into_entry(self, folder: &Folder, key: &[u8]) -> Result<Option<Entry>> {
        match &self.newest {
            Some(newest) if newest.kind == EntryKind::Merge => {
                folder.encode(key, self.stack(), true).map(Some)
            }
            _ => Ok(self.newest),
        }
    }

    /// The value that they are of, and the operands above it, oldest first, as they are; `None` if
    /// the key has no value.
    pub(crate) fn into_parts(self, now: impl FnOnce() -> u64) -> Option<ValueParts> {
        let (mut parts, mut now) = (ValueParts::default(), Some(now));
        for entry in self.newest.into_iter().chain(self.older) {
            match entry.kind {
                EntryKind::Merge => parts.operands.push(entry.value),
                EntryKind::Put | EntryKind::Delete => {
                    parts.base = (entry.kind == EntryKind::Put).then_some(entry.value);
                }
                // An operand over a value whose deadline has passed keeps the deadline.
                EntryKind::PutUntil => parts.base = Some(entry.into_value(now.take()?)?),
            }
        }
        parts.operands.reverse();
        (parts.base.is_some() || !parts.operands.is_empty()).then_some(parts)
    }

    /// The accumulator that they make, with nothing older; `None` if the key has no value. A stored
    /// value that a visitor was shown is not among them.
    pub(crate) fn into_accumulator<M: Merger>(
        self,
        folder: &Folder,
        merger: &M,
        key: &[u8],
        now: impl FnOnce() -> u64,
    ) -> Result<Option<M::Accumulator>> {
        match &self.newest {
            Some(_) => folder.accumulate(merger, key, self.stack(), now),
            None => Ok(None),
        }
    }

    pub(crate) fn stack(&self) -> Stack<'_> {
        let mut stack = Stack::default();
        for entry in self.newest.iter().chain(&self.older) {
            stack.push(entry.kind, &entry.value);
        }
        stack
    }
}

/// The kind of what was folded over a value without a deadline, or over none.
fn value_or_deletion(is_value: bool) -> EntryKind {
    match is_value {
        true => EntryKind::Put,
        false => EntryKind::Delete,
    }
}

impl Folder {
    /// What an operand makes of `key`, over a value or tombstone that the same place said of it
    /// before. The result stands for both: what older places say folds under it alone. Its value
    /// replaces what `out` has.
    ///
    /// # Errors
    /// `InvalidArgument` for a merge without a merger, `Merge`, or `TooLarge` for what the fold
    /// made.
    pub(crate) fn write(
        &self,
        key: &[u8],
        before: Option<&Entry>,
        operand: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<EntryKind> {
        self.merger()?;
        let mut stack = Stack::default();
        stack.push(EntryKind::Merge, operand);
        if let Some(before) = before {
            stack.push(before.kind, &before.value);
        }
        self.encode_to(key, stack, false, out)
    }

    /// The operand of the same effect as `older`, newest first, and then `operand`: as
    /// [`write`](Self::write).
    ///
    /// # Errors
    /// As of [`write`](Self::write).
    pub(crate) fn combine(
        &self,
        key: &[u8],
        operand: &[u8],
        older: &[Entry],
        out: &mut Vec<u8>,
    ) -> Result<EntryKind> {
        let mut stack = Stack::default();
        stack.push(EntryKind::Merge, operand);
        for older in older {
            stack.push(EntryKind::Merge, &older.value);
        }
        self.encode_to(key, stack, false, out)
    }

    /// The entry that stands for a stack whose newest entry is an operand: as
    /// [`encode_to`](Self::encode_to).
    ///
    /// # Errors
    /// `Merge`, or `TooLarge` for what the fold made.
    pub(crate) fn encode(&self, key: &[u8], stack: Stack<'_>, bottom: bool) -> Result<Entry> {
        let mut value = Vec::new();
        let kind = self.encode_to(key, stack, bottom, &mut value)?;
        let value = SmallBytes::from(value);
        Ok(Entry { kind, value })
    }

    /// The kind of the entry that stands for a stack whose newest entry is an operand; its value
    /// replaces what `out` has. With `bottom`, no older place has the key, so the result is a value
    /// or a tombstone; else it is an operand if the stack has no base.
    ///
    /// # Errors
    /// `Merge`, or `TooLarge` for what the fold made.
    pub(crate) fn encode_to(
        &self,
        key: &[u8],
        stack: Stack<'_>,
        bottom: bool,
        out: &mut Vec<u8>,
    ) -> Result<EntryKind> {
        debug_assert!(!stack.operands.is_empty(), "one entry needs no fold");
        let merger = self.merger()?;
        let bottom = bottom || seeded(Bug::OperandResolvedEarly);
        let base = stack.base.or(bottom.then_some((EntryKind::Delete, &[])));
        let operands = stack.into_operands();
        out.clear();
        if let [operand] = operands.as_slice() {
            let as_it_is = match base {
                None | Some((EntryKind::Merge, _)) => Some(EntryKind::Merge),
                Some((EntryKind::Delete, _)) => merger.is_value(operand).then_some(EntryKind::Put),
                _ => None,
            };
            if let Some(kind) = as_it_is {
                out.extend_from_slice(operand);
                return Ok(kind);
            }
        }
        let kind = match base {
            None | Some((EntryKind::Merge, _)) => {
                let combined = merger.combine(key, &operands, out);
                combined.map(|()| EntryKind::Merge)
            }
            Some((EntryKind::Delete, _)) => {
                let folded = merger.fold(key, None, &operands, out);
                folded.map(value_or_deletion)
            }
            Some((EntryKind::Put, value)) => {
                let folded = merger.fold(key, Some(value), &operands, out);
                folded.map(value_or_deletion)
            }
            Some((EntryKind::PutUntil, timed)) => {
                let (_, value) = deadline::split(timed);
                out.extend(timed.iter().take(DEADLINE_BYTES));
                let folded = merger.fold(key, Some(value), &operands, out);
                folded.map(|_| EntryKind::PutUntil)
            }
        };
        let kind = kind.map_err(|source| self.refused(source))?;
        if kind == EntryKind::Delete {
            out.clear();
        }
        debug_assert!(
            !bottom || kind != EntryKind::Merge,
            "at the bottom nothing is left to fold"
        );
        self.check_value(out.len())?;
        Ok(kind)
    }

    /// The accumulator of a stack with nothing older; `None` if the key has no value at a moment,
    /// which is read only if a deadline is to be compared with it.
    ///
    /// # Errors
    /// `Merge`.
    pub(crate) fn accumulate<M: Merger>(
        &self,
        merger: &M,
        key: &[u8],
        stack: Stack<'_>,
        now: impl FnOnce() -> u64,
    ) -> Result<Option<M::Accumulator>> {
        let is_timed = matches!(stack.base, Some((EntryKind::PutUntil, _)));
        let is_stored = stack.operands.is_empty();
        let base = match stack.base {
            Some((kind, value)) if kind != EntryKind::Delete => {
                let base = EntryRef { key, kind, value }.value_at(now);
                if base.is_none() {
                    return Ok(None);
                }
                base
            }
            _ if stack.operands.is_empty() => return Ok(None),
            _ => None,
        };
        let folded = merger::fold(merger, key, base, &stack.into_operands());
        let folded = folded.map_err(|source| self.refused(source))?;
        let is_value = is_timed || is_stored || !merger.is_nothing(&folded);
        Ok(is_value.then_some(folded))
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

    fn merger(&self) -> Result<&dyn DynMerger> {
        self.merger
            .as_deref()
            .ok_or_else(|| Error::InvalidArgument(format!("tree {} has no merger", self.tree)))
    }

    /// The merger, if it is of this type.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not.
    pub(crate) fn typed_merger<M: Merger>(&self) -> Result<&M> {
        let merger = self.merger()?;
        let any: &dyn Any = merger;
        any.downcast_ref::<M>().ok_or_else(|| {
            let what = format!(
                "tree {} merges by {}, which is not a {}",
                self.tree,
                merger.name(),
                std::any::type_name::<M>()
            );
            Error::InvalidArgument(what)
        })
    }

    pub(crate) fn refused(&self, source: MergeError) -> Error {
        Error::Merge {
            tree: self.tree.clone(),
            source,
        }
    }
}
