//! Rows in docid order, which is that of their first writes: all columns of them, or some.

use crate::document::Assembly;
use crate::group_scan::GroupScan;
use crate::machine::{NAMES, ROWS};
use crate::row::Row;
use crate::schema::Column;
use crate::{ErrorKind, Result, WideFound, WideView};
use quire_lsm::{Scan, SmallBytes};
use quire_model::{DocId, Key};
use std::ops::Bound;

/// Rows of a view. Each tree is read from its beginning to its end, and of the groups those alone
/// that have a column which is read. It ends after an error, but for a row that is larger than a
/// document may be.
#[derive(Debug)]
pub struct RowScan {
    view: WideView,
    key_field: String,
    /// The numbers of the columns that are read; all if `None`.
    columns: Option<Vec<u32>>,
    names: Scan,
    rows: Scan,
    groups: Vec<NextCell>,
    failed: bool,
}

/// A group on its way.
#[derive(Debug)]
struct NextCell {
    scan: GroupScan,
    next: Option<(SmallBytes, SmallBytes)>,
}

impl NextCell {
    fn advance(&mut self) -> Result<()> {
        self.next = self.scan.next().transpose()?;
        Ok(())
    }
}

impl WideView {
    /// All rows: the fields that are named, or all. A field that is no column is read if the schema
    /// keeps undeclared ones; no row has others.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    pub fn rows(&self, key_field: &str, fields: Option<&[&str]>) -> Result<RowScan> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let columns = fields.map(|fields| self.columns_of(fields));
        let mut groups: Vec<u8> = match &columns {
            None => {
                let count = self.schema().groups().len() as u8;
                (0..count.max(self.moves().group_count())).collect()
            }
            Some(columns) => {
                let groups = columns
                    .iter()
                    .map(|column| self.moves().groups_in_all(column));
                groups.flatten().flatten().collect()
            }
        };
        groups.sort_unstable();
        groups.dedup();
        let begin = |group| {
            let scan = GroupScan::new(self, group)?;
            let mut group = NextCell { scan, next: None };
            group.advance()?;
            Ok(group)
        };
        Ok(RowScan {
            key_field: key_field.to_string(),
            columns: columns.map(|columns| columns.iter().map(|column| column.number).collect()),
            names: self.tree(NAMES)?.scan(all.0, all.1)?,
            rows: self.tree(ROWS)?.scan(all.0, all.1)?,
            groups: groups.into_iter().map(begin).collect::<Result<_>>()?,
            view: self.clone(),
            failed: false,
        })
    }

    /// The columns that fields of documents are in.
    fn columns_of(&self, fields: &[&str]) -> Vec<&Column> {
        let column_of = |name: &&str| {
            // Column 0 is where undeclared fields are.
            let rest = || self.schema().numbered(0);
            self.schema().column(name).or_else(rest)
        };
        fields.iter().filter_map(column_of).collect()
    }
}

impl RowScan {
    fn read(&mut self) -> Result<Option<(DocId, WideFound)>> {
        let Some(named) = self.names.next() else {
            return Ok(None);
        };
        let (number, name) = named?;
        let row = self.rows.next().transpose()?;
        let row = row.filter(|(of, _)| *of == number);
        let row = row.and_then(|(_, row)| Row::decode(&row));
        let docid = <[u8; 4]>::try_from(&*number).map(u32::from_be_bytes);
        let (Ok(docid), Some(row)) = (docid, row) else {
            let what = "a name and no row, or a row and no name".to_string();
            return Err(self.view.corrupt(what));
        };
        let key = Key::decode(&name)?;
        let mut assembly = Assembly::new(&self.key_field, &key);
        // A column of the row may be in two groups: its members would not come together.
        let is_split = self.view.moves().is_split(DocId(docid));
        if is_split {
            let columns = self.columns.as_deref();
            self.view
                .assemble_split(DocId(docid), &row, columns, &mut assembly)?;
        }
        for group in &mut self.groups {
            while let Some((cell_key, value)) = &group.next {
                let (of, column, member) = self.view.split(cell_key)?;
                if of.0 > docid {
                    break;
                }
                let is_read = |columns: &Vec<u32>| columns.contains(&column);
                if of.0 == docid && !is_split && self.columns.as_ref().is_none_or(is_read) {
                    self.view
                        .assemble_cell(column, member, value, &mut assembly)?;
                }
                group.advance()?;
            }
        }
        let found = WideFound {
            key,
            version: row.version,
            partition: self.view.partition(),
            time_micros: row.time_micros,
            document: assembly.finish()?,
        };
        Ok(Some((DocId(docid), found)))
    }
}

impl Iterator for RowScan {
    type Item = Result<(DocId, WideFound)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let read = self.read();
        // A row that is too large does not keep those after it from being read.
        self.failed = read
            .as_ref()
            .is_err_and(|error| error.kind() != ErrorKind::TooLarge);
        read.transpose()
    }
}
