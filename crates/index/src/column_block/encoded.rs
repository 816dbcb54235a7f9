//! [`Encoded`]: what the ordinals of a layer stand for, and which of the ways suits its values.

use super::numbers::{EXACT_MAX, Number, NumberKind, Numbers, SCALE_MAX, scaled};
use crate::dictionary::{DictionaryEncoding, DictionaryWriter};
use crate::packed::width_of;
use crate::{number_key, term};
use hashbrown::HashTable;
use quire_model::ordered::OrderedValue;

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
    if is_smaller_as_dictionary(&different, length, count) {
        return None;
    }
    Some(Numbers {
        kind,
        base,
        has_null,
        end: last - base + 1 + u64::from(has_null),
    })
}

/// Whether a dictionary of these numbers, which `count` cells have, takes fewer bytes than their
/// distances from the least one, which are below `length`.
pub(super) fn is_smaller_as_dictionary(different: &Different, length: u64, count: usize) -> bool {
    let of_numbers = width_of(length) as usize * count / 8;
    let of_dictionary = |values: usize| {
        let width = width_of(values as u64 + 1) as usize;
        width * count / 8 + DICTIONARY_BYTES + 10 * values
    };
    let count = different.count();
    count.is_some_and(|count| of_dictionary(count) < of_numbers)
}

/// A dictionary of terms, which ascend.
pub(super) fn dictionary_of<'t, T: Iterator<Item = &'t [u8]>>(all: impl Fn() -> T) -> Encoded {
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
    let (mut len, mut last) = (0, [].as_slice());
    for term in all() {
        let pushed = writer.push(term, &mut bytes);
        assert!(pushed.is_ok(), "sorted terms ascend, and suit the encoding");
        (len, last) = (len + 1, term);
    }
    writer.finish(&mut bytes);
    Encoded::Dictionary {
        bytes,
        len,
        least: all().next().unwrap_or_default().to_vec(),
        greatest: last.to_vec(),
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
    pub(super) fn bounds(&self) -> (u64, Vec<u8>, Vec<u8>) {
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
pub(super) struct Different {
    seen: HashTable<u64>,
    are_many: bool,
    last: Option<u64>,
}

impl Different {
    pub(super) fn add(&mut self, bits: u64) {
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
