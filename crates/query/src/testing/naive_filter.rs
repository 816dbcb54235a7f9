//! Which documents match, by definition.

use crate::element::Element;
use crate::mix::hash;
use crate::pattern::Written;
use crate::{Cast, Filter, Path, Pattern, Value};
use quire_model::ordered::OrderedValue;
use quire_model::{Document, ValueRef};
use regex::Regex;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::{Bound, RangeBounds};

/// Whether a document matches.
#[must_use]
pub fn accepts(filter: &Filter, document: &Document) -> bool {
    let any = |path: &Path, test: &dyn Fn(&Value) -> bool| values(path, document).iter().any(test);
    match filter {
        Filter::All => true,
        Filter::And(all) => all.iter().all(|one| accepts(one, document)),
        Filter::Or(any) => any.iter().any(|one| accepts(one, document)),
        Filter::Not(one) => !accepts(one, document),
        Filter::Eq(path, wanted) => any(path, &|value| is_equal(path, value, wanted)),
        Filter::In(path, wanted) => any(path, &|value| {
            wanted.iter().any(|wanted| is_equal(path, value, wanted))
        }),
        Filter::Exists(path) => any(path, &|value| *value != Value::null()),
        Filter::Prefix(path, prefix) => any(path, &|value| {
            value.as_str().is_some_and(|text| text.starts_with(prefix))
        }),
        Filter::Like(path, pattern) => any(path, &|value| {
            value.as_str().is_some_and(|text| matches(pattern, &text))
        }),
        Filter::Slice { path, number, max } => any(path, &|value| {
            *value != Value::null() && hash(value.term()) % u64::from(*max) == u64::from(*number)
        }),
        Filter::Cast(Cast::Number, path, lower, upper) => any(path, &|value| {
            let number = match value.as_str() {
                Some(text) => Value::from_numeral(&text),
                None => value.as_f64().map(|_| value.clone()),
            };
            number.is_some_and(|number| (lower.clone(), upper.clone()).contains(&number))
        }),
        Filter::Cast(Cast::Flag, path, lower, upper) => any(path, &|value| {
            let is =
                |flag: bool| *value == Value::from(flag) || *value == Value::from(flag.to_string());
            let number = match (is(true), is(false)) {
                (true, _) => Value::from(1),
                (_, true) => Value::from(0),
                _ => return false,
            };
            (lower.clone(), upper.clone()).contains(&number)
        }),
        Filter::Cast(Cast::Text, path, lower, upper) => any(path, &|value| {
            let text = match value.as_str() {
                Some(_) => Some(value.clone()),
                None if *value == Value::null() => None,
                None => Some(Value::from(value.to_string().to_ascii_lowercase())),
            };
            text.is_some_and(|text| (lower.clone(), upper.clone()).contains(&text))
        }),
        Filter::Cast(Cast::Boolean, path, lower, upper) => any(path, &|value| {
            let booleans = [false, true].map(Value::from);
            let said = booleans.into_iter().find(|one| {
                value == one || value.as_str().as_deref() == Some(&one.to_string().to_lowercase())
            });
            said.is_some_and(|said| (lower.clone(), upper.clone()).contains(&said))
        }),
        Filter::Cast(Cast::Date, path, lower, upper) => any(path, &|value| {
            let millis = |value: Value| value.as_date_millis();
            let bounds = (lower.clone().map(millis), upper.clone().map(millis));
            let date = millis(value.clone());
            date.is_some() && bounds.contains(&date)
        }),
        Filter::Cast(Cast::DateAs(formats), path, lower, upper) => any(path, &|value| {
            let millis = |value: Value| value.as_date_millis();
            let bounds = (lower.clone().map(millis), upper.clone().map(millis));
            let date = formats.millis_of(value);
            date.is_some() && bounds.contains(&date)
        }),
        Filter::Cast(cast @ Cast::Half, path, lower, upper) => any(path, &|value| {
            let half = |value: Value| cast.of(&value.get());
            let bounds = (lower.clone().map(half), upper.clone().map(half));
            let number = half(value.clone());
            number.is_some() && bounds.contains(&number)
        }),
        Filter::Cast(Cast::Nanos, path, lower, upper) => any(path, &|value| {
            let date = value.as_date_nanos().map(Value::from);
            date.is_some_and(|date| (lower.clone(), upper.clone()).contains(&date))
        }),
        Filter::Cast(Cast::Address, path, lower, upper) => any(path, &|value| {
            let parts = |value: Value| {
                let address: Option<IpAddr> = value.as_str()?.parse().ok();
                Some(match address? {
                    IpAddr::V4(address) => address.to_ipv6_mapped().segments(),
                    IpAddr::V6(address) => address.segments(),
                })
            };
            let bounds = (lower.clone().map(parts), upper.clone().map(parts));
            let address = parts(value.clone());
            address.is_some() && bounds.contains(&address)
        }),
        Filter::Range(path, Bound::Unbounded, Bound::Unbounded) => {
            any(path, &|value| *value != Value::null())
        }
        Filter::Range(path, lower, upper) => any(path, &|value| {
            let above = match lower {
                Bound::Included(lower) => same_type(value, lower) && value >= lower,
                Bound::Excluded(lower) => same_type(value, lower) && value > lower,
                Bound::Unbounded => true,
            };
            above
                && match upper {
                    Bound::Included(upper) => same_type(value, upper) && value <= upper,
                    Bound::Excluded(upper) => same_type(value, upper) && value < upper,
                    Bound::Unbounded => true,
                }
        }),
    }
}

