//! Run: tables in key order, no key in two of them; together one sorted sequence.
//!
//! The ranges that a run deletes are deleted from older runs. Its own entries within them are
//! newer, and none is an operand.
//!
//! A run that is being merged begins at the key up to which the compaction has come. What its first
//! table has before that key, entries and ranges, is in the merged run, and reads pass over it.

use crate::direction::{Direction, Start};
use crate::entry::{Entry, EntryRef, Visit};
use crate::fences::Fences;
use crate::range_tombstones::RangeTombstones;
use crate::table::{Access, Counters, FilterQuery, Origin, Table, TableCursor};
use crate::{Error, Result, RunMeta, SmallBytes, TreeContext, TreeSpec};
use std::ops::ControlFlow;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) tables: Vec<Arc<Table>>,
    pub(crate) bytes: u64,
    /// Where it begins: only the first table has keys before. Empty if it is whole.
    from: SmallBytes,
    /// The largest keys of the tables.
    ends: Fences<()>,
    /// The ranges that it deletes.
    tombstones: RangeTombstones,
}

impl Run {
    /// Opens every table of `meta`.
    ///
    /// # Errors
    /// `InvalidArgument` for tables that overlap, or those of [`Table::open`].
    pub(crate) fn open(
        spec: &TreeSpec,
        context: &TreeContext,
        counters: &Arc<Counters>,
        meta: RunMeta,
        origin: Origin,
    ) -> Result<Run> {
        let open = |table| Table::open(context, counters, spec, table, origin).map(Arc::new);
        let tables = meta.tables.into_iter().map(open).collect::<Result<_>>()?;
        let from = SmallBytes::from(meta.from);
        Run::new(spec, meta.id, from, tables)
    }

    /// The run of `tables` that begins at `from`.
    ///
    /// # Errors
    /// `InvalidArgument` for tables that overlap.
    fn new(spec: &TreeSpec, id: u64, from: SmallBytes, tables: Vec<Arc<Table>>) -> Result<Run> {
        let wrong = |what: &str| {
            let what = format!(
                "tree {}: {what} of run {id} overlap or are out of order",
                spec.name
            );
            Err(Error::InvalidArgument(what))
        };
        let metas: Vec<_> = tables.iter().map(|table| table.meta()).collect();
        if !metas.is_sorted_by(|a, b| a.largest < b.smallest)
            || metas.iter().any(|table| table.smallest > table.largest)
        {
            return wrong("tables");
        }
        let ends: Vec<_> = metas.iter().map(|table| (&table.largest, ())).collect();
        let ends = Fences::new(&ends);
        let bytes = metas.iter().map(|table| table.bytes);
        let bytes = bytes.fold(0, u64::saturating_add);
        let mut tombstones = RangeTombstones::default();
        if !tables
            .iter()
            .all(|table| tombstones.append(table.range_tombstones()))
        {
            return wrong("ranges");
        }
        if !from.is_empty() {
            tombstones = tombstones.after(&from);
        }
        Ok(Run {
            id,
            tables,
            bytes,
            from,
            ends,
            tombstones,
        })
    }

    /// What it has from `key` on, as a run of the same number; maybe of no tables.
    ///
    /// # Errors
    /// None that its tables do not give already.
    pub(crate) fn after(&self, spec: &TreeSpec, key: &[u8]) -> Result<Run> {
        assert!(&*self.from <= key, "a compaction goes on, and never back");
        let is_over = |table: &&Arc<Table>| {
            table.meta().largest.as_slice() < key && table.range_tombstones().after(key).is_empty()
        };
        let tables = self.tables.iter().skip_while(is_over).cloned().collect();
        Run::new(spec, self.id, SmallBytes::copy_from_slice(key), tables)
    }

    /// It and the tables of `later`, whose keys come after its own, as a run of the same number.
    ///
    /// # Errors
    /// `InvalidArgument` if they do not.
    pub(crate) fn and(&self, spec: &TreeSpec, later: &Run) -> Result<Run> {
        let tables = self.tables.iter().chain(&later.tables).cloned().collect();
        Run::new(spec, self.id, self.from.clone(), tables)
    }

