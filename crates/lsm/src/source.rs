//! Source: a memtable or a run, as a merge goes through it.

use crate::Result;
use crate::direction::Start;
use crate::entry::{Entry, EntryRef};
use crate::entry_kind::EntryKind;
use crate::fences;
use crate::fold::Stack;
use crate::memtable::{Memtable, MemtableCursor};
use crate::range_tombstones::RangeTombstones;
use crate::run::{Run, RunCursor};
use crate::table::Access;
use quire_model::Position;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A sorted sequence of entries.
#[derive(Debug)]
pub(crate) enum Source {
    Memtable(Box<MemtableCursor>),
    Run(Box<RunCursor>),
}

impl Source {
    /// All of a memtable, from the first key on.
    pub(crate) fn of_memtable(memtable: &Arc<Memtable>) -> Source {
        Source::Memtable(Box::new(memtable.cursor(Position(u64::MAX), Start::FIRST)))
    }

    /// All of a run, from the first key on, read once.
    pub(crate) fn of_run(run: &Arc<Run>) -> Result<Source> {
        let cursor = RunCursor::open(Arc::clone(run), Access::Sequential, Start::FIRST)?;
        Ok(Source::Run(Box::new(cursor)))
    }

    /// All of these runs, each read once.
    pub(crate) fn of_runs(runs: &[Arc<Run>]) -> Result<Vec<Source>> {
        runs.iter().map(Source::of_run).collect()
    }

    /// The ranges that it deletes from older sources.
    pub(crate) fn range_tombstones(&self) -> RangeTombstones {
        match self {
            Source::Memtable(cursor) => cursor.range_tombstones(),
            Source::Run(cursor) => cursor.range_tombstones(),
        }
    }

    /// Goes on from another place.
    pub(crate) fn seek(&mut self, start: Start<'_>) -> Result<()> {
        match self {
            Source::Memtable(cursor) => {
                cursor.seek(start);
                Ok(())
            }
            Source::Run(cursor) => cursor.seek(start),
        }
    }

    /// The first eight bytes of the key it is on; `None` past the end.
    pub(crate) fn word(&self) -> Option<u64> {
        match self {
            Source::Memtable(cursor) => cursor.key().map(fences::word),
            Source::Run(cursor) => cursor.word(),
        }
    }

    /// The entry it is on, where it lies; of several operands, the newest.
    #[inline]
    pub(crate) fn entry_ref(&self) -> Option<EntryRef<'_>> {
        match self {
            Source::Memtable(cursor) => cursor.entry_ref(),
            Source::Run(cursor) => cursor.entry_ref(),
        }
    }

    /// Adds the entries that it has of the key it is on. True if nothing older matters.
    pub(crate) fn push_to<'a>(&'a self, stack: &mut Stack<'a>) -> bool {
        match self {
            Source::Memtable(cursor) => cursor.push_to(stack),
            Source::Run(cursor) => cursor
                .entry_ref()
                .is_some_and(|said| stack.push(said.kind, said.value)),
        }
    }

    /// Whether the entry it is on is an operand.
    #[inline]
    pub(crate) fn is_on_operand(&self) -> bool {
        self.entry_ref()
            .is_some_and(|said| said.kind == EntryKind::Merge)
    }

    /// The entry it is on, to keep.
    pub(crate) fn entry(&self) -> Option<Entry> {
        match self {
            Source::Memtable(cursor) => cursor.entry(),
            Source::Run(cursor) => cursor.entry(),
        }
    }

    /// Moves on. Returns what [`word`](Self::word) is then.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<Option<u64>> {
        match self {
            Source::Memtable(cursor) => {
                cursor.advance();
                Ok(cursor.key().map(fences::word))
            }
            Source::Run(cursor) => cursor.advance(),
        }
    }

    /// Shows `each` the entry it is on, and values that come next in the same block, while their
    /// keys' words come before `end` on the way. It stays on the last that it showed.
    #[inline]
    pub(crate) fn visit(
        &mut self,
        end: u64,
        each: &mut impl FnMut(EntryRef<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Source::Memtable(cursor) => cursor.entry_ref().map_or(ControlFlow::Continue(()), each),
            Source::Run(cursor) => cursor.visit(end, each),
        }
    }
}
