//! `search_after`: the documents that come after a place in an order, as a filter.
//!
//! A document is ordered by the least of its values ascending, and by the greatest descending;
//! documents without a value come last. So a document comes after a value if it has no value up to
//! it, and that says it for all three.

use quire_model::ordered::{Direction, OrderedValue};
use quiredb::query::{Filter, Order, Path, Value};
use quiredb::{ID, Key};
use serde_json::Value as Json;
use std::ops::Bound;

use super::filter::{scalar, unsupported};
use crate::collections::coerce::number_or_boolean;
use crate::http::failure::Outcome;

/// The documents that come after these values in these orders. Some clients send numbers and
/// booleans as text: a text that is one stands for it where no document `has_text` in the field.
///
/// # Errors
/// 400 if there is not one value for each order, or one is no value to compare with; and as
/// `has_text`.
pub(crate) fn after(
    orders: &[Order],
    values: &[Json],
    has_text: impl Fn(Filter) -> Outcome<bool>,
) -> Outcome<Filter> {
    if orders.is_empty() || values.len() != orders.len() {
        return Err(unsupported(format!(
            "[search_after] has {} values and [sort] has {} fields: there must be a value for each",
            values.len(),
            orders.len()
        )));
    }
    let (mut any, mut level) = (Vec::new(), Vec::new());
    for (order, value) in orders.iter().zip(values) {
        let mut value = value_of(order, value)?;
        if let Some(text) = value.as_str()
            && order.path.as_str() != ID
            && let Some(meant) = number_or_boolean(&text)
            && !has_text(strings(&order.path))?
        {
            value = meant;
        }
        let upto = upto(order, &value, true);
        let before = self::upto(order, &value, false);
        any.push(Filter::And([level.as_slice(), &[!upto.clone()]].concat()));
        level.extend([upto, !before]);
    }
    Ok(Filter::Or(any))
}

fn value_of(order: &Order, value: &Json) -> Outcome<Value> {
    if value.is_null() {
        return Err(unsupported(format!(
            "[search_after] has null for [{}]: it can't tell documents with null from those \
             without the field; add an [exists] query on it",
            order.path
        )));
    }
    let value = scalar(value, "search_after")?;
    // A key that is an integer is ordered as one.
    let key = value.as_str().filter(|_| order.path.as_str() == ID);
    let key = key.and_then(|text| Key::parse(&text).ok());
    Ok(match key.and_then(|key| key.as_integer()) {
        Some(integer) => match (i64::try_from(integer), u64::try_from(integer)) {
            (Ok(integer), _) => Value::from(integer),
            (_, Ok(integer)) => Value::from(integer),
            _ => value,
        },
        None => value,
    })
}

/// The documents with a value that comes before this one in an order, or is it, if that counts.
fn upto(order: &Order, value: &Value, inclusive: bool) -> Filter {
    let path = &order.path;
    let end = match inclusive {
        true => Bound::Included(value.clone()),
        false => Bound::Excluded(value.clone()),
    };
    let (lower, upper) = match order.direction {
        Direction::Ascending => (Bound::Unbounded, end),
        Direction::Descending => (end, Bound::Unbounded),
    };
    // A range is about values of one type: null < booleans < numbers < strings.
    let types = [nulls(path), booleans(path), numbers(path), strings(path)];
    let place = match value.get() {
        OrderedValue::Bool(_) => 1,
        OrderedValue::String(_) => 3,
        _ => 2,
    };
    let beyond = match order.direction {
        Direction::Ascending => types.get(..place),
        Direction::Descending => types.get(place + 1..),
    };
    let mut any = vec![Filter::Range(path.clone(), lower, upper)];
    any.extend_from_slice(beyond.unwrap_or_default());
    Filter::Or(any)
}

fn nulls(path: &Path) -> Filter {
    Filter::Eq(path.clone(), Value::null())
}

fn booleans(path: &Path) -> Filter {
    Filter::In(path.clone(), vec![Value::from(false), Value::from(true)])
}

fn numbers(path: &Path) -> Filter {
    let least = Bound::Included(Value::from(f64::NEG_INFINITY));
    Filter::Range(path.clone(), least, Bound::Unbounded)
}

fn strings(path: &Path) -> Filter {
    let least = Bound::Included(Value::from(""));
    Filter::Range(path.clone(), least, Bound::Unbounded)
}