    /// Whether it is being merged: a part of it is in another run.
    pub(crate) fn is_cut(&self) -> bool {
        !self.from.is_empty()
    }

    /// Whether `merged`, the run below, can be what has the part of it that is merged.
    pub(crate) fn goes_on(&self, merged: &Run) -> bool {
        let ends_before = |last: &Arc<Table>| {
            last.meta().largest.as_slice() < &*self.from
                && last.range_tombstones().after(&self.from).is_empty()
        };
        match merged.is_cut() {
            true => merged.from == self.from,
            false => merged.tables.last().is_none_or(ends_before),
        }
    }

    /// What the manifest keeps of it.
    pub(crate) fn meta(&self) -> RunMeta {
        RunMeta {
            id: self.id,
            from: self.from.to_vec(),
            tables: self
                .tables
                .iter()
                .map(|table| table.meta().clone())
                .collect(),
        }
    }

    /// How many entries it has, and its first table before it begins.
    pub(crate) fn entries(&self) -> u64 {
        self.tables.iter().map(|table| table.meta().entries).sum()
    }

    /// Whether it has what a merge into the oldest run would drop or fold: tombstones, operands,
    /// ranges, values whose deadline has passed.
    pub(crate) fn is_unresolved(&self, now: u64) -> bool {
        let unresolved = |table: &Arc<Table>| {
            let meta = table.meta();
            meta.tombstones + meta.operands > 0 || table.has_expired(now)
        };
        self.tables.iter().any(unresolved) || !self.tombstones.is_empty()
    }

    /// The ranges that it deletes from older runs.
    pub(crate) fn range_tombstones(&self) -> &RangeTombstones {
        &self.tombstones
    }

    /// The table that may have `key`, whose filter hash is `hash`, and the page of its filter.
    pub(crate) fn look_up(&self, key: &[u8], hash: u64) -> Option<LookUp<'_>> {
        // A key before the first of this table is in none: the filter and the search say so too.
        let index = self.table_at(key);
        let table = self.tables.get(index)?;
        if index == 0 && key < &*self.from {
            return None;
        }
        Some(LookUp {
            table,
            query: table.query(hash),
        })
    }

    /// The first table that ends at or after `key`.
    fn table_at(&self, key: &[u8]) -> usize {
        let largest = |index: usize| {
            let table = self.tables.get(index);
            table.map_or(&[][..], |table| table.meta().largest.as_slice())
        };
        self.ends.count_less(key, largest, |_| ())
    }

    /// Says that the files of its tables go with their last holder.
    pub(crate) fn set_obsolete(&self) {
        for table in &self.tables {
            table.set_obsolete();
        }
    }
}

/// A look-up of a key in a run, prepared: those of all runs are, before the first is made, so that
/// they wait for memory together.
#[derive(Debug)]
pub(crate) struct LookUp<'a> {
    table: &'a Table,
    query: FilterQuery<'a>,
}

impl LookUp<'_> {
    /// Prefetches the line of the filter.
    pub(crate) fn prefetch(&self) {
        self.query.prefetch();
    }

    /// Has the system begin to read what [`get`](Self::get) will, and says whether the key may be
    /// there.
    pub(crate) fn announce(&self, key: &[u8], hash: u64) -> bool {
        self.table.announce(key, hash, &self.query)
    }

    /// What the run says of the key; a value may be shown to the visitor.
    ///
    /// # Errors
    /// As of [`Table::get`].
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: u64,
        visit: &mut Visit<'_>,
    ) -> Result<Option<Entry>> {
        self.table.get(key, hash, &self.query, visit)
    }
}

/// A place in a run. After an error it is of no use.
#[derive(Debug)]
pub(crate) struct RunCursor {
    run: Arc<Run>,
    access: Access,
    direction: Direction,
    /// `None` before the first of them.
    table_index: Option<usize>,
    /// Whether it is to end, on its way, before the first table does.
    ends_early: bool,
    table: Option<TableCursor>,
}

