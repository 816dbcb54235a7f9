//! A consistent read of a partition: rows, named columns of them, members of families, and columns
//! of all rows.

use crate::column_moves::ColumnMoves;
use crate::document::Assembly;
use crate::indexed_columns::RowFields;
use crate::machine::{KEYS, NAMES, ROWS, Totals, tree_of};
use crate::row::Row;
use crate::row_index_work::RowIndexWork;
use crate::schema::{Column, Schema};
use crate::stored::{self, Stored};
use crate::tier_work::TierWork;
use crate::tiers::groups_of;
use crate::{Cell, Error, Result, cell_key};
use quire_lsm::TreeSnapshot;
use quire_model::{DocId, Document, Key, Position};
use quire_search::ViewIndexes;
use quire_store::{PointView, TreeId, View};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

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

/// Cells of a row, as of one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct RowCells {
    /// The row's version.
    pub version: Position,
    /// The partition it lives in.
    pub partition: u32,
    /// The cell of each column that was named, and when it expires, if it does: microseconds since
    /// 1970 UTC.
    pub cells: Vec<Option<(Cell, Option<i64>)>>,
}

/// A consistent read of everything acknowledged when it was made. It pins memory and files while it
/// is held.
#[derive(Debug, Clone)]
pub struct WideView {
    partition: u32,
    schema: Arc<Schema>,
    store: Arc<View<Totals>>,
    tiers: Arc<TierWork>,
    pub(crate) indexes: ViewIndexes,
    pub(crate) row_index: Arc<RowIndexWork>,
    /// What the indexes have of rows, once a query needs it.
    pub(crate) row_fields: OnceLock<RowFields>,
}

impl WideView {
    /// Bytes of memtables that views alone hold still.
    pub fn held_memtable_bytes(&self) -> u64 {
        self.store.held_memtable_bytes()
    }

