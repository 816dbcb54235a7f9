//! Values of queries, converted to the types of mappings, as OpenSearch does it.
//!
//! Documents keep the values that they were written with. So a query about a field with a type is
//! about all forms in which a document may have the value: 5 and "5" for a `keyword`.

use std::ops::Bound;

use jiff::Timestamp;
use quiredb::query::{CalendarUnit, Filter, Path, Rounding, Value};
use quiredb::{Collection, FieldKind, Mapping, View};

use super::selection::Searched;
use crate::engine::Engine;
use crate::http::failure::Outcome;
use crate::search::dates::{DateFormat, Moment, is_date_math, moment};
use crate::search::filter::unsupported;

/// Follows every text that begins with what is before it.
const AFTER_ALL: char = '\u{10ffff}';

/// The mappings of the collections that a request is about. By default there are none.
#[derive(Default)]
pub(crate) struct Mappings {
    mappings: Vec<Mapping>,
    /// Whether each collection has one.
    is_of_all: bool,
    /// The current time, for date math: milliseconds since 1970 UTC.
    now: i64,
}

impl Mappings {
    /// Those of collections. A wide one has none: it has a schema.
    pub(crate) fn of_searched(engine: &Engine, collections: &[Searched]) -> Mappings {
        let plain = collections.iter().filter_map(Searched::plain);
        let mut mappings = Mappings::of(engine, plain);
        mappings.is_of_all &= collections.iter().all(|one| one.plain().is_some());
        mappings
    }

    pub(crate) fn of<'a>(
        engine: &Engine,
        collections: impl IntoIterator<Item = &'a Collection>,
    ) -> Mappings {
        let mappings = collections.into_iter();
        let mappings = mappings.map(|collection| collection.settings().mapping.clone());
        let (mappings, empty): (Vec<Mapping>, Vec<Mapping>) =
            mappings.partition(|mapping| !mapping.is_empty());
        Mappings {
            is_of_all: !mappings.is_empty() && empty.is_empty(),
            mappings,
            now: engine.now_millis(),
        }
    }

    /// Of the collections of views; those that were dropped meanwhile have none.
    pub(crate) fn of_views(engine: &Engine, views: &[View]) -> Mappings {
        let collections = views.iter();
        let collections = collections.map(|view| engine.collection_named(view.collection_name()));
        let collections: Vec<Collection> = collections.flatten().collect();
        let mut mappings = Mappings::of(engine, &collections);
        mappings.is_of_all &= collections.len() == views.len();
        mappings
    }

    /// Whether the mapping of each collection gives a field a type whose values are compared whole.
    /// One date may be written in many ways.
    pub(crate) fn is_whole(&self, path: &str) -> bool {
        let is_whole = |mapping: &Mapping| {
            let kind = mapping.kind(path);
            kind.is_some_and(|kind| kind != FieldKind::Text && !kind.is_date())
        };
        self.is_of_all && self.mappings.iter().all(is_whole)
    }

    /// The type of a field, if all that name it agree.
    pub(crate) fn kind(&self, path: &Path) -> Option<FieldKind> {
        let kinds = self.mappings.iter();
        let mut kinds = kinds.filter_map(|mapping| mapping.kind(path.as_str()));
        let first = kinds.next()?;
        kinds.all(|other| other == first).then_some(first)
    }

    /// The filter with its values converted.
    ///
    /// # Errors
    /// 400 for a value that can't be one of its field.
    pub(crate) fn convert(&self, filter: Filter) -> Outcome<Filter> {
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
                Some(kind) if kind.is_date() => {
                    dates(path, self.moment(lower, true)?, self.moment(upper, false)?)
                }
                _ => {
                    refuse_date_math(&lower)?;
                    refuse_date_math(&upper)?;
                    Filter::Range(path, lower, upper)
                }
            },
            other => other,
        })
    }
}

impl Mappings {
    /// A bound of dates with its date math computed.
    fn moment(&self, bound: Bound<Value>, is_lower: bool) -> Outcome<Bound<Value>> {
        let is_excluded = matches!(bound, Bound::Excluded(_));
        let computed = |value: Value| -> Outcome<Value> {
            // Formats are many, but a date without a digit is none of them.
            let is_computed =
                |text: &&str| is_date_math(text) || !text.bytes().any(|byte| byte.is_ascii_digit());
            let text = value.as_str();
            let Some(text) = text.as_deref().filter(is_computed) else {
                return Ok(value);
            };
            let how = Moment {
                now: self.now,
                format: &DateFormat::Iso,
                zone: "UTC",
                is_rounded_up: is_lower == is_excluded,
            };
            let millis = moment(text, &how).and_then(|at| Timestamp::from_millisecond(at).ok());
            match millis {
                Some(at) => Ok(Value::from(at.to_string().as_str())),
                None => Err(unsupported(format!(
                    "failed to parse date field [{text}] with format \
                     [strict_date_optional_time||epoch_millis]"
                ))),
            }
        };
        Ok(match bound {
            Bound::Included(value) => Bound::Included(computed(value)?),
            Bound::Excluded(value) => Bound::Excluded(computed(value)?),
            Bound::Unbounded => Bound::Unbounded,
        })
    }
}

/// Refuses date math about a field that is no date: values are compared as they are, so a text such
/// as `now-1d` would be compared by its letters.
fn refuse_date_math(bound: &Bound<Value>) -> Outcome<()> {
    let (Bound::Included(value) | Bound::Excluded(value)) = bound else {
        return Ok(());
    };
    match value.as_str() {
        Some(text) if is_date_math(&text) => Err(unsupported(format!(
            "date math is not supported for a field without the type date in the mapping: [{text}] \
             must be written out"
        ))),
        _ => Ok(()),
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
            Some(text) => forms.extend(number_or_boolean(text).filter(|it| shown(it) == text)),
            None => forms.push(Value::from(shown(value).as_str())),
        }
    }
    Ok(forms)
}

/// The number or boolean that a text is.
pub(crate) fn number_or_boolean(text: &str) -> Option<Value> {
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
    match number_or_boolean(text) {
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
