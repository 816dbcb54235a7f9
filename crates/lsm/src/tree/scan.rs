//! Scan: the entries of a snapshot in key order, or in the reverse order.

use super::version::Version;
use crate::direction::Start;
use crate::entry::EntryRef;
use crate::merge::{Merge, Unfolded};
use crate::merger::{MergeError, Merger};
use crate::run::RunCursor;
use crate::source::Source;
use crate::table::Access;
use crate::{Result, SmallBytes};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Keys and values, ascending or descending: shown where they lie, or, by the iterator, shared.
/// It ends after an error.
#[derive(Debug)]
pub struct Scan {
    /// `None` once it has ended.
    merge: Option<Merge>,
    end: End,
    /// Values whose deadline is later are there.
    now: u64,
}

/// The value of a key, as [`Scan::visit_folded`] shows it.
#[derive(Debug)]
pub enum FoldedValue<'a, A> {
    /// A stored value without operands above it, where it lies.
    Stored(&'a [u8]),
    /// What a stored value, or none, and the operands above it were folded to.
    Folded(A),
}

impl<A: Send + 'static> FoldedValue<'_, A> {
    /// The accumulator; begun, if the value is stored.
    ///
    /// # Errors
    /// What the merger says.
    pub fn into_accumulator<M>(self, merger: &M, key: &[u8]) -> std::result::Result<A, MergeError>
    where
        M: Merger<Accumulator = A>,
    {
        match self {
            FoldedValue::Stored(value) => merger.begin(key, Some(value)),
            FoldedValue::Folded(accumulator) => Ok(accumulator),
        }
    }
}

/// Where a scan ends.
#[derive(Debug)]
enum End {
    /// Of one that ascends.
    Above(Bound<Vec<u8>>),
    /// Of one that descends.
    Below(Bound<Vec<u8>>),
}

impl End {
    /// Whether a key on the way is not past the end.
    #[inline]
    fn is_before(&self, key: &[u8]) -> bool {
        match self {
            End::Above(Bound::Unbounded) | End::Below(Bound::Unbounded) => true,
            End::Above(Bound::Included(to)) if seeded(Bug::ScanEndsOneShort) => key < to.as_slice(),
            End::Above(Bound::Included(to)) => key <= to.as_slice(),
            End::Above(Bound::Excluded(to)) => key < to.as_slice(),
            End::Below(Bound::Included(from)) => key >= from.as_slice(),
            End::Below(Bound::Excluded(from)) => key > from.as_slice(),
        }
    }
}

/// What a scan shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) version: &'a Version,
    pub(super) at: Position,
    /// Values whose deadline is later are there.
    pub(super) now: u64,
}

