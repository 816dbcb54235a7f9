//! `search_after`: the documents that come after a place in an order, as a filter.
//!
//! A document is ordered by the least of its values ascending, and by the greatest descending. So a
//! document comes after a value if it has no value up to it. So do those without any, where they
//! come last. Null as a place is that of the documents without a value.

use jiff::tz::TimeZone;
use quire_model::ordered::{Direction, OrderedValue};
use quiredb::query::{Cast, DateFormat, Filter, Order, OrderedAs, Path, Value};
use quiredb::{ID, Key};
use serde_json::{Value as Json, json};
use std::ops::Bound;

use super::filter::{scalar, unsupported};
use crate::collections::coerce::{number_or_boolean, text_of};
use crate::http::failure::Outcome;

/// The documents that come after these values in these orders, and the filters that those at them
/// match, all of these. Some clients send numbers and
/// booleans as text: a text that is one stands for it where no document `has_text` in the field.
///
/// # Errors
/// 400 if there is not one value for each order, or one is no value to compare with; and as
/// `has_text`.
pub(crate) fn after(
    orders: &[Order],
    values: &[Json],
    has_text: impl Fn(Filter) -> Outcome<bool>,
) -> Outcome<(Filter, Vec<Filter>)> {
    if orders.is_empty() || values.len() != orders.len() {
        return Err(unsupported(format!(
            "[search_after] has {} values and [sort] has {} fields: there must be a value for each",
            values.len(),
            orders.len()
        )));
    }
    let (mut any, mut level) = (Vec::new(), Vec::new());
    for (order, value) in orders.iter().zip(values) {
        let at = match value.is_null() && order.missing.is_none() {
            true => Place::without_value(order),
            false => Place::of_value(order, value_of(order, value, &has_text)?),
        };
        any.push(Filter::And([level.as_slice(), &[at.after]].concat()));
        level.extend(at.equal);
    }
    Ok((Filter::Or(any), level))
}

/// The values of `search_after`, dates in the formats in which hits show them as the numbers that
/// hits are sorted by.
///
/// # Errors
/// 400 for a text that is no date of its format.
pub(crate) fn read_formatted(
    values: &[Json],
    orders: &[Order],
    formats: &[Option<DateFormat>],
) -> Outcome<Vec<Json>> {
    let mut values = values.to_vec();
    for ((value, order), format) in values.iter_mut().zip(orders).zip(formats) {
        let (Some(format), Json::String(text)) = (format, &*value) else {
            continue;
        };
        let scale = match &order.by {
            OrderedAs::Cast(Cast::Date | Cast::DateAs(_)) => 1,
            OrderedAs::Cast(Cast::Nanos) => 1_000_000,
            _ => continue,
        };
        let millis = format.read_grain(text, &TimeZone::UTC).map(|(at, _)| at);
        let millis = millis.ok_or_else(|| {
            unsupported(format!(
                "[search_after] has [{text}] for [{}], which is no date of the [format] of [sort]",
                order.path
            ))
        })?;
        *value = json!(millis.saturating_mul(scale));
    }
    Ok(values)
}

/// What `_shard_doc` is of a hit in one of several collections, which may have documents of the
/// same key: the number of the collection among those that are searched, and the key.
pub(crate) fn place_text(number: usize, key: &Key) -> String {
    format!("{number}:{key}")
}

/// The number of the collection and the key of a [`place_text`], the last of some values.
///
/// # Errors
/// 400 if it is none.
pub(crate) fn place_of(values: &[Json]) -> Outcome<(usize, String)> {
    let last = values.last().cloned().unwrap_or_default();
    let place = last.as_str().and_then(|text| text.split_once(':'));
    let place = place.and_then(|(number, key)| Some((number.parse().ok()?, key.to_owned())));
    place.ok_or_else(|| {
        unsupported(format!(
            "[search_after] has [{last}] for [_shard_doc]: it must be the last value of [sort] of \
             a hit"
        ))
    })
}

/// A place in one order.
struct Place {
    /// The documents that come after it.
    after: Filter,
    /// Those that are at it: all of these.
    equal: Vec<Filter>,
}

impl Place {
    /// That of the documents without a value.
    fn without_value(order: &Order) -> Place {
        let has_value = has_value(order);
        Place {
            after: match order.missing_first {
                true => has_value.clone(),
                false => Filter::none(),
            },
            equal: vec![!has_value],
        }
    }

