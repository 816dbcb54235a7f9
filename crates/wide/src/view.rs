//! A consistent read of a partition: rows, named columns of them, members of families, and columns
//! of all rows.

use crate::document::Assembly;
use crate::machine::{KEYS, NAMES, ROWS, Totals, tree_of};
use crate::row::Row;
use crate::schema::{Column, Schema};
use crate::tier_work::TierWork;
use crate::tiers::groups_of;
use crate::{Cell, Error, Result, cell_key};
use quire_lsm::TreeSnapshot;
use quire_model::{DocId, Document, Key, Position};
use quire_store::{TreeId, View};
use std::ops::Bound;
use std::sync::Arc;

/// A row as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct WideFound {
    /// Its key.
    pub key: Key,
    /// Its version: the position of its newest record.
    pub version: Position,
    /// The partition it lives in.
    pub partition: u32,
    /// When it was last written: microseconds since 1970 UTC, by the writer's clock.
    pub time_micros: i64,
    /// The key, in the key field, and the columns that were named, or all.
    pub document: Document,
}

/// A consistent read of everything acknowledged when it was made. It pins memory and files while it
/// is held.
#[derive(Debug, Clone)]
pub struct WideView {
    partition: u32,
    schema: Arc<Schema>,
    store: Arc<View<Totals>>,
    tiers: Arc<TierWork>,
}

impl WideView {
    pub(crate) fn new(
        partition: u32,
        schema: Arc<Schema>,
        store: View<Totals>,
        tiers: Arc<TierWork>,
    ) -> WideView {
        WideView {
            partition,
            schema,
            store: Arc::new(store),
            tiers,
        }
    }

    /// The last record that it sees.
    pub fn position(&self) -> Position {
        self.store.position()
    }

    /// How many rows there are.
    pub fn count(&self) -> u64 {
        self.store.summary().documents
    }

    /// For each group, the rows whose cells are in its cold tree.
    pub(crate) fn cold_rows(&self) -> &[u64; crate::GROUPS_MAX] {
        &self.store.summary().cold_rows
    }

    /// The groups that have rows in their cold trees.
    pub(crate) fn cold_groups(&self) -> u16 {
        self.store.summary().cold_groups()
    }

    /// The columns.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The row under `key`: the columns that are named, or all. Only their groups are read.
    ///
    /// # Errors
    /// `Invalid` for a column that there is not; `TooLarge` for a document that is larger than
    /// documents may be; damage on disk, by file and offset.
    pub fn get(
        &self,
        key: &Key,
        key_field: &str,
        columns: Option<&[&str]>,
    ) -> Result<Option<WideFound>> {
        let named = self.named(columns)?;
        let Some((docid, row)) = self.row(key)? else {
            return Ok(None);
        };
        let mut assembly = Assembly::new(key_field, key);
        match named {
            None => {
                self.note_read(docid, &row, row.groups);
                self.assemble_all(docid, &row, &mut assembly)?;
            }
            Some(columns) => {
                let groups = columns.iter().map(|column| 1 << column.group);
                self.note_read(docid, &row, groups.fold(0, |mask: u16, group| mask | group));
                for column in columns {
                    self.assemble_column(docid, &row, column, &mut assembly)?;
                }
            }
        }
        Ok(Some(WideFound {
            key: key.clone(),
            version: row.version,
            partition: self.partition,
            time_micros: row.time_micros,
            document: assembly.finish()?,
        }))
    }

    /// The cell of a column, or of a member of a family; `None` if the row or the cell is not
    /// there.
    ///
    /// # Errors
    /// `Invalid` for a column that there is not, a family without a member, or a member of a plain
    /// column.
    pub fn cell(&self, key: &Key, column: &str, member: Option<&str>) -> Result<Option<Cell>> {
        let column = self.schema.declared(column)?;
        if column.family != member.is_some() {
            return Err(Error::Invalid(match column.family {
                true => format!("column {:?} is a family: name a member of it", column.name),
                false => format!(
                    "column {:?} is no family, so it has no members",
                    column.name
                ),
            }));
        }
        let Some((docid, row)) = self.row(key)? else {
            return Ok(None);
        };
        self.note_read(docid, &row, 1 << column.group);
        self.point(docid, &row, column, member.unwrap_or_default())
    }

