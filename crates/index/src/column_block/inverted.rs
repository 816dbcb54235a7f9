//! [`InvertedBlock`]: what documents of one block that had no values in a field have now, as a
//! layer of a column and as the postings of its values.
//!
//! # Invariants
//! 1. A term is looked up once for both: a cell is the number of its term.
//! 2. Postings come out in the order of their terms, each with lows that ascend, each once.

use super::encoded::{Cell, Encoded, numbers_of, ordinal_of};
use super::format::{TERM_BYTES_MAX, VALUES_MAX};
use super::layer::push_layer;
use super::terms::Terms;
use super::writer::{ColumnBlockWriter, PACKED_ROWS_MIN, Row, places_of, sort_rows};
use crate::term;
use quire_model::ValueRef;

/// Takes documents in.
#[derive(Debug, Default)]
pub struct InvertedBlock {
    /// Documents.
    lows: Vec<u16>,
    /// Of each document, where its cells end; empty as long as each has one.
    ends: Vec<u32>,
    /// The number of the term of each cell.
    cells: Vec<u32>,
    terms: Terms,
}

impl InvertedBlock {
    /// One without documents.
    #[must_use]
    pub fn new() -> InvertedBlock {
        InvertedBlock::default()
    }

    /// Whether it has no document.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lows.is_empty()
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.cells.len() + self.ends.len()) * size_of::<u32>()
            + self.lows.len() * size_of::<u16>()
            + self.terms.memory_bytes()
    }

    /// Adds a document, which has these terms: one or more, at most [`VALUES_MAX`], ascending, each
    /// once, of at most [`TERM_BYTES_MAX`] bytes. Documents come in any order, each
    /// once.
    pub fn add<'t>(&mut self, low: u16, terms: impl Iterator<Item = &'t [u8]>) {
        let start = self.cells.len();
        for term in terms {
            debug_assert!(
                term.len() <= TERM_BYTES_MAX,
                "long terms are not in columns"
            );
            self.cells.push(self.terms.number(term));
        }
        let count = self.cells.len() - start;
        debug_assert!(count <= VALUES_MAX, "a row has few values");
        if count != 1 && self.ends.is_empty() {
            self.ends.extend(1..=self.lows.len() as u32);
        }
        self.lows.push(low);
        if count != 1 || !self.ends.is_empty() {
            self.ends.push(self.cells.len() as u32);
        }
    }

    /// As [`add`](Self::add), of a document that has one value. False, and nothing added, for one
    /// that has no term, or a term that is long or takes more than copying.
    pub fn add_one(&mut self, low: u16, value: ValueRef<'_>) -> bool {
        let Some(number) = self.terms.number_of_value(value) else {
            return false;
        };
        self.cells.push(number);
        self.lows.push(low);
        if !self.ends.is_empty() {
            self.ends.push(self.cells.len() as u32);
        }
        true
    }

    /// All documents are there.
    #[must_use]
    pub fn finish(self) -> Inverted {
        let mut rows = self.rows();
        sort_rows(&mut rows);
        let mut sorted: Vec<u32> = (0..self.terms.len() as u32).collect();
        self.terms.sort(&mut sorted);
        Inverted {
            rows,
            cells: self.cells,
            terms: self.terms,
            sorted,
        }
    }

    fn rows(&self) -> Vec<Row> {
        let mut start = 0;
        let row = |(at, low): (usize, &u16)| {
            let end = self.ends.get(at).map_or(at as u32 + 1, |end| *end);
            Row {
                low: *low,
                is_marked: false,
                end,
                start: std::mem::replace(&mut start, end),
            }
        };
        self.lows.iter().enumerate().map(row).collect()
    }
}

/// An [`InvertedBlock`] that has all documents.
#[derive(Debug)]
pub struct Inverted {
    /// Ascending.
    rows: Vec<Row>,
    cells: Vec<u32>,
    terms: Terms,
    /// The numbers of all terms, in the order of the terms.
    sorted: Vec<u32>,
}