    pub(crate) fn new(
        partition: u32,
        schema: Arc<Schema>,
        (store, indexes): (Arc<View<Totals>>, ViewIndexes),
        tiers: Arc<TierWork>,
        row_index: Arc<RowIndexWork>,
    ) -> WideView {
        WideView {
            partition,
            schema,
            store,
            tiers,
            indexes,
            row_index,
            row_fields: OnceLock::new(),
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

    /// Rows that were ever made.
    pub(crate) fn rows_made(&self) -> u32 {
        self.store.summary().rows_made
    }

    /// The totals, but those of rows.
    pub(crate) fn totals_without_rows(&self) -> Totals {
        Totals {
            documents: 0,
            cold_rows: Default::default(),
            ..self.store.summary().clone()
        }
    }

    /// The columns that move or have moved.
    pub(crate) fn moves(&self) -> &ColumnMoves {
        &self.store.summary().moves
    }

    /// The groups that have rows in their cold trees.
    pub(crate) fn cold_groups(&self) -> u16 {
        self.store.summary().cold_groups()
    }

    /// The columns.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn shared_schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    pub(crate) fn store_view(&self) -> &View<Totals> {
        &self.store
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
                let group_of = |column: &&Column| 1 << self.moves().group_of(column, docid, &[]);
                let groups = columns.iter().map(group_of);
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
        let found = self.cell_until(key, column, member)?;
        Ok(found.map(|(cell, _)| cell))
    }

    /// As [`cell`](WideView::cell), and when it expires, if it does: microseconds since 1970 UTC.
    ///
    /// # Errors
    /// As of [`cell`](WideView::cell).
    pub fn cell_until(
        &self,
        key: &Key,
        column: &str,
        member: Option<&str>,
    ) -> Result<Option<(Cell, Option<i64>)>> {
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
        let member = member.unwrap_or_default();
        let group = self.moves().group_of(column, docid, member.as_bytes());
        self.note_read(docid, &row, 1 << group);
        self.point(docid, &row, column, member)
    }

    /// The cells of some plain columns of a row; `None` if there is no row.
    ///
    /// # Errors
    /// `Invalid` for a column that there is not, or a family.
    pub fn cells(&self, key: &Key, columns: &[&str]) -> Result<Option<RowCells>> {
        let columns = columns.iter().map(|name| self.plain(name));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let Some((docid, row)) = self.row(key)? else {
            return Ok(None);
        };
        let group_of = |column: &&Column| self.moves().group_of(column, docid, &[]);
        let groups = columns.iter().map(group_of);
        self.note_read(docid, &row, groups.fold(0, |mask, group| mask | 1 << group));
        let cells = columns
            .iter()
            .map(|column| self.point(docid, &row, column, ""));
        Ok(Some(RowCells {
            version: row.version,
            partition: self.partition,
            cells: cells.collect::<Result<_>>()?,
        }))
    }

    /// The column of this name, which is no family.
    fn plain(&self, name: &str) -> Result<&Column> {
        let column = self.schema.declared(name)?;
        match column.family {
            true => Err(Error::Invalid(format!(
                "column {name:?} is a family: name a member of it"
            ))),
            false => Ok(column),
        }
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
        let mut scans = Vec::new();
        if let Some((docid, row)) = self.row(key)? {
            let from = from.unwrap_or_default().as_bytes();
            let from = cell_key::encode(docid, column.number, from);
            let to = match to {
                None => cell_key::column_end(docid, column.number),
                Some(to) => cell_key::encode(docid, column.number, to.as_bytes()),
            };
            for group in self.groups_in_row(docid, &row, column) {
                self.note_read(docid, &row, 1 << group);
                let cells = self.cells_of(&row, group)?;
                scans.push(cells.scan(Bound::Included(&from), Bound::Excluded(&to))?);
            }
        }
        scans.reverse();
        Ok(Members {
            scans,
            partition: self.partition,
            now_micros: self.time_micros(),
        })
    }

    /// The row of this number: the columns that are named, or all; `None` if there is none.
    ///
    /// # Errors
    /// As of [`get`](WideView::get).
    pub fn row_of(
        &self,
        docid: DocId,
        key_field: &str,
        columns: Option<&[&str]>,
    ) -> Result<Option<WideFound>> {
        let name = self.store.tree(NAMES)?.get(&docid.0.to_be_bytes())?;
        match name {
            Some(name) => self.get(&Key::decode(&name)?, key_field, columns),
            None => Ok(None),
        }
    }

    pub(crate) fn named(&self, columns: Option<&[&str]>) -> Result<Option<Vec<&Column>>> {
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
    ) -> Result<Option<(Cell, Option<i64>)>> {
        let group = self.moves().group_of(column, docid, member.as_bytes());
        if row.groups & (1 << group) == 0 {
            return Ok(None);
        }
        let key = cell_key::encode(docid, column.number, member.as_bytes());
        let cell = self.cells_of(row, group)?.get(&key)?;
        let Some(bytes) = cell else {
            return Ok(None);
        };
        let stored = Stored::split(&bytes).map_err(|what| self.corrupt(what))?;
        Ok(self.decode(&bytes)?.map(|cell| (cell, stored.expires)))
    }

    /// The groups that may have cells of a column in a row: the one of the lesser members first.
    fn groups_in_row(
        &self,
        docid: DocId,
        row: &Row,
        column: &Column,
    ) -> impl Iterator<Item = u8> + use<> {
        let (all, groups) = (self.moves().groups_in_row(column, docid), row.groups);
        let groups = move |group: &u8| groups & (1 << group) != 0;
        all.into_iter().flatten().filter(groups)
    }

    pub(crate) fn assemble_column(
        &self,
        docid: DocId,
        row: &Row,
        column: &Column,
        assembly: &mut Assembly,
    ) -> Result<()> {
        if !column.family {
            return match self.point(docid, row, column, "")? {
                Some((cell, _)) => assembly.field(&column.name, &cell),
                None => Ok(()),
            };
        }
        let from = cell_key::encode(docid, column.number, &[]);
        let to = cell_key::column_end(docid, column.number);
        for group in self.groups_in_row(docid, row, column) {
            self.assemble(self.cells_of(row, group)?, &from, &to, assembly)?;
        }
        Ok(())
    }

    /// Adds the cells of a row, of some columns or of all. The row may have the members of a column
    /// that moves in two groups.
    pub(crate) fn assemble_split(
        &self,
        docid: DocId,
        row: &Row,
        columns: Option<&[u32]>,
        assembly: &mut Assembly,
    ) -> Result<()> {
        let rest = self.schema.numbered(0);
        for column in rest.into_iter().chain(self.schema.columns()) {
            if columns.is_none_or(|columns| columns.contains(&column.number)) {
                self.assemble_column(docid, row, column, assembly)?;
            }
        }
        Ok(())
    }

    fn assemble_all(&self, docid: DocId, row: &Row, assembly: &mut Assembly) -> Result<()> {
        if self.moves().is_split(docid) {
            return self.assemble_split(docid, row, None, assembly);
        }
        for group in groups_of(row.groups) {
            let cells = self.cells_of(row, group)?;
            let (from, to) = (cell_key::row(docid), cell_key::row_end(docid));
            self.assemble(cells, &from, &to, assembly)?;
        }
        Ok(())
    }

    /// Adds the cells of a tree between two keys, but those of dropped columns.
    pub(crate) fn assemble(
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

    /// Adds a cell, unless it has expired or its column was dropped.
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
        match self.decode(value)? {
            Some(cell) => assembly.cell(&self.schema, number, self.text(member)?, &cell),
            None => Ok(()),
        }
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
    pub(crate) fn note_read(&self, docid: DocId, row: &Row, groups: u16) {
        for group in groups_of(groups & row.tiers.cold) {
            let of_group = self.schema.groups().get(usize::from(group));
            let tiers = of_group.and_then(|group| group.tiers.as_ref());
            if let Some(reads) = tiers.and_then(|tiers| tiers.reads) {
                self.tiers.note_read(docid, group, reads);
            }
        }
    }

    /// Some trees, for lookups.
    pub(crate) fn point_view(&self, trees: &[TreeId]) -> Result<PointView<'_>> {
        Ok(self.store.point_view(trees)?)
    }

    pub(crate) fn tree(&self, tree: TreeId) -> Result<&TreeSnapshot> {
        Ok(self.store.tree(tree)?)
    }

    pub(crate) fn split<'k>(&self, key: &'k [u8]) -> Result<(DocId, u32, &'k [u8])> {
        let split = cell_key::decode(key);
        split.ok_or_else(|| self.corrupt("the key of a cell is cut short".into()))
    }

