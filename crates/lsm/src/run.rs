//! Run: tables in key order, no key in two of them; together one sorted sequence.

use crate::fold::Entry;
use crate::table::{Access, Counters, Table, TableCursor};
use crate::{Error, Result, RunMeta, TreeContext, TreeSpec};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) tables: Vec<Arc<Table>>,
    pub(crate) bytes: u64,
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
    ) -> Result<Run> {
        let ordered = meta.tables.is_sorted_by(|a, b| a.largest < b.smallest)
            && meta
                .tables
                .iter()
                .all(|table| table.smallest <= table.largest);
        if !ordered {
            let what = format!(
                "tree {}: tables of run {} overlap or are out of order",
                spec.name, meta.id
            );
            return Err(Error::InvalidArgument(what));
        }
        let (id, bytes) = (meta.id, meta.bytes());
        let open = |table| Table::open(context, counters, spec.id, table).map(Arc::new);
        let tables = meta.tables.into_iter().map(open).collect::<Result<_>>()?;
        Ok(Run { id, tables, bytes })
    }

    /// What the manifest keeps of it.
    pub(crate) fn meta(&self) -> RunMeta {
        RunMeta {
            id: self.id,
            tables: self
                .tables
                .iter()
                .map(|table| table.meta().clone())
                .collect(),
        }
    }

    /// Entries that a merge into the oldest run would drop or fold: tombstones and operands.
    pub(crate) fn unresolved(&self) -> u64 {
        self.tables
            .iter()
            .map(|table| table.meta().tombstones + table.meta().operands)
            .sum()
    }

    /// What the run says of `key`, whose filter hash is `hash`.
    pub(crate) fn get(&self, key: &[u8], hash: u64) -> Result<Option<Entry>> {
        match self.tables.get(self.table_at(key)) {
            Some(table) if table.meta().smallest.as_slice() <= key => table.get(key, hash),
            _ => Ok(None),
        }
    }

    /// The first table that ends at or after `key`.
    fn table_at(&self, key: &[u8]) -> usize {
        self.tables
            .partition_point(|table| table.meta().largest.as_slice() < key)
    }

    /// Says that the files of its tables go with their last holder.
    pub(crate) fn set_obsolete(&self) {
        for table in &self.tables {
            table.set_obsolete();
        }
    }
}

/// A place in a run. After an error it is of no use.
#[derive(Debug)]
pub(crate) struct RunCursor {
    run: Arc<Run>,
    access: Access,
    table_index: usize,
    table: Option<TableCursor>,
}

impl RunCursor {
    /// A cursor on the first entry at or after `from`.
    pub(crate) fn open(run: Arc<Run>, access: Access, from: &[u8]) -> Result<RunCursor> {
        let mut cursor = RunCursor {
            table_index: run.table_at(from),
            run,
            access,
            table: None,
        };
        cursor.open_table(from)?;
        Ok(cursor)
    }

    /// The key it is on, or `None` past the end.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.table.as_ref()?.key()
    }

    /// The entry it is on.
    pub(crate) fn entry(&self) -> Option<Entry> {
        self.table.as_ref()?.entry()
    }

    /// Moves to the next entry.
    pub(crate) fn advance(&mut self) -> Result<()> {
        if let Some(table) = &mut self.table {
            table.advance()?;
            if table.key().is_none() {
                self.table_index += 1;
                self.open_table(&[])?;
            }
        }
        Ok(())
    }

    /// Opens the table it is at. A table has an entry at or before its largest key, so this lands on one.
    fn open_table(&mut self, from: &[u8]) -> Result<()> {
        // The old one's buffer goes before the new one's comes.
        self.table = None;
        if let Some(table) = self.run.tables.get(self.table_index) {
            self.table = Some(TableCursor::open(Arc::clone(table), &self.access, from)?);
        }
        Ok(())
    }
}
