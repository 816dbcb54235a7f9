//! Terms: scalar values as bytes whose order and equality are those that filters go by.
//!
//! # Invariants
//! 1. Terms are encodings of [`quire_model::ordered`], ascending: comparing bytes compares values,
//!    and no term is a prefix of another.
//! 2. Equal numbers are one term, whatever their type: 42, 42.0 and 4.2e1 are the integer 42, and
//!    -0.0 is 0. So a term gives back the value, but not the type or the digits that a number was
//!    written with.
//! 3. Terms of one type are neighbours: [`type_range`] bounds them.

use quire_model::ValueRef;
use quire_model::ordered::{Direction, OrderedValue};
use std::ops::Range;

/// First bytes of the terms of each type: see the layout in [`quire_model::ordered`].
const BOOL: Range<u8> = 0x02..0x04;
const NUMBER: Range<u8> = 0x10..0x97;
const STRING: Range<u8> = 0xa0..0xa1;
/// The term of null.
pub const NULL: &[u8] = &[0x01];

/// Appends the term of `value`; false, and nothing appended, for an array or an object, which have
/// none.
///
/// ```
/// use quire_index::term;
/// use quire_model::ValueRef;
///
/// let (mut int, mut text) = (Vec::new(), Vec::new());
/// assert!(term::encode(ValueRef::Int(42), &mut int));
/// assert!(term::encode(ValueRef::String("42"), &mut text));
/// assert!(int < text);
/// ```
pub fn encode(value: ValueRef<'_>, out: &mut Vec<u8>) -> bool {
    // By reference, as below.
    match &OrderedValue::from_value(value) {
        Some(value) => encode_term(value, out),
        None => false,
    }
}

/// Appends the term of `value`; false, and nothing appended, for a NaN, which equals nothing.
pub fn encode_ordered(value: OrderedValue<'_>, out: &mut Vec<u8>) -> bool {
    encode_term(&value, out)
}

/// By reference: copying a value whose parts were just stored waits for them.
fn encode_term(value: &OrderedValue<'_>, out: &mut Vec<u8>) -> bool {
    let encoded = match value {
        OrderedValue::Float(float) => one_number(*float).encode(Direction::Ascending, out),
        other => other.encode(Direction::Ascending, out),
    };
    encoded.is_ok()
}

/// The value of a term; `None` if the bytes are not one term.
#[must_use]
pub fn decode(term: &[u8]) -> Option<OrderedValue<'_>> {
    match OrderedValue::decode(term, Direction::Ascending) {
        Ok((value, [])) => Some(value),
        _ => None,
    }
}

/// First bytes of terms of the same type as `term`: those that a range with this bound may match.
/// Empty for no term.
#[must_use]
pub fn type_range(term: &[u8]) -> Range<u8> {
    let Some(first) = term.first() else {
        return 0..0;
    };
    let types = [BOOL, NUMBER, STRING];
    let known = types.into_iter().find(|bytes| bytes.contains(first));
    known.unwrap_or(*first..first.saturating_add(1))
}

/// The integer that a float equals, if there is one.
#[must_use]
pub fn int_of(float: f64) -> Option<i64> {
    match one_number(float) {
        OrderedValue::Int(value) => Some(value),
        _ => None,
    }
}

/// A float as the integer that it equals, if there is one.
fn one_number(float: f64) -> OrderedValue<'static> {
    const TWO_63: f64 = 9_223_372_036_854_775_808.0;
    if float.fract() != 0.0 {
        OrderedValue::Float(float)
    } else if (-TWO_63..TWO_63).contains(&float) {
        OrderedValue::Int(float as i64)
    } else if (TWO_63..2.0 * TWO_63).contains(&float) {
        OrderedValue::UInt(float as u64)
    } else {
        OrderedValue::Float(float)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn term(value: OrderedValue<'_>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        encode_ordered(value, &mut out).then_some(out)
    }

    proptest! {
        #[test]
        fn numbers_compare_by_value_alone(a: i64, b: f64, near in -3i64..3) {
            let by_value =
                |a: i64, b: f64| term(OrderedValue::Int(a)).cmp(&term(OrderedValue::Float(b)));
            if b.is_finite() {
                let ordered = OrderedValue::Int(a).cmp(&OrderedValue::Float(b));
                prop_assert_eq!(
                    by_value(a, b),
                    if a as f64 == b && b as i64 == a {
                        std::cmp::Ordering::Equal
                    } else {
                        ordered
                    }
                );
            }
            prop_assert!(by_value(near, near as f64).is_eq());
            prop_assert!(by_value(near, near as f64 + 0.5).is_lt());
        }
    }

    #[test]
    fn equal_numbers_are_one_term_and_each_type_keeps_to_itself() {
        assert_eq!(term(OrderedValue::Float(-0.0)), term(OrderedValue::Int(0)));
        assert_eq!(
            term(OrderedValue::Float(9_223_372_036_854_775_808.0)),
            term(OrderedValue::UInt(1 << 63))
        );
        assert_eq!(term(OrderedValue::Float(f64::NAN)), None);
        let values = [
            OrderedValue::Null,
            OrderedValue::Bool(true),
            OrderedValue::Float(f64::NEG_INFINITY),
            OrderedValue::Float(1e300),
            OrderedValue::Float(f64::INFINITY),
            OrderedValue::String("".into()),
        ];
        let types = [0, 1, 2, 2, 2, 3];
        for (value, kind) in values.iter().zip(types) {
            let own = term(value.clone()).unwrap();
            assert_eq!(decode(&own).as_ref(), Some(value));
            assert_eq!(decode(&own[1..]), None);
            for (other, other_kind) in values.iter().zip(types) {
                let other = term(other.clone()).unwrap();
                assert_eq!(type_range(&own).contains(&other[0]), kind == other_kind);
            }
        }
        assert!(type_range(&[]).is_empty());
    }
}
