//! [`ColumnBlockWriter`]: documents and their terms become a layer, in the encoding that suits.

use super::format::{HAS_NULL, HEADER_BYTES, LISTED, MANY, PACKED, TERM_BYTES_MAX, VALUES_MAX};
use super::numbers::{EXACT_MAX, Number, NumberKind, Numbers, SCALE_MAX, scaled};
use super::plain::{PLAIN, push_row};
use super::terms::Terms;
use crate::column::ColumnWriter;
use crate::dictionary::{DictionaryEncoding, DictionaryWriter};
use crate::packed::width_of;
use crate::{number_key, term};
use hashbrown::HashTable;
use quire_model::ordered::OrderedValue;

/// Layers of fewer documents than this are plain.
pub(super) const PACKED_ROWS_MIN: usize = 64;

/// Bytes of different terms that a layer holds; documents past it are marked.
const TERMS_BYTES_MAX: usize = 16 << 20;

/// Numbers get a dictionary if they have at most this many different values, and it takes fewer
/// bytes.
const DICTIONARY_NUMBERS_MAX: usize = 256;

/// About what a dictionary takes beside its values.
const DICTIONARY_BYTES: usize = 80;

/// First bytes of terms of strings begin here; null, booleans and numbers have lesser ones.
const STRINGS_MIN: u8 = 0xa0;

/// Part of a document's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell {
    Null,
    Int(i64),
    Float(f64),
    /// The number of a term.
    Term(u32),
}

impl Cell {
    /// The cell of a term that is null or a number.
    pub(super) fn of_term(term: &[u8]) -> Option<Cell> {
        let value = match term.first() {
            Some(first) if *first < STRINGS_MIN => term::decode(term),
            _ => None,
        };
        match value {
            Some(OrderedValue::Null) => Some(Cell::Null),
            Some(OrderedValue::Int(value)) => Some(Cell::Int(value)),
            Some(OrderedValue::Float(value)) => Some(Cell::Float(value)),
            _ => None,
        }
    }

    pub(super) fn of_number(number: Option<Number>) -> Cell {
        match number {
            None => Cell::Null,
            Some(Number::Int(value)) => Cell::Int(value),
            Some(Number::Float(value)) => match term::int_of(value) {
                Some(value) => Cell::Int(value),
                None => Cell::Float(value),
            },
        }
    }
}

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
        (dictionary_of(&self.terms, &sorted), ordinals.collect())
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
        let (end, least, greatest) = values.bounds();
        let width = width_of(end) as usize;
        let is_range = length == self.rows.len()
            || is_bottom && length * width <= self.rows.len() * (width + 16);
        let (mut lists, mut marked) = (Vec::new(), Vec::new());
        let (mut starts, mut start_bytes) = (ColumnWriter::new(), Vec::new());
        let (mut column, mut code_bytes) = (ColumnWriter::new(), Vec::new());
        let (mut next, mut begin) = (first, 0);
        let is_plain = ends.is_empty() && length == self.rows.len();
        if is_plain {
            column.extend(codes, &mut code_bytes);
        }
        let rows = if is_plain { &[] } else { self.rows.as_slice() };
        for (at, row) in rows.iter().enumerate() {
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
        let row_count = if is_range { length } else { self.rows.len() };
        let has_null = matches!(values, Encoded::Numbers(numbers) if numbers.has_null);
        let flags =
            u8::from(!is_range) * LISTED + u8::from(many) * MANY + u8::from(has_null) * HAS_NULL;
        let (kind, base, dictionary): ([u8; 2], u64, &[u8]) = match values {
            Encoded::Numbers(numbers) => (numbers.encode_kind(), numbers.base, &[]),
            Encoded::Dictionary { bytes, .. } => ([0, 0], 0, bytes),
        };
        let marked_count = (marked.len() / 2) as u32;
        lists.extend_from_slice(&marked);
        let at = out.len();
        out.extend_from_slice(&[PACKED, flags, kind[0], kind[1]]);
        out.extend_from_slice(&(if is_range { first as u16 } else { 0 }).to_le_bytes());
        out.extend_from_slice(&(row_count as u32).to_le_bytes());
        out.extend_from_slice(&marked_count.to_le_bytes());
        out.extend_from_slice(&base.to_le_bytes());
        for part in [&lists, &start_bytes, &code_bytes, &dictionary.to_vec()] {
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
            &lists,
            &start_bytes,
            &code_bytes,
            dictionary,
        ] {
            out.extend_from_slice(part);
        }
    }
}

