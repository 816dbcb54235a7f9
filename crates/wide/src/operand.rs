//! Operands: changes of a cell that are written without reading it.
//!
//! # Layout
//! An operand of a tree is at least one of these, oldest first:
//! ```text
//! | kind u8 | length (LEB128) | cell |
//!   kind: 1 add, 2 append, 3 add to a set, 4 maximum
//! ```
//! The cell says the type, so what an operand makes of any cell, or of none, is defined.

use crate::{Cell, ColumnType, varint};
use serde_json::value::RawValue;
use std::cmp::Ordering;
use std::collections::BTreeSet;

const ADD: u8 = 1;
const APPEND: u8 = 2;
const ADD_TO_SET: u8 = 3;
const MAX: u8 = 4;

/// A change of a cell that depends on what it is.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// Adds to an integer, 0 if there is none. Past the limits of 64 bits it wraps.
    Add(i64),
    /// Appends to a string or to bytes.
    Append(Cell),
    /// Adds the elements of a JSON array to a set: a JSON array in which each is once, in the order
    /// of their text. A value that is no array is replaced.
    AddToSet(String),
    /// The greater of two integers, numbers, timestamps or strings.
    Max(Cell),
}

impl Operand {
    /// Whether a column of this type takes it.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(crate) fn check(&self, kind: ColumnType) -> Result<(), String> {
        let fits = match self {
            Operand::Add(_) => kind == ColumnType::Int,
            Operand::Append(cell) => {
                matches!(kind, ColumnType::String | ColumnType::Bytes) && cell.fits(kind)
            }
            Operand::AddToSet(array) => {
                elements(array).ok_or("the elements of a set are given as a JSON array")?;
                kind == ColumnType::Json
            }
            Operand::Max(cell) => {
                cell.fits(kind)
                    && matches!(
                        kind,
                        ColumnType::Int
                            | ColumnType::Float
                            | ColumnType::Timestamp
                            | ColumnType::String
                    )
            }
        };
        match fits {
            true => Ok(()),
            false => Err(format!("{} is no change of {}", self.name(), kind.words())),
        }
    }

    /// Whether the cell can become longer by it without end.
    pub(crate) fn grows(&self) -> bool {
        matches!(self, Operand::Append(_) | Operand::AddToSet(_))
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Operand::Add(_) => "add",
            Operand::Append(_) => "append",
            Operand::AddToSet(_) => "add_to_set",
            Operand::Max(_) => "max",
        }
    }

    /// What it makes of a cell.
    pub(crate) fn apply(&self, base: Option<Cell>) -> Cell {
        match (self, base) {
            (Operand::Add(step), Some(Cell::Int(number))) => Cell::Int(number.wrapping_add(*step)),
            (Operand::Add(step), _) => Cell::Int(*step),
            (Operand::Append(Cell::String(tail)), Some(Cell::String(text))) => {
                Cell::String(text + tail)
            }
            (Operand::Append(Cell::Bytes(tail)), Some(Cell::Bytes(mut bytes))) => {
                bytes.extend_from_slice(tail);
                Cell::Bytes(bytes)
            }
            (Operand::Append(tail), _) => tail.clone(),
            (Operand::AddToSet(added), base) => {
                let base = match &base {
                    Some(Cell::Json(text)) => text,
                    _ => "",
                };
                Cell::Json(union(base, added))
            }
            (Operand::Max(one), Some(other)) if is_less(one, &other) => other,
            (Operand::Max(one), _) => one.clone(),
        }
    }

    /// The one operand that does what this and a newer one do; `None` if there is none.
    pub(crate) fn then(&self, newer: &Operand) -> Option<Operand> {
        Some(match (self, newer) {
            (Operand::Add(one), Operand::Add(other)) => Operand::Add(one.wrapping_add(*other)),
            (Operand::Append(one), Operand::Append(other)) if one.kind() == other.kind() => {
                Operand::Append(newer.apply(Some(one.clone())))
            }
            (Operand::AddToSet(one), Operand::AddToSet(other)) => {
                Operand::AddToSet(union(one, other))
            }
            (Operand::Max(one), Operand::Max(other)) if are_compared(one, other) => {
                Operand::Max(newer.apply(Some(one.clone())))
            }
            _ => return None,
        })
    }

    /// Appends it to an operand of a tree.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, cell) = match self {
            Operand::Add(step) => (ADD, Cell::Int(*step).encode()),
            Operand::Append(cell) => (APPEND, cell.encode()),
            Operand::AddToSet(array) => (ADD_TO_SET, Cell::Json(array.clone()).encode()),
            Operand::Max(cell) => (MAX, cell.encode()),
        };
        out.push(kind);
        varint::put_bytes(out, &cell);
    }

    /// Those of an operand of a tree.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn decode_all(mut bytes: &[u8]) -> Result<Vec<Operand>, String> {
        let mut all = Vec::new();
        while let Some((kind, rest)) = bytes.split_first() {
            bytes = rest;
            let cell = varint::take_bytes(&mut bytes).ok_or("an operand that is cut short")?;
            let one = match (*kind, Cell::decode(cell)?) {
                (ADD, Cell::Int(step)) => Operand::Add(step),
                (APPEND, cell @ (Cell::String(_) | Cell::Bytes(_))) => Operand::Append(cell),
                (ADD_TO_SET, Cell::Json(array)) => Operand::AddToSet(array),
                (MAX, cell) => Operand::Max(cell),
                (kind, cell) => return Err(format!("an operand of kind {kind} with {cell:?}")),
            };
            all.push(one);
        }
        match all.is_empty() {
            true => Err("an operand that says nothing".into()),
            false => Ok(all),
        }
    }
}

/// Whether one cell is less than another of its type; an integer is a number too. Cells of other
/// types are not compared.
fn is_less(one: &Cell, other: &Cell) -> bool {
    match (one, other) {
        (Cell::Int(one), Cell::Int(other)) | (Cell::Timestamp(one), Cell::Timestamp(other)) => {
            one < other
        }
        (Cell::Float(one), Cell::Float(other)) => one < other,
        (Cell::Int(one), Cell::Float(other)) => with_float(*one, *other).is_lt(),
        (Cell::Float(one), Cell::Int(other)) => with_float(*other, *one).is_gt(),
        (Cell::String(one), Cell::String(other)) => one < other,
        _ => false,
    }
}

/// Whether one of two cells is the greater, or they are equal.
fn are_compared(one: &Cell, other: &Cell) -> bool {
    let are_numbers = [one, other].map(|cell| matches!(cell, Cell::Int(_) | Cell::Float(_)));
    one.kind() == other.kind() || are_numbers == [true, true]
}

/// An integer beside a finite float. Nothing is rounded: two integers that are one float are not
/// equal, and the greatest of three numbers is one, in whatever pairs they are compared.
fn with_float(integer: i64, float: f64) -> Ordering {
    // Whole, as far as an i128 has it; what is farther stays greater or less than any i64.
    let whole = i128::from(integer).cmp(&(float.trunc() as i128));
    match float.fract() {
        fraction if whole.is_eq() && fraction != 0.0 => 0f64.total_cmp(&fraction),
        _ => whole,
    }
}

/// The texts of the elements of a JSON array.
fn elements(array: &str) -> Option<Vec<&RawValue>> {
    serde_json::from_str(array).ok()
}

fn union(one: &str, other: &str) -> String {
    let both = [one, other].map(|array| elements(array).unwrap_or_default());
    let texts: BTreeSet<&str> = both.iter().flatten().map(|element| element.get()).collect();
    let texts: Vec<&str> = texts.into_iter().collect();
    format!("[{}]", texts.join(","))
}