    /// The cell, unless it had expired when the view was made.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<Option<Cell>> {
        stored::cell_at(bytes, self.time_micros()).map_err(|what| self.corrupt(what))
    }

    /// When it was made, by the clock of the machine: microseconds since 1970 UTC.
    pub(crate) fn time_micros(&self) -> i64 {
        self.store.base().time_micros()
    }

    /// Whether a cell of the partition has ever had a time of expiry.
    pub(crate) fn has_expiring(&self) -> bool {
        self.store.summary().has_expiring
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
    /// The next one last.
    scans: Vec<quire_lsm::Scan>,
    partition: u32,
    now_micros: i64,
}

impl Members {
    fn read(&mut self) -> Result<Option<(String, Cell)>> {
        let (partition, now) = (self.partition, self.now_micros);
        let corrupt = |what: String| Error::Corrupt { partition, what };
        while let Some(scan) = self.scans.last_mut() {
            let Some(item) = scan.next() else {
                self.scans.pop();
                continue;
            };
            let (key, value) = item?;
            let Some(cell) = stored::cell_at(&value, now).map_err(corrupt)? else {
                continue;
            };
            let member = cell_key::decode(&key).map(|(_, _, member)| member.to_vec());
            let member = member.and_then(|member| String::from_utf8(member).ok());
            let member = member.ok_or_else(|| corrupt("the name of a member is no text".into()))?;
            return Ok(Some((member, cell)));
        }
        Ok(None)
    }
}

impl Iterator for Members {
    type Item = Result<(String, Cell)>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            self.scans.clear();
        }
        read.transpose()
    }
}