impl Inverted {
    fn cells_of(&self, row: &Row) -> &[u32] {
        let range = row.start as usize..row.end as usize;
        self.cells.get(range).unwrap_or_default()
    }

    fn lows(&self, is_in: impl Fn(&[u32]) -> bool) -> Vec<u16> {
        let rows = self.rows.iter();
        let rows = rows.filter(|row| is_in(self.cells_of(row)));
        rows.map(|row| row.low).collect()
    }

    /// The documents that have a value which is not null, ascending.
    #[must_use]
    pub fn present(&self) -> Vec<u16> {
        // Each row has a cell, and null comes first.
        match self.terms.find(term::NULL) {
            None => self.rows.iter().map(|row| row.low).collect(),
            null => self.lows(|cells| cells.last().is_some_and(|last| Some(*last) != null)),
        }
    }

    /// The documents that have several values, null counted as one; ascending.
    #[must_use]
    pub fn several(&self) -> Vec<u16> {
        // Each row has a cell.
        match self.cells.len() > self.rows.len() {
            true => self.lows(|cells| cells.len() > 1),
            false => Vec::new(),
        }
    }

    /// Shows each term, ascending, and the documents that have it, ascending.
    pub fn each_posting(&self, mut see: impl FnMut(&[u8], &[u16])) {
        let mut ends = vec![0u32; self.terms.len()];
        for number in &self.cells {
            ends[*number as usize] += 1;
        }
        let mut begin = 0;
        for number in &self.sorted {
            let end = &mut ends[*number as usize];
            (begin, *end) = (begin + *end, begin);
        }
        // What was where a posting begins becomes where it ends.
        let mut lows = vec![0u16; self.cells.len()];
        for row in &self.rows {
            for number in self.cells_of(row) {
                let end = &mut ends[*number as usize];
                lows[*end as usize] = row.low;
                *end += 1;
            }
        }
        let mut begin = 0;
        for number in &self.sorted {
            let end = ends[*number as usize] as usize;
            see(
                self.terms.get(*number),
                lows.get(begin..end).unwrap_or_default(),
            );
            begin = end;
        }
    }

    /// Appends the operand of a column that gives the documents these values, and leaves others as
    /// they are.
    pub fn encode_operand(self, out: &mut Vec<u8>) {
        let mut layer = Vec::new();
        self.encode(&mut layer);
        if !layer.is_empty() {
            push_layer(&layer, out);
        }
    }

    fn encode(self, out: &mut Vec<u8>) {
        if self.rows.is_empty() {
            return;
        }
        let Inverted {
            rows,
            cells,
            terms,
            sorted,
        } = self;
        let mut writer = ColumnBlockWriter::new();
        writer.rows = rows;
        if writer.rows.len() < PACKED_ROWS_MIN {
            writer.cells = cells.into_iter().map(Cell::Term).collect();
            writer.terms = terms;
            return writer.encode_plain(out);
        }
        let (values, of_numbers) = values_of(&terms, &sorted, cells.len());
        let ordinals = cells.iter().map(|number| of_numbers[*number as usize]);
        let ordinals: Vec<u64> = ordinals.collect();
        writer.encode_ordinals(false, &values, &ordinals, out);
    }
}

/// What ordinals stand for, and the ordinals by number. Each value is looked at once, however many
/// cells have it.
fn values_of(terms: &Terms, sorted: &[u32], cells: usize) -> (Encoded, Vec<u64>) {
    let all = 0..terms.len() as u32;
    let numbers: Option<Vec<Cell>> = all.map(|number| Cell::of_term(terms.get(number))).collect();
    if let Some(values) = numbers
        && let Some(numbers) = numbers_of(|| values.iter(), cells)
    {
        let ordinals = values.iter().map(|value| ordinal_of(&numbers, *value));
        let ordinals = ordinals.collect();
        return (Encoded::Numbers(numbers), ordinals);
    }
    (terms.dictionary_of(sorted), places_of(sorted, terms.len()))
}