/// The next key there can be.
fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Scan {
    /// The entries from `from` to `to`.
    pub(super) fn ascending(seen: Seen<'_>, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Scan> {
        let from = match from {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => successor(key),
        };
        let end = End::Above(to.map(<[u8]>::to_vec));
        Scan::open(seen, Start::From(&from), end)
    }

    /// The entries from `to` back to `from`.
    pub(super) fn descending(seen: Seen<'_>, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Scan> {
        let before = match to {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(successor(key)),
            Bound::Excluded(key) => Some(key.to_vec()),
        };
        let start = before.as_deref().map_or(Start::Last, Start::Before);
        let end = End::Below(from.map(<[u8]>::to_vec));
        Scan::open(seen, start, end)
    }

    fn open(seen: Seen<'_>, start: Start<'_>, end: End) -> Result<Scan> {
        let Seen { version, at, now } = seen;
        version.check_there()?;
        let mut sources: Vec<_> = version
            .memtables()
            .map(|memtable| Source::Memtable(Box::new(memtable.cursor(at, start))))
            .collect();
        for run in &version.runs {
            let cursor = RunCursor::open(Arc::clone(run), Access::Cached, start)?;
            sources.push(Source::Run(Box::new(cursor)));
        }
        let merge = Merge::new(
            sources,
            start.direction(),
            Arc::clone(&version.folder),
            true,
        );
        Ok(Scan {
            merge: Some(merge),
            end,
            now,
        })
    }

    /// Shows `each` the pairs that are left, where they lie in blocks and memtables, until it
    /// breaks; a later call goes on after that pair.
    ///
    /// # Errors
    /// `Corrupt`, `Merge`, or those of the machine.
    pub fn visit<B>(
        &mut self,
        mut each: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>> {
        let Some(merge) = &mut self.merge else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut broken = None;
        let visited = merge.visit(|said| {
            if !self.end.is_before(said.key) {
                return ControlFlow::Break(());
            }
            if let Some(value) = said.value_at(|| self.now)
                && let ControlFlow::Break(with) = each(said.key, value)
            {
                broken = Some(with);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        if let Some(with) = broken {
            return Ok(ControlFlow::Break(with));
        }
        // Releases files and memory, even if the scan itself is kept.
        self.merge = None;
        visited.map(|_| ControlFlow::Continue(()))
    }

    /// As [`visit`](Self::visit), with the values of keys that have operands as accumulators of the
    /// tree's merger, which is an `M`. A stored value without operands above it is shown where it
    /// lies; [`FoldedValue::into_accumulator`] begins one from it. Nothing is serialised.
    ///
    /// # Errors
    /// `InvalidArgument` if the tree has no merger, or one of another type; else as for
    /// [`visit`](Self::visit).
    pub fn visit_folded<M: Merger, B>(
        &mut self,
        mut each: impl FnMut(&[u8], FoldedValue<'_, M::Accumulator>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>> {
        let Some(merge) = &mut self.merge else {
            return Ok(ControlFlow::Continue(()));
        };
        let folder = Arc::clone(merge.folder());
        let merger = folder.typed_merger::<M>()?;
        let mut ended = None;
        let visited = merge.visit_unfolded(|unfolded| {
            let (Unfolded::Entry(EntryRef { key, .. }) | Unfolded::Stack(key, _)) = &unfolded;
            let key = *key;
            if !self.end.is_before(key) {
                return ControlFlow::Break(());
            }
            let value = match unfolded {
                Unfolded::Entry(entry) => entry.value_at(|| self.now).map(FoldedValue::Stored),
                Unfolded::Stack(_, stack) => {
                    match folder.accumulate(merger, key, stack, || self.now) {
                        Ok(accumulator) => accumulator.map(FoldedValue::Folded),
                        Err(error) => {
                            ended = Some(Err(error));
                            return ControlFlow::Break(());
                        }
                    }
                }
            };
            match value.map(|value| each(key, value)) {
                Some(ControlFlow::Break(with)) => {
                    ended = Some(Ok(with));
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        });
        if let Some(Ok(with)) = ended {
            return Ok(ControlFlow::Break(with));
        }
        self.merge = None;
        match ended {
            Some(Err(error)) => Err(error),
            _ => visited.map(|_| ControlFlow::Continue(())),
        }
    }

    /// Moves on to the next pair before the end of the range; false if there is none.
    fn find_next(&mut self) -> Result<bool> {
        let Some(merge) = &mut self.merge else {
            return Ok(false);
        };
        while merge.advance()? {
            match merge.entry_ref() {
                Some(said) if !self.end.is_before(said.key) => break,
                Some(said) if said.value_at(|| self.now).is_some() => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }

    /// The pair that it is on, to keep: a long value shares memory with the block or memtable entry
    /// it is from.
    fn shared(&self) -> Option<(SmallBytes, SmallBytes)> {
        let merge = self.merge.as_ref()?;
        let key = SmallBytes::copy_from_slice(merge.entry_ref()?.key);
        Some((key, merge.entry()?.into_value(|| self.now)?))
    }
}

impl Iterator for Scan {
    type Item = Result<(SmallBytes, SmallBytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.find_next();
        if !matches!(found, Ok(true)) {
            // As in `visit`.
            self.merge = None;
        }
        match found {
            Ok(_) => self.shared().map(Ok),
            Err(error) => Some(Err(error)),
        }
    }
}