    fn of_value(order: &Order, value: Value) -> Place {
        let upto = upto(order, &value, true);
        let before = self::upto(order, &value, false);
        let beyond = !upto.clone();
        // Where documents without a value have this one, or one that comes before it.
        let (is_at, is_before) = match &order.missing {
            None => (false, order.missing_first),
            Some(missing) => match order.direction {
                Direction::Ascending => (*missing == value, *missing < value),
                Direction::Descending => (*missing == value, *missing > value),
            },
        };
        let at = upto.and(!before);
        Place {
            after: match is_at || is_before {
                true => has_value(order).and(beyond),
                false => beyond,
            },
            equal: vec![match is_at {
                true => at.or(!has_value(order)),
                false => at,
            }],
        }
    }
}

/// The documents that have a value to be ordered by.
fn has_value(order: &Order) -> Filter {
    let path = order.path.clone();
    match &order.by {
        OrderedAs::Cast(cast) => {
            Filter::Cast(cast.clone(), path, Bound::Unbounded, Bound::Unbounded)
        }
        OrderedAs::Value | OrderedAs::NotNull => Filter::Exists(path),
    }
}

fn value_of(
    order: &Order,
    value: &Json,
    has_text: &impl Fn(Filter) -> Outcome<bool>,
) -> Outcome<Value> {
    let value = scalar(value, "search_after")?;
    let text = value.as_str().map(Into::into);
    let text: Option<String> = text;
    // A key that is an integer is ordered as one.
    if order.path.as_str() == ID {
        let key = text.and_then(|text| Key::parse(&text).ok());
        return Ok(match key.and_then(|key| key.as_integer()) {
            Some(integer) => match (i64::try_from(integer), u64::try_from(integer)) {
                (Ok(integer), _) => Value::from(integer),
                (_, Ok(integer)) => Value::from(integer),
                _ => value,
            },
            None => value,
        });
    }
    let wrong = |what: &str| {
        let path = &order.path;
        unsupported(format!(
            "[search_after] has [{value}] for [{path}], which is no {what}"
        ))
    };
    match (&order.by, text) {
        (OrderedAs::Cast(Cast::Text), None) => Ok(text_of(&value)),
        (OrderedAs::Cast(Cast::Number | Cast::Half), Some(text)) => {
            Value::from_numeral(&text).ok_or_else(|| wrong("number"))
        }
        (OrderedAs::Cast(Cast::Number | Cast::Half), None) if value.as_f64().is_none() => {
            Err(wrong("number"))
        }
        (OrderedAs::Cast(Cast::Boolean), Some(text)) => {
            let boolean = text.parse::<bool>();
            boolean.map(Value::from).map_err(|_| wrong("boolean"))
        }
        (OrderedAs::Cast(Cast::Boolean), None) if value.as_f64().is_some() => Err(wrong("boolean")),
        (OrderedAs::Cast(Cast::Date), Some(text)) if value.as_date_millis().is_none() => {
            // Milliseconds, as a hit has them in `sort`.
            let millis = text.parse::<i64>();
            millis.map(Value::from).map_err(|_| wrong("date"))
        }
        (OrderedAs::Cast(Cast::Date), None) if value.as_date_millis().is_none() => {
            Err(wrong("date"))
        }
        // A number is what a hit has in `sort`, and a text a date as the field has it.
        (OrderedAs::Cast(Cast::DateAs(formats)), Some(text)) => {
            let millis = formats.millis_of(&value).or_else(|| text.parse().ok());
            millis.map(Value::from).ok_or_else(|| wrong("date"))
        }
        (OrderedAs::Cast(Cast::DateAs(_)), None) if value.as_date_millis().is_none() => {
            Err(wrong("date"))
        }
        (OrderedAs::Cast(Cast::Nanos), Some(text)) => {
            let nanos = text.parse().ok().or_else(|| value.as_date_nanos());
            nanos.map(Value::from).ok_or_else(|| wrong("date"))
        }
        (OrderedAs::Cast(Cast::Nanos), None) if !matches!(value.get(), OrderedValue::Int(_)) => {
            Err(wrong("date"))
        }
        (OrderedAs::Value | OrderedAs::NotNull, Some(text)) => match number_or_boolean(&text) {
            Some(meant) if !has_text(strings(&order.path))? => Ok(meant),
            _ => Ok(value),
        },
        _ => Ok(value),
    }
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
    if let OrderedAs::Cast(cast) = &order.by {
        return Filter::Cast(cast.clone(), path.clone(), lower, upper);
    }
    // A range is about values of one type: booleans < numbers < strings.
    let types = [booleans(path), numbers(path), strings(path)];
    let place = match value.get() {
        OrderedValue::Bool(_) => 0,
        OrderedValue::String(_) => 2,
        _ => 1,
    };
    let beyond = match order.direction {
        Direction::Ascending => types.get(..place),
        Direction::Descending => types.get(place + 1..),
    };
    let mut any = vec![Filter::Range(path.clone(), lower, upper)];
    any.extend_from_slice(beyond.unwrap_or_default());
    Filter::Or(any)
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
