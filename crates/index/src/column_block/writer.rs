//! [`ColumnBlockWriter`]: documents and their terms become a layer, in the encoding that suits.

use super::encoded::{Cell, Encoded, numbers_of, ordinal_of};
use super::format::{HAS_NULL, HEADER_BYTES, LISTED, MANY, PACKED, TERM_BYTES_MAX, VALUES_MAX};
use super::numbers::Numbers;
use super::plain::{PLAIN, push_row};
use super::terms::Terms;
use crate::column::ColumnWriter;
use crate::packed::width_of;
use crate::term;
use quire_model::ordered::OrderedValue;

/// Layers of fewer documents than this are plain.
pub(super) const PACKED_ROWS_MIN: usize = 64;

/// Bytes of different terms that a layer holds; documents past it are marked.
pub(super) const TERMS_BYTES_MAX: usize = 16 << 20;

/// A document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) low: u16,
    pub(super) is_marked: bool,
    /// Where its cells end.
    pub(super) end: u32,
    /// Where they begin: documents come in any order.
    pub(super) start: u32,
}

/// Writes a layer.
#[derive(Debug, Default)]
pub struct ColumnBlockWriter {
    pub(super) rows: Vec<Row>,
    pub(super) cells: Vec<Cell>,
    pub(super) terms: Terms,
    /// The document that is ended next is marked.
    is_marking: bool,
}

impl ColumnBlockWriter {
    /// An empty layer.
    #[must_use]
    pub fn new() -> ColumnBlockWriter {
        ColumnBlockWriter::default()
    }

