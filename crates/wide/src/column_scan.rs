//! Columns of all rows, group by group in docid order, in batches.

use crate::group_scan::GroupScan;
use crate::machine::NAMES;
use crate::schema::Column;
use crate::{Cell, Error, Result, WideView};
use quire_lsm::Scan;
use quire_model::{DocId, Key};
use std::ops::Bound;

/// A batch ends with the row that makes it this long.
const BATCH_ROWS: usize = 1024;
const BATCH_BYTES: usize = 4 << 20;

/// Rows of some columns: as many keys as each column has cells.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ColumnBatch {
    /// The keys of the rows.
    pub keys: Vec<Key>,
    /// For each column, in the order in which they were named, the cell of each row, if there is.
    pub columns: Vec<Vec<Option<Cell>>>,
}

/// One group on its way.
#[derive(Debug)]
struct NextCell {
    scan: GroupScan,
    /// The next cell of a column that is read.
    next: Option<(DocId, u32, Cell)>,
}

/// Batches of columns of all rows that have a cell in one of them. It ends after an error.
#[derive(Debug)]
pub struct ColumnScan {
    view: WideView,
    columns: Vec<Column>,
    groups: Vec<NextCell>,
    names: Scan,
    failed: bool,
}

impl WideView {
    /// Columns of all rows that have a cell in one of them, in batches. Each group of theirs is
    /// read from its beginning to its end.
    ///
    /// # Errors
    /// `Invalid` for a column that is not there or is a family.
    pub fn scan_columns(&self, columns: &[&str]) -> Result<ColumnScan> {
        let columns = columns
            .iter()
            .map(|name| self.schema().declared(name).cloned());
        ColumnScan::new(self.clone(), columns.collect::<Result<_>>()?)
    }
}

impl ColumnScan {
    fn new(view: WideView, columns: Vec<Column>) -> Result<ColumnScan> {
        if let Some(family) = columns.iter().find(|column| column.family) {
            return Err(Error::Invalid(format!(
                "column {:?} is a family: a scan is of plain columns; read its members by range",
                family.name
            )));
        }
        let all = (Bound::Unbounded, Bound::Unbounded);
        let names = view.tree(NAMES)?.scan(all.0, all.1)?;
        let groups = columns
            .iter()
            .map(|column| view.moves().groups_in_all(column));
        let mut numbers: Vec<u8> = groups.flatten().flatten().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut scan = ColumnScan {
            groups: Vec::with_capacity(numbers.len()),
            view,
            columns,
            names,
            failed: false,
        };
        for group in numbers {
            let mut one = NextCell {
                scan: GroupScan::new(&scan.view, group)?,
                next: None,
            };
            scan.advance(&mut one)?;
            scan.groups.push(one);
        }
        Ok(scan)
    }

    /// Reads on to the next cell of a column that is read.
    fn advance(&self, group: &mut NextCell) -> Result<()> {
        group.next = None;
        for item in group.scan.by_ref() {
            let (key, value) = item?;
            let (docid, number, _) = self.view.split(&key)?;
            if self.columns.iter().all(|column| column.number != number) {
                continue;
            }
            if let Some(cell) = self.view.decode(&value)? {
                group.next = Some((docid, number, cell));
                break;
            }
        }
        Ok(())
    }

    fn batch(&mut self) -> Result<ColumnBatch> {
        let mut batch = ColumnBatch {
            keys: Vec::new(),
            columns: vec![Vec::new(); self.columns.len()],
        };
        let mut bytes = 0;
        while batch.keys.len() < BATCH_ROWS && bytes < BATCH_BYTES {
            let docids = self.groups.iter().filter_map(|group| group.next.as_ref());
            let Some(docid) = docids.map(|(docid, ..)| *docid).min() else {
                break;
            };
            batch.keys.push(self.name(docid)?);
            bytes += self.row(docid, &mut batch)?;
        }
        Ok(batch)
    }

    /// Adds the cells of a row; gives their bytes.
    fn row(&mut self, docid: DocId, batch: &mut ColumnBatch) -> Result<usize> {
        let mut bytes = 0;
        batch.columns.iter_mut().for_each(|cells| cells.push(None));
        let mut groups = std::mem::take(&mut self.groups);
        for group in &mut groups {
            while let Some((_, number, cell)) = group.next.take_if(|(of, ..)| *of == docid) {
                bytes += cell.bytes();
                let columns = self.columns.iter().zip(&mut batch.columns);
                for (_, cells) in columns.filter(|(column, _)| column.number == number) {
                    if let Some(last) = cells.last_mut() {
                        *last = Some(cell.clone());
                    }
                }
                self.advance(group)?;
            }
        }
        self.groups = groups;
        Ok(bytes)
    }

    /// The key of a row: names lie in the order in which rows are read.
    fn name(&mut self, docid: DocId) -> Result<Key> {
        for item in self.names.by_ref() {
            let (number, name) = item?;
            if *number == docid.0.to_be_bytes() {
                return Ok(Key::decode(&name)?);
            }
        }
        let what = format!("document number {docid} has cells and no name");
        Err(self.view.corrupt(what))
    }
}

impl Iterator for ColumnScan {
    type Item = Result<ColumnBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let batch = self.batch();
        self.failed = batch.is_err();
        match batch {
            Ok(batch) if batch.keys.is_empty() => None,
            batch => Some(batch),
        }
    }
}
