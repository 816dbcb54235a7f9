//! Many rows at a time: group after group, and in each group in the order of rows, which is that of
//! the disk.

use crate::document::Assembly;
use crate::machine::{KEYS, ROWS};
use crate::row::Row;
use crate::schema::Column;
use crate::{Error, Result, WideFound, WideView, cell_key};
use quire_model::{DocId, Key};

/// One of many rows that were requested.
#[derive(Debug, Clone, PartialEq)]
pub enum WideWithin {
    /// There is none.
    Absent,
    /// It.
    Found(Box<WideFound>),
    /// It would have made all of them longer than they may be. This number of bytes of it was read.
    Longer(u64),
}

/// A row on its way.
struct OnItsWay {
    /// The place of its key among those that were requested.
    at: usize,
    docid: DocId,
    row: Row,
    state: State,
}

enum State {
    Growing(Assembly),
    Longer(u64),
    Failed(Error),
}

impl WideView {
    /// The rows under many keys, in the order of the keys: the columns that are named, or all. They
    /// are read in the order of the disk, and are no longer than `bytes_max` together: one by which
    /// they would be is left out, and so are those after it that don't fit.
    ///
    /// # Errors
    /// As of [`get`](WideView::get) for all of them, or for one alone.
    pub fn get_many(
        &self,
        keys: &[&Key],
        key_field: &str,
        columns: Option<&[&str]>,
        bytes_max: usize,
    ) -> Result<Vec<Result<WideWithin>>> {
        let named = self.named(columns)?;
        let mut rows = self.find_rows(keys, key_field)?;
        for row in &rows {
            let groups = match &named {
                None => row.row.groups,
                Some(columns) => {
                    let of = |column: &&Column| self.moves().group_of(column, row.docid, &[]);
                    columns
                        .iter()
                        .fold(0, |mask, column| mask | 1u16 << of(column))
                }
            };
            self.note_read(row.docid, &row.row, groups);
        }
        let count = (self.schema().groups().len() as u8).max(self.moves().group_count());
        let mut bytes: usize = rows.iter().map(OnItsWay::bytes).sum();
        for group in 0..count {
            for row in &mut rows {
                if self.moves().is_split(row.docid) {
                    continue;
                }
                let columns = named.as_deref();
                row.grow(&mut bytes, bytes_max, |row, assembly| {
                    self.assemble_group(row, group, columns, assembly)
                });
            }
        }
        let numbers = named.as_deref().map(|columns| {
            let numbers = columns.iter().map(|column| column.number);
            numbers.collect::<Vec<u32>>()
        });
        let split = rows.iter_mut();
        for row in split.filter(|row| self.moves().is_split(row.docid)) {
            row.grow(&mut bytes, bytes_max, |row, assembly| {
                self.assemble_split(row.0, row.1, numbers.as_deref(), assembly)
            });
        }
        let mut found: Vec<_> = keys.iter().map(|_| Ok(WideWithin::Absent)).collect();
        for row in rows {
            if let (Some(place), Some(key)) = (found.get_mut(row.at), keys.get(row.at)) {
                *place = self.finish(key, row);
            }
        }
        Ok(found)
    }

    /// The rows that there are, in their order.
    fn find_rows(&self, keys: &[&Key], key_field: &str) -> Result<Vec<OnItsWay>> {
        let encoded: Vec<&[u8]> = keys.iter().map(|key| key.encoded()).collect();
        let trees = self.point_view(&[KEYS, ROWS])?;
        let docids = trees.get_many(KEYS, &encoded)?;
        let mut rows = Vec::new();
        for (at, (docid, key)) in docids.iter().zip(keys).enumerate() {
            let Some(docid) = docid else {
                continue;
            };
            let number = <[u8; 4]>::try_from(&**docid).map(u32::from_be_bytes);
            let row = trees.get(ROWS, docid)?.as_deref().and_then(Row::decode);
            let (Ok(number), Some(row)) = (number, row) else {
                return Err(self.corrupt(format!("document {key} has no row")));
            };
            rows.push(OnItsWay {
                at,
                docid: DocId(number),
                row,
                state: State::Growing(Assembly::new(key_field, key)),
            });
        }
        rows.sort_by_key(|row| row.docid);
        Ok(rows)
    }

    /// Adds the cells that a row has in a group, of some columns or of all.
    fn assemble_group(
        &self,
        (docid, row): (DocId, &Row),
        group: u8,
        columns: Option<&[&Column]>,
        assembly: &mut Assembly,
    ) -> Result<()> {
        if row.groups & (1 << group) == 0 {
            return Ok(());
        }
        let Some(columns) = columns else {
            let (from, to) = (cell_key::row(docid), cell_key::row_end(docid));
            return self.assemble(self.cells_of(row, group)?, &from, &to, assembly);
        };
        let is_here = |column: &&&Column| self.moves().group_of(column, docid, &[]) == group;
        for column in columns.iter().filter(is_here) {
            self.assemble_column(docid, row, column, assembly)?;
        }
        Ok(())
    }

    fn finish(&self, key: &Key, row: OnItsWay) -> Result<WideWithin> {
        let assembly = match row.state {
            State::Growing(assembly) => assembly,
            State::Longer(bytes) => return Ok(WideWithin::Longer(bytes)),
            State::Failed(error) => return Err(error),
        };
        Ok(WideWithin::Found(Box::new(WideFound {
            key: key.clone(),
            version: row.row.version,
            partition: self.partition(),
            time_micros: row.row.time_micros,
            document: assembly.finish()?,
        })))
    }
}

impl OnItsWay {
    fn bytes(&self) -> usize {
        match &self.state {
            State::Growing(assembly) => assembly.bytes(),
            State::Longer(_) | State::Failed(_) => 0,
        }
    }

    /// Adds cells, unless it is left out; leaves it out if all rows have too many bytes by them.
    fn grow(
        &mut self,
        bytes: &mut usize,
        bytes_max: usize,
        add: impl FnOnce((DocId, &Row), &mut Assembly) -> Result<()>,
    ) {
        let before = self.bytes();
        let State::Growing(assembly) = &mut self.state else {
            return;
        };
        if let Err(error) = add((self.docid, &self.row), assembly) {
            self.state = State::Failed(error);
        }
        let after = self.bytes();
        *bytes = *bytes - before + after;
        if *bytes > bytes_max && after > 0 {
            *bytes -= after;
            self.state = State::Longer(after as u64);
        }
    }
}