/// The numbers that stand for all values, unless a dictionary suits better. `values` are those
/// of `count` cells, each once or more; a repetition changes nothing.
pub(super) fn numbers_of<'c, V: Iterator<Item = &'c Cell>>(
    values: impl Fn() -> V,
    count: usize,
) -> Option<Numbers> {
    let (mut has_null, mut has_floats, mut is_exact, mut is_any) = (false, false, true, false);
    let mut scale = 0;
    let (mut least, mut greatest) = (i64::MAX, i64::MIN);
    let mut different = Different::default();
    for cell in values() {
        match *cell {
            Cell::Term(_) => return None,
            Cell::Null => has_null = true,
            Cell::Int(value) => {
                is_any = true;
                (least, greatest) = (least.min(value), greatest.max(value));
                is_exact &= (-EXACT_MAX..=EXACT_MAX).contains(&value);
                different.add(value as u64);
            }
            Cell::Float(value) => {
                (is_any, has_floats) = (true, true);
                while scale <= SCALE_MAX && scaled(value, scale).is_none() {
                    scale += 1;
                }
                different.add(value.to_bits());
            }
        }
    }
    let kind = match (has_floats, is_exact) {
        (false, _) => NumberKind::Integers,
        (true, true) if scale <= SCALE_MAX => {
            // A scale that suits each one suits all, if the greatest does.
            let suits = |cell: &Cell| match *cell {
                Cell::Float(value) => scaled(value, scale).is_some(),
                Cell::Int(value) => scaled(value as f64, scale).is_some(),
                _ => true,
            };
            match values().all(suits) {
                true => NumberKind::Decimals(scale),
                false => NumberKind::Floats,
            }
        }
        (true, true) => NumberKind::Floats,
        (true, false) => return None,
    };
    if !is_any {
        return None;
    }
    let keys = || values().filter_map(|cell| key_of(kind, *cell));
    let (base, last) = (keys().min()?, keys().max()?);
    let length = (last - base).checked_add(2)?;
    let of_numbers = width_of(length) as usize * count / 8;
    let of_dictionary = |values: usize| {
        let width = width_of(values as u64 + 1) as usize;
        width * count / 8 + DICTIONARY_BYTES + 10 * values
    };
    if different
        .count()
        .is_some_and(|count| of_dictionary(count) < of_numbers)
    {
        return None;
    }
    Some(Numbers {
        kind,
        base,
        has_null,
        end: last - base + 1 + u64::from(has_null),
    })
}

/// Sorts the documents of a layer.
pub(super) fn sort_rows(rows: &mut [Row]) {
    if !rows.is_sorted_by_key(|row| row.low) {
        rows.sort_unstable_by_key(|row| row.low);
    }
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

/// A dictionary of terms, whose numbers are sorted.
pub(super) fn dictionary_of(terms: &Terms, sorted: &[u32]) -> Encoded {
    let all = || sorted.iter().map(|number| terms.get(*number));
    let length = all().next().map_or(0, <[u8]>::len);
    let is_integer = |term: &[u8]| matches!(term::decode(term), Some(OrderedValue::Int(_)));
    let encoding = if all().all(is_integer) {
        DictionaryEncoding::Integers
    } else if all().all(|term| term.len() == length) {
        DictionaryEncoding::Fixed(length as u32)
    } else {
        DictionaryEncoding::Blocks
    };
    let (mut writer, mut bytes) = (DictionaryWriter::new(encoding), Vec::new());
    for term in all() {
        let pushed = writer.push(term, &mut bytes);
        assert!(pushed.is_ok(), "sorted terms ascend, and suit the encoding");
    }
    writer.finish(&mut bytes);
    let bound = |number: Option<&u32>| number.map(|number| terms.get(*number).to_vec());
    Encoded::Dictionary {
        bytes,
        len: sorted.len() as u64,
        least: bound(sorted.first()).unwrap_or_default(),
        greatest: bound(sorted.last()).unwrap_or_default(),
    }
}

/// What the ordinals of a layer stand for.
pub(super) enum Encoded {
    Numbers(Numbers),
    Dictionary {
        bytes: Vec<u8>,
        len: u64,
        least: Vec<u8>,
        greatest: Vec<u8>,
    },
}

impl Encoded {
    /// More than any ordinal, and the terms of the first and the last.
    fn bounds(&self) -> (u64, Vec<u8>, Vec<u8>) {
        match self {
            Encoded::Dictionary {
                len,
                least,
                greatest,
                ..
            } => (*len, least.clone(), greatest.clone()),
            Encoded::Numbers(numbers) => {
                let term = |ordinal: u64| {
                    let mut term = Vec::new();
                    numbers.append_term(ordinal, &mut term);
                    term
                };
                (numbers.end, term(0), term(numbers.end - 1))
            }
        }
    }
}

/// The ordinal of a number, or of null.
pub(super) fn ordinal_of(numbers: &Numbers, cell: Cell) -> u64 {
    match key_of(numbers.kind, cell) {
        Some(key) => numbers.ordinal_of_key(key),
        None => 0,
    }
}

fn key_of(kind: NumberKind, cell: Cell) -> Option<u64> {
    let float = match cell {
        Cell::Float(value) => value,
        Cell::Int(value) if kind == NumberKind::Integers => return Some(number_key::of_int(value)),
        Cell::Int(value) => value as f64,
        Cell::Null | Cell::Term(_) => return None,
    };
    match kind {
        NumberKind::Integers => None,
        NumberKind::Decimals(scale) => scaled(float, scale).map(number_key::of_int),
        NumberKind::Floats => Some(number_key::of_float(float)),
    }
}

/// Counts different numbers, as long as they are few.
#[derive(Default)]
struct Different {
    seen: HashTable<u64>,
    are_many: bool,
    last: Option<u64>,
}

impl Different {
    fn add(&mut self, bits: u64) {
        if self.are_many || self.last.replace(bits) == Some(bits) {
            return;
        }
        let hash = |bits: &u64| bits.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let entry = self.seen.entry(hash(&bits), |other| *other == bits, hash);
        entry.or_insert(bits);
        self.are_many = self.seen.len() > DICTIONARY_NUMBERS_MAX;
    }

    fn count(&self) -> Option<usize> {
        (!self.are_many).then(|| self.seen.len())
    }
}
