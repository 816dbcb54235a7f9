//! `range`: values between two bounds, and how the dates among them are read.

use jiff::Timestamp;
use quiredb::query::{Cast, Filter, Value};
use serde_json::Value as Json;
use std::ops::Bound;

use super::clause::{Object, either, known_query, object, only_field, scalar, text, unsupported};
use super::dates::{DateReading, is_date_math};
use crate::http::failure::Outcome;

/// `range`.
///
/// # Errors
/// 400 for what is no bound, and a date that its format does not read.
pub(super) fn range(body: &Object, now: i64) -> Outcome<Filter> {
    let (path, bounds) = only_field(body, "range")?;
    let bounds = object(bounds, "range")?;
    // The last four are how clients of older versions say it.
    let ends = ["gt", "gte", "lt", "lte"];
    let older = ["from", "to", "include_lower", "include_upper"];
    let hows = ["format", "time_zone", "relation"];
    known_query(bounds, "range", &[&ends[..], &older, &hows].concat())?;
    check_relation(bounds)?;
    let bound = |name: &str| match bounds.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => scalar(value, "range").map(Some),
    };
    let older = |name: &str, inclusive: &str| -> Outcome<Option<Bound<Value>>> {
        let inclusive = match bounds.get(inclusive) {
            None => true,
            Some(Json::Bool(inclusive)) => *inclusive,
            Some(_) => return Err(unsupported(format!("[{inclusive}] must be a boolean"))),
        };
        let make = match inclusive {
            true => Bound::Included,
            false => Bound::Excluded,
        };
        Ok(bound(name)?.map(make))
    };
    let lower = [
        bound("gt")?.map(Bound::Excluded),
        bound("gte")?.map(Bound::Included),
        older("from", "include_lower")?,
    ];
    let upper = [
        bound("lt")?.map(Bound::Excluded),
        bound("lte")?.map(Bound::Included),
        older("to", "include_upper")?,
    ];
    let one = |bounds: [Option<Bound<Value>>; 3], names: &str| {
        let mut bounds = bounds.into_iter().flatten();
        match (bounds.next(), bounds.next()) {
            (_, Some(_)) => Err(unsupported(format!(
                "[range] of [{path}] has more than one of {names}"
            ))),
            (bound, None) => Ok(bound.unwrap_or(Bound::Unbounded)),
        }
    };
    let lower = one(lower, "[gt], [gte] and [from]")?;
    let upper = one(upper, "[lt], [lte] and [to]")?;
    match dates(bounds, &lower, &upper, now)? {
        Some((lower, upper)) => either(path, |path| {
            Filter::Cast(Cast::Date, path.into(), lower.clone(), upper.clone())
        }),
        None => either(path, |path| {
            Filter::Range(path.into(), lower.clone(), upper.clone())
        }),
    }
}

/// `relation` is about fields whose values are ranges: a value that is in a range fulfils all of
/// them but one.
fn check_relation(bounds: &Object) -> Outcome<()> {
    let relation = match bounds.get("relation") {
        None | Some(Json::Null) => return Ok(()),
        Some(relation) => relation.as_str().unwrap_or_default().to_ascii_lowercase(),
    };
    match relation.as_str() {
        "intersects" | "within" | "contains" => Ok(()),
        other => Err(unsupported(format!(
            "[relation] of [range] is [intersects], [within] or [contains], not [{other}]"
        ))),
    }
}

/// The bounds of a range as text of ISO 8601, where it says how its dates are to be read. Those
/// that are milliseconds since 1970 already stay numbers, of which the field may be.
fn dates(
    bounds: &Object,
    lower: &Bound<Value>,
    upper: &Bound<Value>,
    now: i64,
) -> Outcome<Option<(Bound<Value>, Bound<Value>)>> {
    let how = |name: &str| match bounds.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => text(Some(value), &format!("[{name}] of [range] is text")).map(Some),
    };
    let (format, zone) = (how("format")?, how("time_zone")?);
    if format.is_none() && zone.is_none() {
        return Ok(None);
    }
    let reading = DateReading::of(format, zone, now);
    let reading = reading.map_err(|what| unsupported(format!("[range]: {what}")))?;
    let read = |bound: &Bound<Value>, is_lower: bool| -> Outcome<Bound<Value>> {
        let (value, is_included) = match bound {
            Bound::Unbounded => return Ok(Bound::Unbounded),
            Bound::Included(value) => (value, true),
            Bound::Excluded(value) => (value, false),
        };
        let said = value.as_str().map_or_else(|| value.to_string(), Into::into);
        let (first, last) = reading.ends(&said).ok_or_else(|| {
            let format = format.unwrap_or("strict_date_optional_time||epoch_millis");
            unsupported(format!(
                "failed to parse date field [{said}] with format [{format}]"
            ))
        })?;
        let is_first = is_lower == is_included;
        let at = match value.as_date_millis() {
            Some(millis) if value.as_str().is_none() && (first, last) == (millis, millis) => {
                value.clone()
            }
            _ => iso_text(&said, (first, last), is_first),
        };
        Ok(match is_included {
            true => Bound::Included(at),
            false => Bound::Excluded(at),
        })
    };
    Ok(Some((read(lower, true)?, read(upper, false)?)))
}

/// The first or the last moment of what a text names, from its first to its last millisecond.
fn iso_text(text: &str, (first, last): (i64, i64), is_first: bool) -> Value {
    const NANOS: i64 = 1_000_000;
    let exact = Value::from(text).as_date_nanos();
    let part = match exact.filter(|_| first == last && !is_date_math(text)) {
        Some(exact) => exact.rem_euclid(NANOS),
        None if is_first => 0,
        None => NANOS - 1,
    };
    let at = if is_first { first } else { last };
    let nanos = i128::from(at) * i128::from(NANOS) + i128::from(part);
    let moment = Timestamp::from_nanosecond(nanos).ok();
    let text = moment.map(|moment| format!("{moment:.9}"));
    // There is no text of a year before 0.
    let text = text.filter(|text| text.starts_with(|first: char| first.is_ascii_digit()));
    text.map_or_else(|| Value::from(at), |text| Value::from(text.as_str()))
}
