//! [`Number`]: what a document has in a field of numbers.

use quire_index::term;
use quire_model::ordered::OrderedValue;

/// A number or null. Equal ones are one, whatever their type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Null,
    Int(i64),
    Float(f64),
}

impl Number {
    /// None for a value that is no number and not null, or is a number that has no key.
    pub(super) fn of(value: &OrderedValue<'_>) -> Option<Number> {
        Some(match value {
            OrderedValue::Null => Number::Null,
            OrderedValue::Int(i64::MIN | i64::MAX) => return None,
            OrderedValue::Int(value) => Number::Int(*value),
            OrderedValue::Float(value) if value.is_nan() => return None,
            OrderedValue::Float(value) => Number::of_float(*value),
            _ => return None,
        })
    }

    /// None for the term of a value that has none.
    pub(super) fn of_term(term: &[u8]) -> Option<Number> {
        Number::of(&term::decode(term)?)
    }

    /// Equal numbers are one value, whatever their type.
    fn of_float(value: f64) -> Number {
        match term::int_of(value) {
            Some(int) if !matches!(int, i64::MIN | i64::MAX) => Number::Int(int),
            _ => Number::Float(value),
        }
    }
}