    /// The members of a family from `from` up to `to`, which is left out, in the order of their
    /// bytes. They are read as they are taken: any number can be paged through.
    ///
    /// # Errors
    /// `Invalid` for a column that is not there or is no family.
    pub fn members(
        &self,
        key: &Key,
        column: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Members> {
        let column = self.schema.declared(column)?;
        if !column.family {
            let what = format!(
                "column {:?} is no family, so it has no members",
                column.name
            );
            return Err(Error::Invalid(what));
        }
        let scan = match self.row(key)? {
            Some((docid, row)) if row.groups & (1 << column.group) != 0 => {
                let from = from.unwrap_or_default().as_bytes();
                let from = cell_key::encode(docid, column.number, from);
                let to = match to {
                    None => cell_key::column_end(docid, column.number),
                    Some(to) => cell_key::encode(docid, column.number, to.as_bytes()),
                };
                self.note_read(docid, &row, 1 << column.group);
                let cells = self.cells_of(&row, column.group)?;
                Some(cells.scan(Bound::Included(&from), Bound::Excluded(&to))?)
            }
            _ => None,
        };
        Ok(Members {
            scan,
            partition: self.partition,
        })
    }

    /// The row of this number, whole; `None` if there is none.
    ///
    /// # Errors
    /// As of [`get`](WideView::get).
    pub fn row_of(&self, docid: DocId, key_field: &str) -> Result<Option<WideFound>> {
        let name = self.store.tree(NAMES)?.get(&docid.0.to_be_bytes())?;
        match name {
            Some(name) => self.get(&Key::decode(&name)?, key_field, None),
            None => Ok(None),
        }
    }

    fn named(&self, columns: Option<&[&str]>) -> Result<Option<Vec<&Column>>> {
        let Some(columns) = columns else {
            return Ok(None);
        };
        let mut named: Vec<_> = columns
            .iter()
            .map(|name| self.schema.declared(name))
            .collect::<Result<_>>()?;
        // Each once, and in disk order.
        named.sort_by_key(|column| (column.group, column.number));
        named.dedup_by_key(|column| column.number);
        Ok(Some(named))
    }

    fn row(&self, key: &Key) -> Result<Option<(DocId, Row)>> {
        let Some(docid) = self.store.tree(KEYS)?.get(key.encoded())? else {
            return Ok(None);
        };
        let row = self.store.tree(ROWS)?.get(&docid)?;
        let row = row.as_deref().and_then(Row::decode);
        match (<[u8; 4]>::try_from(&*docid), row) {
            (Ok(docid), Some(row)) => Ok(Some((DocId(u32::from_be_bytes(docid)), row))),
            _ => Err(self.corrupt(format!("document {key} has no row"))),
        }
    }

    fn point(
        &self,
        docid: DocId,
        row: &Row,
        column: &Column,
        member: &str,
    ) -> Result<Option<Cell>> {
        if row.groups & (1 << column.group) == 0 {
            return Ok(None);
        }
        let key = cell_key::encode(docid, column.number, member.as_bytes());
        let cell = self.cells_of(row, column.group)?.get(&key)?;
        cell.as_deref().map(|bytes| self.decode(bytes)).transpose()
    }

    fn assemble_column(
        &self,
        docid: DocId,
        row: &Row,
        column: &Column,
        assembly: &mut Assembly,
    ) -> Result<()> {
        if !column.family {
            return match self.point(docid, row, column, "")? {
                Some(cell) => assembly.field(&column.name, &cell),
                None => Ok(()),
            };
        }
        if row.groups & (1 << column.group) == 0 {
            return Ok(());
        }
        let from = cell_key::encode(docid, column.number, &[]);
        let to = cell_key::column_end(docid, column.number);
        self.assemble(self.cells_of(row, column.group)?, &from, &to, assembly)
    }

    fn assemble_all(&self, docid: DocId, row: &Row, assembly: &mut Assembly) -> Result<()> {
        for group in groups_of(row.groups) {
            let cells = self.cells_of(row, group)?;
            let (from, to) = (cell_key::row(docid), cell_key::row_end(docid));
            self.assemble(cells, &from, &to, assembly)?;
        }
        Ok(())
    }

    /// Adds the cells of a tree between two keys, but those of dropped columns.
    fn assemble(
        &self,
        cells: &TreeSnapshot,
        from: &[u8],
        to: &[u8],
        assembly: &mut Assembly,
    ) -> Result<()> {
        for item in cells.scan(Bound::Included(from), Bound::Excluded(to))? {
            let (key, value) = item?;
            let (_, number, member) = self.split(&key)?;
            self.assemble_cell(number, member, &value, assembly)?;
        }
        Ok(())
    }

    /// Adds a cell, unless its column was dropped.
    pub(crate) fn assemble_cell(
        &self,
        number: u32,
        member: &[u8],
        value: &[u8],
        assembly: &mut Assembly,
    ) -> Result<()> {
        if self.schema.numbered(number).is_none() {
            return Ok(());
        }
        assembly.cell(
            &self.schema,
            number,
            self.text(member)?,
            &self.decode(value)?,
        )
    }

    /// The partition's number.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// The tree that has the cells of a row in a group.
    pub(crate) fn cells_of(&self, row: &Row, group: u8) -> Result<&TreeSnapshot> {
        self.tree(tree_of(group, row.is_cold(group)))
    }

    /// Counts a read of groups of a row, so that cold cells which are read often come back.
    fn note_read(&self, docid: DocId, row: &Row, groups: u16) {
        for group in groups_of(groups & row.tiers.cold) {
            let of_group = self.schema.groups().get(usize::from(group));
            let tiers = of_group.and_then(|group| group.tiers.as_ref());
            if let Some(reads) = tiers.and_then(|tiers| tiers.reads) {
                self.tiers.note_read(docid, group, reads);
            }
        }
    }

    pub(crate) fn tree(&self, tree: TreeId) -> Result<&TreeSnapshot> {
        Ok(self.store.tree(tree)?)
    }

    pub(crate) fn split<'k>(&self, key: &'k [u8]) -> Result<(DocId, u32, &'k [u8])> {
        let split = cell_key::decode(key);
        split.ok_or_else(|| self.corrupt("the key of a cell is cut short".into()))
    }

    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<Cell> {
        Cell::decode(bytes).map_err(|what| self.corrupt(what))
    }

