//! [`RowIndex`]: the search index of a partition, as the store builds and follows it.
//!
//! # Invariants
//! 1. A row is indexed by what the newer view has of it. What was indexed of it is what the older
//!    view has.
//! 2. A row that the older view does not have is taken with the record that makes it, and with no
//!    other one: each docid is made once.
//! 3. The groups in which cells of indexed columns lie are known before cells are read: the records
//!    that move them are looked at first.

use crate::indexed_columns::{IndexedColumns, RowFields};
use crate::indexed_rows::IndexedRows;
use crate::record::{self, CellChange, Head, Kind};
use quire_lsm::TreeSpec;
use quire_model::{DocId, Document, Key, Position};
use quire_search::{IndexChanges, IndexSettings, IndexTrees};
use quire_seeded::{Bug, seeded};
use quire_store::{BaseView, DerivedTrees, Difference, Error, Result, TreeBatch};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows, and bytes of them, that are taken at a time.
const ROWS_AT_ONCE: usize = 256;
const BYTES_AT_ONCE: usize = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct RowIndex {
    partition: u32,
    trees: IndexTrees,
    columns: Arc<IndexedColumns>,
}

impl RowIndex {
    pub(crate) fn new(
        partition: u32,
        index: &IndexSettings,
        columns: Arc<IndexedColumns>,
    ) -> RowIndex {
        RowIndex {
            partition,
            trees: IndexTrees::new(index),
            columns,
        }
    }
}

/// New rows that are taken into an index together.
#[derive(Debug, Default)]
struct NewRows {
    rows: Vec<(DocId, Document, Key)>,
    bytes: usize,
}

impl NewRows {
    fn push(&mut self, docid: DocId, (document, key): (Document, Key), to: &mut IndexChanges) {
        self.bytes += document.as_bytes().len();
        self.rows.push((docid, document, key));
        if self.rows.len() >= ROWS_AT_ONCE || self.bytes >= BYTES_AT_ONCE {
            self.take_into(to);
        }
    }

    fn take_into(&mut self, changes: &mut IndexChanges) {
        changes.add_new(&self.rows);
        self.rows.clear();
        self.bytes = 0;
    }
}

/// An error that the store knows to be of the index.
fn refused(position: Position, error: crate::Error) -> Error {
    match error {
        crate::Error::Store(error) => error,
        error => Error::derived(position, error.to_string()),
    }
}

impl DerivedTrees for RowIndex {
    fn trees(&self) -> Vec<TreeSpec> {
        self.trees.specs()
    }

    fn build(
        &self,
        view: &BaseView,
        cursor: &[u8],
        batch: &mut TreeBatch,
    ) -> Result<Option<Vec<u8>>> {
        let mut changes = match cursor {
            [] => self.trees.begin(),
            _ => self.trees.go_on(view.position(), batch)?,
        };
        let from = cursor.try_into().map_or(0, u32::from_be_bytes);
        let fields = self.columns.row_fields(view);
        let fields = fields.map_err(|error| refused(view.position(), error))?;
        let rows = IndexedRows::new(self.partition, view, &fields);
        let (mut new, mut next) = (NewRows::default(), None);
        let are_left = rows.each_from(DocId(from), &mut |docid, document, key| {
            new.push(docid, (document, key), &mut changes);
            next = docid.0.checked_add(1);
            Ok::<_, crate::Error>(!changes.is_full())
        });
        let are_left = are_left.map_err(|error| refused(view.position(), error))?;
        new.take_into(&mut changes);
        changes.write(&self.trees, batch);
        let next = next.filter(|_| are_left);
        Ok(next.map(|next| next.to_be_bytes().to_vec()))
    }

    fn follow(
        &self,
        difference: &Difference<'_>,
        from: Position,
        batch: &mut TreeBatch,
    ) -> Result<Option<Position>> {
        let mut changes = self.trees.go_on(difference.old.position(), batch)?;
        let fields = self.columns.row_fields(difference.new);
        let mut step = Step {
            index: self,
            difference,
            fields: fields.map_err(|error| refused(difference.new.position(), error))?,
            seen: BTreeSet::new(),
            new: NewRows::default(),
        };
        for item in difference.records(from) {
            let (position, bytes) = item?;
            let refuse = |what| Error::derived(position, what);
            let (head, cells) = record::decode(&bytes).map_err(refuse)?;
            let taken = step.take(&head, &cells, &mut changes);
            taken.map_err(|error| refused(position, error))?;
            if changes.is_full() {
                step.new.take_into(&mut changes);
                changes.write(&self.trees, batch);
                return Ok(Some(position.next()));
            }
        }
        step.new.take_into(&mut changes);
        changes.write(&self.trees, batch);
        Ok(None)
    }
}

/// Records on their way into an index.
struct Step<'a> {
    index: &'a RowIndex,
    difference: &'a Difference<'a>,
    fields: RowFields,
    /// Rows that changed and are taken already.
    seen: BTreeSet<DocId>,
    new: NewRows,
}

impl Step<'_> {
    fn take(
        &mut self,
        head: &Head<'_>,
        cells: &[CellChange<'_>],
        changes: &mut IndexChanges,
    ) -> crate::Result<()> {
        let mut columns = cells.iter().map(|cell| cell.column);
        if let Some(early) = columns.find(|column| *column >= self.fields.schema.next_number) {
            self.index.columns.note_early(early);
        }
        let is_built = |built: &[u8]| head.docid.0.to_be_bytes().as_slice() < built;
        if !is_change(head, cells, &self.fields) || !self.difference.built.is_none_or(is_built) {
            return Ok(());
        }
        let rows = |view| IndexedRows::new(self.index.partition, view, &self.fields);
        if head.created {
            if let Some(row) = rows(self.difference.new).row(head.docid)? {
                self.new.push(head.docid, row, changes);
            }
            return Ok(());
        }
        if !self.seen.insert(head.docid) {
            return Ok(());
        }
        // One that is not there was made since, or removed by a record that came before.
        let before = rows(self.difference.old).row(head.docid)?;
        if before.is_some() {
            let after = rows(self.difference.new).row(head.docid)?;
            let before = before.filter(|_| !seeded(Bug::RowValueKept));
            changes.add_changed(head.docid, before, after);
        }
        Ok(())
    }
}

/// Whether a record may change what an index has of its row.
pub(crate) fn is_change(head: &Head<'_>, cells: &[CellChange<'_>], fields: &RowFields) -> bool {
    match head.kind {
        Kind::Delete => true,
        Kind::Write | Kind::Expire => {
            // What it clears may have lain in a group from which it would have moved since.
            let is_whole = head.created || head.cleared != 0;
            is_whole || cells.iter().any(|cell| fields.has(cell.column))
        }
        Kind::Move | Kind::MoveColumn | Kind::PassColumn | Kind::Foreign => false,
    }
}
