//! [`Value`]: a scalar to compare with.

use quire_index::term;
use quire_model::ValueRef;
use quire_model::ordered::OrderedValue;
use smallvec::SmallVec;
use std::borrow::{Borrow, Cow};
use std::fmt;
use std::io::Write;
use std::ops::Bound;

/// A lower and an upper bound.
pub type Bounds = (Bound<Value>, Bound<Value>);

/// A scalar: null, a boolean, a number or a string, held as its [term](quire_index::term).
///
/// Equality and order are those that filters go by: 42 and 42.0 are equal, and null < booleans <
/// numbers < strings. [`Display`](fmt::Display) writes it as SQL does. A NaN can be made a value,
/// but a query that has one is an error.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(SmallVec<[u8; 24]>);

impl Value {
    /// Null.
    #[must_use]
    pub fn null() -> Value {
        Value::from_ordered(OrderedValue::Null)
    }

    /// The value of a document's field; none if it is an array or an object.
    #[must_use]
    pub fn from_document(value: ValueRef<'_>) -> Option<Value> {
        OrderedValue::from_value(value).map(Value::from_ordered)
    }

    /// The value of a term; none if the bytes are not one.
    #[must_use]
    pub fn from_term(bytes: &[u8]) -> Option<Value> {
        term::decode(bytes)?;
        Some(Value::of_term(bytes))
    }

    /// The value of bytes that are a term.
    pub(crate) fn of_term(term: &[u8]) -> Value {
        debug_assert!(term::decode(term).is_some(), "the bytes are one term");
        Value(term.into())
    }

    /// The number that a string holds: digits, with a sign, a point and an exponent if need be, and
    /// nothing else. An integer where it is one of 64 bits, else the nearest float; none if it is
    /// beyond all floats.
    #[must_use]
    pub fn from_numeral(text: &str) -> Option<Value> {
        let is_sign = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        if !text.bytes().all(is_sign) {
            return None;
        }
        if let Ok(integer) = text.parse::<i64>() {
            return Some(Value::from(integer));
        }
        if let Ok(integer) = text.parse::<u64>() {
            return Some(Value::from(integer));
        }
        let float = text.parse::<f64>().ok()?;
        float.is_finite().then(|| Value::from(float))
    }

    /// Its term; empty for a NaN alone.
    #[must_use]
    pub fn term(&self) -> &[u8] {
        &self.0
    }

    /// What it is. A number that is an integer is one here, however it was written.
    #[must_use]
    pub fn get(&self) -> OrderedValue<'_> {
        term::decode(&self.0).unwrap_or(OrderedValue::Float(f64::NAN))
    }

    /// The number it is, if it is one: rounded, where it is an integer beyond 2^53.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        number(&self.get())
    }

    /// The string it is, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<Cow<'_, str>> {
        match self.get() {
            OrderedValue::String(text) => Some(text),
            _ => None,
        }
    }

    /// Appends it as JSON; what JSON does not have, an infinity, as null.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let value = match self.get() {
            OrderedValue::Bool(value) => ValueRef::Bool(value),
            OrderedValue::Int(value) => ValueRef::Int(value),
            OrderedValue::UInt(value) => ValueRef::UInt(value),
            OrderedValue::String(ref text) => return ValueRef::String(text).write_json(out),
            OrderedValue::Float(value) if value.is_finite() => {
                // Writing to memory doesn't fail.
                let _ = write!(out, "{value:?}");
                return;
            }
            _ => ValueRef::Null,
        };
        value.write_json(out);
    }

    fn from_ordered(value: OrderedValue<'_>) -> Value {
        let mut bytes = Vec::with_capacity(match &value {
            OrderedValue::String(text) => text.len() + 3,
            _ => 12,
        });
        term::encode_ordered(value, &mut bytes);
        Value(bytes.into())
    }
}

/// The f64 of a number.
pub(crate) fn number(value: &OrderedValue<'_>) -> Option<f64> {
    match *value {
        OrderedValue::Int(value) => Some(value as f64),
        OrderedValue::UInt(value) => Some(value as f64),
        OrderedValue::Float(value) => Some(value),
        _ => None,
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            OrderedValue::Bool(true) => f.write_str("TRUE"),
            OrderedValue::Bool(false) => f.write_str("FALSE"),
            OrderedValue::Int(value) => value.fmt(f),
            OrderedValue::UInt(value) => value.fmt(f),
            // What does not fit a float is read as infinite.
            OrderedValue::Float(value) if value == f64::INFINITY => f.write_str("1e999"),
            OrderedValue::Float(value) if value == f64::NEG_INFINITY => f.write_str("-1e999"),
            OrderedValue::Float(value) => write!(f, "{value:?}"),
            OrderedValue::String(text) => write_string(&text, f),
            _ => f.write_str("NULL"),
        }
    }
}

/// Writes `text` as SQL does: in quotes, each quote in it twice.
pub(crate) fn write_string(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A value is found in a map by its term.
impl Borrow<[u8]> for Value {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<OrderedValue<'_>> for Value {
    fn from(value: OrderedValue<'_>) -> Value {
        Value::from_ordered(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::from_ordered(OrderedValue::Bool(value))
    }
}

impl From<i32> for Value {
    fn from(value: i32) -> Value {
        Value::from(i64::from(value))
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::from(i64::from(value))
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::from_ordered(OrderedValue::Int(value))
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::from_ordered(OrderedValue::UInt(value))
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::from_ordered(OrderedValue::Float(value))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::from_ordered(OrderedValue::String(Cow::Borrowed(text)))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::from(text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_numeral_is_a_number_and_nothing_else() {
        for (text, number) in [
            ("7", Value::from(7)),
            ("-007", Value::from(-7)),
            ("+1.50", Value::from(1.5)),
            ("1e3", Value::from(1000)),
            (".5", Value::from(0.5)),
            ("18446744073709551615", Value::from(u64::MAX)),
            ("9007199254740993", Value::from(9_007_199_254_740_993_i64)),
        ] {
            assert_eq!(Value::from_numeral(text), Some(number), "{text}");
        }
        for text in [
            "", "-", "e", "nan", "inf", "1e999", " 1", "1 ", "1,5", "0x1", "1_0",
        ] {
            assert_eq!(Value::from_numeral(text), None, "{text:?}");
        }
    }
}