    fn text<'m>(&self, member: &'m [u8]) -> Result<&'m str> {
        let text = std::str::from_utf8(member);
        text.map_err(|_| self.corrupt("the name of a member is no text".into()))
    }

    pub(crate) fn corrupt(&self, what: String) -> Error {
        Error::Corrupt {
            partition: self.partition,
            what,
        }
    }
}

/// Members of a family, in the order of their bytes. It ends after an error.
#[derive(Debug)]
pub struct Members {
    scan: Option<quire_lsm::Scan>,
    partition: u32,
}

impl Members {
    fn read(&mut self) -> Result<Option<(String, Cell)>> {
        let Some(item) = self.scan.as_mut().and_then(Iterator::next) else {
            return Ok(None);
        };
        let (key, value) = item?;
        let corrupt = |what: String| Error::Corrupt {
            partition: self.partition,
            what,
        };
        let member = cell_key::decode(&key).map(|(_, _, member)| member.to_vec());
        let member = member.and_then(|member| String::from_utf8(member).ok());
        let member = member.ok_or_else(|| corrupt("the name of a member is no text".into()))?;
        Ok(Some((member, Cell::decode(&value).map_err(corrupt)?)))
    }
}

impl Iterator for Members {
    type Item = Result<(String, Cell)>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            self.scan = None;
        }
        read.transpose()
    }
}