    /// How many documents.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of_terms = self.terms.memory_bytes();
        self.cells.len() * size_of::<Cell>() + self.rows.len() * size_of::<Row>() + of_terms
    }

    /// Adds a term of the document that is ended next. One of more than [`TERM_BYTES_MAX`] bytes
    /// marks the document.
    pub fn push(&mut self, term: &[u8]) {
        self.push_term(term);
    }

    /// As [`push`](Self::push); the cell, to push it again.
    pub(super) fn push_term(&mut self, bytes: &[u8]) -> Cell {
        if bytes.len() > TERM_BYTES_MAX || self.terms.term_bytes() > TERMS_BYTES_MAX {
            self.is_marking = true;
            return Cell::Null;
        }
        let number = |terms: &mut Terms| Cell::Term(terms.number(bytes));
        let cell = Cell::of_term(bytes).unwrap_or_else(|| number(&mut self.terms));
        self.push_cell(cell);
        cell
    }

    pub(super) fn push_cell(&mut self, cell: Cell) {
        self.cells.push(cell);
    }

    /// Ends a document: its terms are those that were pushed since the one before. Documents come
    /// in any order, each once. The values of a marked one must be read elsewhere.
    pub fn end_document(&mut self, low: u16, is_marked: bool) {
        let start = self.rows.last().map_or(0, |row| row.end);
        let is_marked = is_marked
            || std::mem::take(&mut self.is_marking)
            || self.cells.len() - start as usize > VALUES_MAX;
        if is_marked {
            self.cells.truncate(start as usize);
        }
        self.rows.push(Row {
            low,
            is_marked,
            start,
            end: self.cells.len() as u32,
        });
    }

    /// Appends the layer to `out`. With `is_bottom` nothing is below it, so documents without
    /// values are left out; nothing is appended if none is left.
    pub fn encode(mut self, is_bottom: bool, out: &mut Vec<u8>) {
        if is_bottom {
            self.rows.retain(|row| row.is_marked || row.end > row.start);
        }
        sort_rows(&mut self.rows);
        match self.rows.len() {
            0 => {}
            1..PACKED_ROWS_MIN => self.encode_plain(out),
            _ => self.encode_packed(is_bottom, out),
        }
    }

    fn cells_of(&self, row: &Row) -> &[Cell] {
        let range = row.start as usize..row.end as usize;
        self.cells.get(range).unwrap_or_default()
    }

    fn append_term(&self, cell: Cell, out: &mut Vec<u8>) {
        let value = match cell {
            Cell::Null => OrderedValue::Null,
            Cell::Int(value) => OrderedValue::Int(value),
            Cell::Float(value) => OrderedValue::Float(value),
            Cell::Term(number) => return out.extend_from_slice(self.terms.get(number)),
        };
        term::encode_ordered(value, out);
    }

    pub(super) fn encode_plain(&self, out: &mut Vec<u8>) {
        out.push(PLAIN);
        for row in &self.rows {
            let terms = self.cells_of(row).iter().map(|cell| {
                let mut term = Vec::new();
                self.append_term(*cell, &mut term);
                term
            });
            let mut terms: Vec<Vec<u8>> = terms.collect();
            terms.sort_unstable();
            terms.dedup();
            push_row(row.low, row.is_marked, terms.iter().map(Vec::as_slice), out);
        }
    }

    fn encode_packed(mut self, is_bottom: bool, out: &mut Vec<u8>) {
        let used = || self.rows.iter().flat_map(|row| self.cells_of(row));
        let (values, ordinals) = match numbers_of(used, self.cells.len()) {
            Some(numbers) => (Encoded::Numbers(numbers), self.ordinals_of(&numbers)),
            None => self.dictionary(),
        };
        self.encode_ordinals(is_bottom, &values, &ordinals, out);
    }

    /// Appends the layer. What `ordinals` has at the place of each cell is the value's ordinal.
    pub(super) fn encode_ordinals(
        &self,
        is_bottom: bool,
        values: &Encoded,
        ordinals: &[u64],
        out: &mut Vec<u8>,
    ) {
        let mut codes = Vec::with_capacity(ordinals.len());
        if self.is_one_each() {
            let of_row = |row: &Row| ordinals.get(row.start as usize).copied();
            codes.extend(
                self.rows
                    .iter()
                    .filter_map(of_row)
                    .map(|ordinal| ordinal + 1),
            );
            return self.write(is_bottom, values, &codes, &[], false, out);
        }
        let mut ends = Vec::with_capacity(self.rows.len());
        let (mut own, mut many) = (Vec::new(), false);
        for row in &self.rows {
            let range = row.start as usize..row.end as usize;
            match ordinals.get(range).unwrap_or_default() {
                [] => {}
                [one] => codes.push(one + 1),
                several => {
                    own.clear();
                    own.extend(several.iter().map(|ordinal| ordinal + 1));
                    own.sort_unstable();
                    own.dedup();
                    many |= own.len() > 1;
                    codes.extend_from_slice(&own);
                }
            }
            ends.push(codes.len());
        }
        self.write(is_bottom, values, &codes, &ends, many, out);
    }

    /// Whether each document has one value.
    fn is_one_each(&self) -> bool {
        self.rows.iter().all(|row| row.end == row.start + 1)
    }

    /// The ordinals of all cells that documents have.
    fn ordinals_of(&self, numbers: &Numbers) -> Vec<u64> {
        let ordinal = |cell: &Cell| ordinal_of(numbers, *cell);
        self.cells.iter().map(ordinal).collect()
    }

    /// A dictionary of all values, and the ordinals of all cells.
    fn dictionary(&mut self) -> (Encoded, Vec<u64>) {
        let (mut numbers, mut term) = (Vec::with_capacity(self.cells.len()), Vec::new());
        for at in 0..self.cells.len() {
            let cell = self.cells[at];
            numbers.push(match cell {
                Cell::Term(number) => number,
                other => {
                    term.clear();
                    self.append_term(other, &mut term);
                    self.terms.number(&term)
                }
            });
        }
        let mut is_used = vec![false; self.terms.len()];
        for row in &self.rows {
            let own = numbers.get(row.start as usize..row.end as usize);
            for number in own.unwrap_or_default() {
                is_used[*number as usize] = true;
            }
        }
        let mut sorted: Vec<u32> = (0..is_used.len() as u32).collect();
        sorted.retain(|number| is_used[*number as usize]);
        self.terms.sort(&mut sorted);
        let places = places_of(&sorted, is_used.len());
        let ordinals = numbers.iter().map(|number| places[*number as usize]);
        (self.terms.dictionary_of(&sorted), ordinals.collect())
    }

    /// Appends the layer. `ends` says where the codes of each document end; it is empty if each
    /// has one.
    fn write(
        &self,
        is_bottom: bool,
        values: &Encoded,
        codes: &[u64],
        ends: &[usize],
        many: bool,
        out: &mut Vec<u8>,
    ) {
        let (first, last) = match (self.rows.first(), self.rows.last()) {
            (Some(first), Some(last)) => (usize::from(first.low), usize::from(last.low)),
            _ => return,
        };
        let length = last - first + 1;
        if ends.is_empty() && length == self.rows.len() {
            return push_range(first as u16, values, codes, out);
        }
        let width = width_of(values.bounds().0) as usize;
        let is_range = length == self.rows.len()
            || is_bottom && length * width <= self.rows.len() * (width + 16);
        let (mut lists, mut marked) = (Vec::new(), Vec::new());
        let (mut starts, mut start_bytes) = (ColumnWriter::new(), Vec::new());
        let (mut column, mut code_bytes) = (ColumnWriter::new(), Vec::new());
        let (mut next, mut begin) = (first, 0);
        for (at, row) in self.rows.iter().enumerate() {
            let end = ends.get(at).map_or(at + 1, |end| *end);
            let low = usize::from(row.low);
            while is_range && next < low {
                // A document that there is nothing of.
                match many {
                    true => starts.push(begin as u64, &mut start_bytes),
                    false => column.push(0, &mut code_bytes),
                }
                next += 1;
            }
            next = low + 1;
            if !is_range {
                lists.extend_from_slice(&row.low.to_le_bytes());
            }
            if row.is_marked {
                marked.extend_from_slice(&row.low.to_le_bytes());
            }
            let own = codes.get(begin..end).unwrap_or_default();
            if many {
                starts.push(begin as u64, &mut start_bytes);
            }
            if own.is_empty() && !many {
                column.push(0, &mut code_bytes);
            }
            own.iter()
                .for_each(|code| column.push(*code, &mut code_bytes));
            begin = end;
        }
        if many {
            starts.push(begin as u64, &mut start_bytes);
            starts.finish(&mut start_bytes);
        }
        column.finish(&mut code_bytes);
        let marked_count = (marked.len() / 2) as u32;
        lists.extend_from_slice(&marked);
        let documents = Documents {
            first: is_range.then_some(first as u16),
            count: if is_range { length } else { self.rows.len() } as u32,
            marked_count,
            lists: &lists,
            starts: many.then_some(&start_bytes),
        };
        push_packed(&documents, values, &code_bytes, out);
    }
}