impl RunCursor {
    /// A cursor on the entry where `start` says, to go on from there.
    pub(crate) fn open(run: Arc<Run>, access: Access, start: Start<'_>) -> Result<RunCursor> {
        let last = run.tables.len().checked_sub(1);
        let from = run.from.clone();
        let start = match start {
            Start::From(key) if key < &*from => Start::From(&from),
            start => start,
        };
        let table_index = match start {
            Start::From(key) => Some(run.table_at(key)),
            // What is before the key may be in the table before.
            Start::Before(key) => last.map(|last| run.table_at(key).min(last)),
            Start::Last => last,
        };
        let mut cursor = RunCursor {
            ends_early: run.is_cut() && start.direction() == Direction::Backwards,
            run,
            access,
            direction: start.direction(),
            table_index,
            table: None,
        };
        cursor.open_table(start)?;
        cursor.settle()?;
        Ok(cursor)
    }

    /// The ranges that the run deletes from older ones.
    pub(crate) fn range_tombstones(&self) -> RangeTombstones {
        self.run.tombstones.clone()
    }

    /// Goes on from another place, the same way.
    pub(crate) fn seek(&mut self, start: Start<'_>) -> Result<()> {
        *self = RunCursor::open(Arc::clone(&self.run), self.access, start)?;
        Ok(())
    }

    /// The first eight bytes of the key it is on as a number; `None` past the end.
    #[inline]
    pub(crate) fn word(&self) -> Option<u64> {
        self.table.as_ref()?.word()
    }

    /// The entry it is on, where it lies.
    #[inline]
    pub(crate) fn entry_ref(&self) -> Option<EntryRef<'_>> {
        self.table.as_ref()?.entry_ref()
    }

    /// The entry it is on.
    pub(crate) fn entry(&self) -> Option<Entry> {
        self.table.as_ref()?.entry()
    }

    /// Moves on to the entry that comes next on its way. Returns what [`word`](Self::word) is then.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<Option<u64>> {
        if let Some(table) = &mut self.table
            && let Some(word) = table.advance()?
            && !self.ends_early
        {
            return Ok(Some(word));
        }
        self.settle()?;
        Ok(self.word())
    }

    /// Shows `each` the entry it is on, and values that come next in the same block, while their
    /// keys' words come before `end` on the way. It stays on the last that it showed.
    #[inline]
    pub(crate) fn visit(
        &mut self,
        end: u64,
        each: &mut impl FnMut(EntryRef<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match &mut self.table {
            Some(table) if self.ends_early => {
                table.entry_ref().map_or(ControlFlow::Continue(()), each)
            }
            Some(table) => table.visit(end, each),
            None => ControlFlow::Continue(()),
        }
    }

    /// Moves on over ends of tables until it is on an entry or past the last.
    fn settle(&mut self) -> Result<()> {
        while self
            .table
            .as_ref()
            .is_some_and(|table| table.key().is_none())
        {
            self.table_index = match self.direction {
                Direction::Forwards => self.table_index.map(|index| index + 1),
                Direction::Backwards => self.table_index.and_then(|index| index.checked_sub(1)),
            };
            self.open_table(self.direction.start())?;
        }
        let key = self.table.as_ref().and_then(TableCursor::key);
        if self.ends_early && key.is_some_and(|key| key < &*self.run.from) {
            (self.table_index, self.table) = (None, None);
        }
        Ok(())
    }

    /// Opens the table it is at, if it is at one.
    fn open_table(&mut self, start: Start<'_>) -> Result<()> {
        // The old one's buffer goes before the new one's comes.
        self.table = None;
        if let Some(table) = self
            .table_index
            .and_then(|index| self.run.tables.get(index))
        {
            self.table = Some(TableCursor::open(Arc::clone(table), self.access, start)?);
        }
        Ok(())
    }
}
