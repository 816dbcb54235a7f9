//! Values of queries, converted to the types of mappings, as OpenSearch does it.
//!
//! Documents keep the values that they were written with. So a query about a field with a type is
//! about all forms in which a document may have the value: 5 and "5" for a `keyword`.

use std::ops::Bound;

use quiredb::query::{CalendarUnit, Filter, Path, Rounding, Value};
use quiredb::{Collection, FieldKind, Mapping};

use super::selection::Searched;
use crate::http::failure::Outcome;
use crate::search::filter::unsupported;

/// Follows every text that begins with what is before it.
const AFTER_ALL: char = '\u{10ffff}';

/// The mappings of the collections that a request is about.
pub(crate) struct Mappings(Vec<Mapping>);

impl Mappings {
    /// Those of collections. A wide one has none: it has a schema.
    pub(crate) fn of_searched(collections: &[Searched]) -> Mappings {
        Mappings::of(collections.iter().filter_map(Searched::plain))
    }

    pub(crate) fn of<'a>(collections: impl IntoIterator<Item = &'a Collection>) -> Mappings {
        let mappings = collections.into_iter();
        let mappings = mappings.map(|collection| collection.settings().mapping.clone());
        Mappings(mappings.filter(|mapping| !mapping.is_empty()).collect())
    }

    /// The type of a field, if all that name it agree.
    fn kind(&self, path: &Path) -> Option<FieldKind> {
        let kinds = self.0.iter();
        let mut kinds = kinds.filter_map(|mapping| mapping.kind(path.as_str()));
        let first = kinds.next()?;
        kinds.all(|other| other == first).then_some(first)
    }

    /// The filter with its values converted.
    ///
    /// # Errors
    /// 400 for a value that can't be one of its field.
    pub(crate) fn convert(&self, filter: Filter) -> Outcome<Filter> {
        if self.0.is_empty() {
            return Ok(filter);
        }
        let all = |filters: Vec<Filter>| -> Outcome<Vec<Filter>> {
            filters.into_iter().map(|one| self.convert(one)).collect()
        };
        Ok(match filter {
            Filter::And(filters) => Filter::And(all(filters)?),
            Filter::Or(filters) => Filter::Or(all(filters)?),
            Filter::Not(one) => !self.convert(*one)?,
            Filter::Eq(path, value) => self.convert(Filter::In(path, vec![value]))?,
            Filter::In(path, values) => match self.kind(&path) {
                Some(kind) => {
                    let mut forms = Vec::new();
                    for value in &values {
                        forms.extend(self::forms(kind, value)?);
                    }
                    Filter::In(path, forms)
                }
                None => Filter::In(path, values),
            },
            Filter::Range(path, lower, upper) => match self.kind(&path) {
                Some(kind) if kind.is_number() => {
                    Filter::Range(path, as_number(kind, lower)?, as_number(kind, upper)?)
                }
                Some(kind) if kind.is_date() => dates(path, lower, upper),
                _ => Filter::Range(path, lower, upper),
            },
            other => other,
        })
    }
}

/// The forms in which a document may have a value.
fn forms(kind: FieldKind, value: &Value) -> Outcome<Vec<Value>> {
    let text = value.as_str();
    let text = text.as_deref();
    if let Some(text) = text
        && kind.is_number()
    {
        return Ok(vec![number(kind, text)?]);
    }
    if let Some(text) = text
        && kind == FieldKind::Boolean
    {
        return match text {
            "true" => Ok(vec![Value::from(true)]),
            "false" | "" => Ok(vec![Value::from(false)]),
            _ => Err(unsupported(format!(
                "Can't parse boolean value [{text}], expected [true] or [false]"
            ))),
        };
    }
    let mut forms = vec![value.clone()];
    if kind.is_text() {
        match text {
            // A text that a number or a boolean is written as.
            Some(text) => forms.extend(scalar(text).filter(|it| shown(it) == text)),
            None => forms.push(Value::from(shown(value).as_str())),
        }
    }
    Ok(forms)
}

fn scalar(text: &str) -> Option<Value> {
    match text {
        "true" => Some(Value::from(true)),
        "false" => Some(Value::from(false)),
        text => {
            let whole = text.parse::<i64>().map(Value::from).ok();
            whole.or_else(|| {
                text.parse::<f64>()
                    .ok()
                    .filter(|it| it.is_finite())
                    .map(Value::from)
            })
        }
    }
}

fn shown(value: &Value) -> String {
    value.to_string()
}

fn number(kind: FieldKind, text: &str) -> Outcome<Value> {
    let refused = || {
        let kind = kind.name();
        unsupported(format!(
            "failed to create query: For input string: \"{text}\" of type [{kind}]"
        ))
    };
    match scalar(text) {
        Some(value) if value.as_f64().is_some() => Ok(value),
        _ => Err(refused()),
    }
}

fn as_number(kind: FieldKind, bound: Bound<Value>) -> Outcome<Bound<Value>> {
    let converted = |value: Value| match value.as_str() {
        Some(text) => number(kind, &text),
        None => Ok(value),
    };
    Ok(match bound {
        Bound::Included(value) => Bound::Included(converted(value)?),
        Bound::Excluded(value) => Bound::Excluded(converted(value)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

/// A range of dates: of those that documents have as text, and of those that they have as numbers.
/// A bound with a part of a date is about all of that part: `lte` 2026 is to the end of the year.
fn dates(path: Path, lower: Bound<Value>, upper: Bound<Value>) -> Filter {
    let of_text = Filter::Range(path.clone(), text(&lower, true), text(&upper, false));
    match (millis(&lower, true), millis(&upper, false)) {
        (Some(from), Some(to)) => of_text.or(Filter::Range(path, from, to)),
        _ => of_text,
    }
}

fn text(bound: &Bound<Value>, is_lower: bool) -> Bound<Value> {
    let whole = |value: &Value| match value.as_str() {
        Some(text) if unit(&text).is_some() => Value::from(format!("{text}{AFTER_ALL}").as_str()),
        _ => value.clone(),
    };
    match bound {
        Bound::Included(value) if !is_lower => Bound::Included(whole(value)),
        Bound::Excluded(value) if is_lower => Bound::Excluded(whole(value)),
        bound => bound.clone(),
    }
}

fn millis(bound: &Bound<Value>, is_lower: bool) -> Option<Bound<Value>> {
    let (value, is_included) = match bound {
        Bound::Unbounded => return Some(Bound::Unbounded),
        Bound::Included(value) => (value, true),
        Bound::Excluded(value) => (value, false),
    };
    // Numbers are compared as numbers already.
    let start = value
        .as_date_millis()
        .filter(|_| value.as_str().is_some())?;
    let is_end = is_lower != is_included;
    let unit = value.as_str().and_then(|text| unit(&text));
    let unit = unit.filter(|_| is_end);
    let at = match unit.and_then(|unit| Rounding::calendar(unit, "UTC")) {
        Some(rounding) => rounding.next(start)? - 1,
        None => start,
    };
    Some(match is_included {
        true => Bound::Included(Value::from(at)),
        false => Bound::Excluded(Value::from(at)),
    })
}

/// The part of a date that a text ends with, if that is longer than a second.
fn unit(text: &str) -> Option<CalendarUnit> {
    match text.len() {
        4 => Some(CalendarUnit::Year),
        7 => Some(CalendarUnit::Month),
        10 => Some(CalendarUnit::Day),
        13 => Some(CalendarUnit::Hour),
        16 => Some(CalendarUnit::Minute),
        _ => None,
    }
}