/// Whether a value at a path is the wanted one. A key is its text, so 7 and `"7"` are one.
fn is_equal(path: &Path, value: &Value, wanted: &Value) -> bool {
    let text = |value: &Value| match value.get() {
        OrderedValue::Int(number) => Some(number.to_string()),
        OrderedValue::UInt(number) => Some(number.to_string()),
        _ => value.as_str().map(|text| text.into_owned()),
    };
    value == wanted
        || path.as_str() == "_id" && text(value).is_some_and(|one| Some(one) == text(wanted))
}

/// Whether a pattern matches a text as a whole.
fn matches(pattern: &Pattern, text: &str) -> bool {
    let folded = |text: &str| -> Vec<char> {
        match pattern.ignores_case() {
            true => text.chars().flat_map(char::to_lowercase).collect(),
            false => text.chars().collect(),
        }
    };
    match pattern.written('\\') {
        Written::Like { text: like, .. } => is_like(&folded(&like), &folded(text)),
        Written::Regexp(regexp) => {
            // What is generated means the same to the crate, but for this.
            let regexp = regexp.replace('@', ".*").replace("\\d", "[0-9]");
            let case = if pattern.ignores_case() { "i" } else { "" };
            let compiled = Regex::new(&format!("^(?s{case}:{regexp})$"));
            compiled.is_ok_and(|regexp| regexp.is_match(text))
        }
        Written::Fuzzy {
            text: near,
            edits,
            prefix,
        } => {
            let first: String = near.chars().take(prefix as usize).collect();
            let (near, first, letters) = (folded(near), folded(&first), folded(text));
            letters.starts_with(&first)
                && is_near(&near[first.len()..], &letters[first.len()..], edits)
        }
    }
}

/// Whether up to `edits` edits make one text the other.
fn is_near(one: &[char], other: &[char], edits: u32) -> bool {
    let (Some((a, rest)), Some((b, others))) = (one.split_first(), other.split_first()) else {
        return one.len().max(other.len()) <= edits as usize;
    };
    let is_swapped = rest.first() == Some(b) && others.first() == Some(a);
    a == b && is_near(rest, others, edits)
        || edits > 0
            && (is_near(rest, others, edits - 1)
                || is_near(rest, other, edits - 1)
                || is_near(one, others, edits - 1)
                || is_swapped && is_near(&rest[1..], &others[1..], edits - 1))
}

/// Whether letters match a pattern of `LIKE` that escapes with a backslash.
fn is_like(pattern: &[char], letters: &[char]) -> bool {
    match (pattern, letters) {
        ([], letters) => letters.is_empty(),
        (['%', pattern @ ..], _) => {
            (0..=letters.len()).any(|skipped| is_like(pattern, &letters[skipped..]))
        }
        (['_', pattern @ ..], [_, letters @ ..]) => is_like(pattern, letters),
        (['\\', wanted, pattern @ ..], [letter, letters @ ..])
        | ([wanted, pattern @ ..], [letter, letters @ ..]) => {
            wanted == letter && is_like(pattern, letters)
        }
        (_, []) => false,
    }
}

/// The values that a document has at a path.
pub(super) fn values(path: &Path, document: &Document) -> BTreeSet<Value> {
    let mut values = BTreeSet::new();
    for (name, value) in document.root().fields() {
        add_values(path, name, &[], value, &mut values);
    }
    values
}

/// Adds the scalars of `value` that are at a path. `names` and the elements of `trace` lead to it.
fn add_values(
    path: &Path,
    names: &str,
    trace: &[Element],
    value: ValueRef<'_>,
    to: &mut BTreeSet<Value>,
) {
    match value {
        ValueRef::Array(items) => {
            for (position, item) in items.into_iter().enumerate() {
                let after = names.len();
                let mut trace = trace.to_vec();
                trace.push(Element { after, position });
                add_values(path, names, &trace, item, to);
            }
        }
        ValueRef::Object(object) => {
            for (name, value) in object.fields() {
                add_values(path, &format!("{names}.{name}"), trace, value, to);
            }
        }
        scalar => {
            let chosen = |after: usize, elements: &[Element]| -> Vec<usize> {
                let elements = elements.iter().filter(|element| element.after == after);
                elements.map(|element| element.position).collect()
            };
            let is_there = names == path.as_str()
                && path.elements().iter().all(|element| {
                    let wanted = chosen(element.after, path.elements());
                    chosen(element.after, trace).starts_with(&wanted)
                });
            to.extend(Value::from_document(scalar).filter(|_| is_there));
        }
    }
}

fn same_type(one: &Value, other: &Value) -> bool {
    let kind = |value: &Value| match value.get() {
        OrderedValue::Null => 0,
        OrderedValue::Bool(_) => 1,
        OrderedValue::String(_) => 2,
        _ => 3,
    };
    kind(one) == kind(other)
}