/// Which documents a packed layer contains.
struct Documents<'d> {
    /// The first of neighbours; `None` if the documents are listed.
    first: Option<u16>,
    count: u32,
    marked_count: u32,
    /// Those that are listed, then those that are marked.
    lists: &'d [u8],
    /// Where the codes of each begin, if one may have several.
    starts: Option<&'d Vec<u8>>,
}

/// Appends the layer of neighbours, each with one code: 0 for one without a value.
pub(super) fn push_range(first: u16, values: &Encoded, codes: &[u64], out: &mut Vec<u8>) {
    let (mut column, mut code_bytes) = (ColumnWriter::new(), Vec::new());
    column.extend(codes, &mut code_bytes);
    column.finish(&mut code_bytes);
    let documents = Documents {
        first: Some(first),
        count: codes.len() as u32,
        marked_count: 0,
        lists: &[],
        starts: None,
    };
    push_packed(&documents, values, &code_bytes, out);
}

fn push_packed(documents: &Documents<'_>, values: &Encoded, codes: &[u8], out: &mut Vec<u8>) {
    let (end, least, greatest) = values.bounds();
    let has_null = matches!(values, Encoded::Numbers(numbers) if numbers.has_null);
    let flags = u8::from(documents.first.is_none()) * LISTED
        + u8::from(documents.starts.is_some()) * MANY
        + u8::from(has_null) * HAS_NULL;
    let (kind, base, dictionary): ([u8; 2], u64, &[u8]) = match values {
        Encoded::Numbers(numbers) => (numbers.encode_kind(), numbers.base, &[]),
        Encoded::Dictionary { bytes, .. } => ([0, 0], 0, bytes),
    };
    let starts = documents.starts.map_or(&[][..], Vec::as_slice);
    let at = out.len();
    out.extend_from_slice(&[PACKED, flags, kind[0], kind[1]]);
    out.extend_from_slice(&documents.first.unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&documents.count.to_le_bytes());
    out.extend_from_slice(&documents.marked_count.to_le_bytes());
    out.extend_from_slice(&base.to_le_bytes());
    for part in [documents.lists, starts, codes, dictionary] {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
    }
    for bound in [&least, &greatest] {
        out.extend_from_slice(&(bound.len() as u16).to_le_bytes());
    }
    out.extend_from_slice(&end.to_le_bytes());
    assert!(
        out.len() == at + HEADER_BYTES,
        "a header has a fixed length"
    );
    for part in [
        &least[..],
        &greatest,
        documents.lists,
        starts,
        codes,
        dictionary,
    ] {
        out.extend_from_slice(part);
    }
}

/// Sorts the documents of a layer.
pub(super) fn sort_rows(rows: &mut [Row]) {
    // A stable sort merges what is sorted, as parts of them are.
    rows.sort_by_key(|row| row.low);
    assert!(
        rows.is_sorted_by(|a, b| a.low < b.low),
        "a layer has each document once"
    );
}

/// By number, of `count`, where it is in a list of different numbers.
pub(super) fn places_of(sorted: &[u32], count: usize) -> Vec<u64> {
    let mut places = vec![0u64; count];
    for (place, number) in (0..).zip(sorted) {
        places[*number as usize] = place;
    }
    places
}
