//! Rows as a search index has them: documents of the indexed columns, by docid, as of a position.
//!
//! No clock decides: a cell that expires is there until a record removes it. So an index is the
//! same wherever and whenever it is made.

use crate::document::Assembly;
use crate::indexed_columns::RowFields;
use crate::machine::{NAMES, ROWS, tree_of};
use crate::row::Row;
use crate::stored::Stored;
use crate::tiers::groups_of;
use crate::{Cell, Error, Result, cell_key};
use quire_lsm::TreeSnapshot;
use quire_model::{DocId, Document, Key};
use quire_store::BaseView;
use std::ops::Bound;

/// Rows of a view.
#[derive(Debug)]
pub(crate) struct IndexedRows<'v> {
    partition: u32,
    view: &'v BaseView,
    fields: &'v RowFields,
}

impl<'v> IndexedRows<'v> {
    /// Those of a partition's view.
    pub(crate) fn new(
        partition: u32,
        view: &'v BaseView,
        fields: &'v RowFields,
    ) -> IndexedRows<'v> {
        IndexedRows {
            partition,
            view,
            fields,
        }
    }

    /// The row of this number, and its key.
    ///
    /// # Errors
    /// `TooLarge` for a row that is larger than documents may be; damage on disk, by file and
    /// offset.
    pub(crate) fn row(&self, docid: DocId) -> Result<Option<(Document, Key)>> {
        let name = self.view.tree(NAMES)?.get(&docid.0.to_be_bytes())?;
        let Some(name) = name else {
            return Ok(None);
        };
        let key = Key::decode(&name)?;
        Ok(Some((self.named(docid, &key)?, key)))
    }

    /// The rows from a docid on, with their keys, until `see` says that these are enough. False if
    /// there are no more.
    ///
    /// # Errors
    /// As of [`row`](IndexedRows::row), and of `see`.
    pub(crate) fn each_from<E: From<Error>>(
        &self,
        from: DocId,
        see: &mut dyn FnMut(DocId, Document, Key) -> std::result::Result<bool, E>,
    ) -> std::result::Result<bool, E> {
        let names = || {
            let names = self.view.tree(NAMES)?;
            Ok::<_, Error>(names.scan(Bound::Included(&from.0.to_be_bytes()), Bound::Unbounded)?)
        };
        for item in names()? {
            let (docid, name) = item.map_err(Error::from)?;
            let docid = <[u8; 4]>::try_from(&*docid).map(u32::from_be_bytes);
            let docid = DocId(docid.map_err(|_| self.corrupt("a name of no row".into()))?);
            let key = Key::decode(&name).map_err(Error::from)?;
            if !see(docid, self.named(docid, &key)?, key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn named(&self, docid: DocId, key: &Key) -> Result<Document> {
        let row = self.view.tree(ROWS)?.get(&docid.0.to_be_bytes())?;
        let row = row.as_deref().and_then(Row::decode);
        let row = row.ok_or_else(|| self.corrupt(format!("document {key} has no row")))?;
        let mut assembly = Assembly::new(&self.fields.key_field, key);
        for group in groups_of(row.groups & self.fields.groups) {
            let cells = self.view.tree(tree_of(group, row.is_cold(group)))?;
            self.add_cells(cells, docid, &mut assembly)?;
        }
        assembly.finish()
    }

    /// Adds the cells of the row that are in a tree. Members of families are passed over.
    fn add_cells(&self, cells: &TreeSnapshot, docid: DocId, assembly: &mut Assembly) -> Result<()> {
        let (fields, schema) = (self.fields, &self.fields.schema);
        let (Some(first), Some(last)) = (fields.numbers.first(), fields.numbers.last()) else {
            return Ok(());
        };
        let mut from = cell_key::encode(docid, *first, &[]);
        let end = cell_key::column_end(docid, *last);
        let mut is_over = false;
        while !is_over {
            is_over = true;
            for item in cells.scan(Bound::Included(&from), Bound::Excluded(&end))? {
                let (cell_key, value) = item?;
                let split = cell_key::decode(&cell_key);
                let (_, column, member) =
                    split.ok_or_else(|| self.corrupt("a cell's key is cut short".into()))?;
                if fields.has(column) {
                    let member = std::str::from_utf8(member);
                    let member =
                        member.map_err(|_| self.corrupt("a member that is no text".into()))?;
                    let stored = Stored::split(&value).map_err(|what| self.corrupt(what))?;
                    let cell = Cell::decode(stored.cell).map_err(|what| self.corrupt(what))?;
                    assembly.cell(schema, column, member, &cell)?;
                } else if schema.numbered(column).is_none_or(|column| column.family) {
                    from = cell_key::column_end(docid, column);
                    is_over = false;
                    break;
                }
            }
        }
        Ok(())
    }

    fn corrupt(&self, what: String) -> Error {
        Error::Corrupt {
            partition: self.partition,
            what,
        }
    }
}
