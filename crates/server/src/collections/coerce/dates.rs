//! Ranges of dates. A document may have a date in any spelling, with any offset, or as a number.

use std::ops::Bound::{self, Excluded, Included, Unbounded};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use quiredb::query::{Cast, DateFormats, Filter, Path, Value};

use crate::http::failure::{Failure, Outcome};
use crate::search::dates::{DateReading, is_date_math};
use crate::search::filter::unsupported;

/// Nanoseconds of a millisecond.
const NANOS_PER_MILLI: i64 = 1_000_000;

/// An hour, in milliseconds.
const HOUR: i64 = 3_600_000;

/// The local time of a text is by less than this before or after UTC, in milliseconds.
const OFFSET_MAX: i64 = 26 * HOUR;

/// Dates between two bounds, by time. A bound with a part of a date is about all of that part:
/// `lte` 2026 is to the end of the year.
///
/// All texts of the field are dates. So those whose day is well between the bounds need no look:
/// they are found as texts, and only those near a bound are read as dates.
pub(crate) fn between(
    path: Path,
    lower: &Bound<Value>,
    upper: &Bound<Value>,
    now: i64,
) -> Outcome<Filter> {
    let lower = instant(lower, true, now)?;
    let upper = instant(upper, false, now)?;
    let cast = |lower: Bound<i64>, upper: Bound<i64>| {
        let (lower, upper) = (lower.map(Value::from), upper.map(Value::from));
        Filter::Cast(Cast::Date, path.clone(), lower, upper)
    };
    // The first and the last day of which every text is between the bounds.
    let first = match lower {
        Included(at) | Excluded(at) => day(at.saturating_add(OFFSET_MAX + 24 * HOUR)),
        Unbounded => Some("0000".to_owned()),
    };
    let end = match upper {
        Included(at) | Excluded(at) => day(at.saturating_sub(OFFSET_MAX + 24 * HOUR)),
        Unbounded => Some("9999\u{10ffff}".to_owned()),
    };
    let (Some(first), Some(end)) = (first, end) else {
        return Ok(cast(lower, upper));
    };
    if first >= end {
        return Ok(cast(lower, upper));
    }
    // Texts of earlier days than the first are of moments less than this after the lower bound.
    let near = 2 * OFFSET_MAX + 24 * HOUR;
    let texts = Filter::Range(
        path.clone(),
        Included(Value::from(first)),
        Excluded(Value::from(end)),
    );
    let mut any = vec![texts, numbers(&path, lower, upper)];
    if let Included(at) | Excluded(at) = lower {
        let last = at.saturating_add(near);
        let is_date = Timestamp::from_millisecond(last).is_ok();
        any.push(cast(
            lower,
            if is_date { Included(last) } else { Unbounded },
        ));
    }
    if let Included(at) | Excluded(at) = upper {
        any.push(cast(Included(at.saturating_sub(near)), upper));
    }
    Ok(Filter::Or(any))
}

/// Numbers of milliseconds between two bounds. A part of a millisecond is no part of a date.
fn numbers(path: &Path, lower: Bound<i64>, upper: Bound<i64>) -> Filter {
    let lower = match lower {
        Excluded(at) => Included(at.saturating_add(1)),
        Unbounded => Included(Timestamp::MIN.as_millisecond()),
        bound => bound,
    };
    let upper = match upper {
        Included(at) => Excluded(at.saturating_add(1)),
        Unbounded => Included(Timestamp::MAX.as_millisecond()),
        bound => bound,
    };
    Filter::Range(path.clone(), lower.map(Value::from), upper.map(Value::from))
}

/// The day of a moment in UTC, as texts of dates begin; none before the year 0 and after 9999.
fn day(millis: i64) -> Option<String> {
    let at = Timestamp::from_millisecond(millis).ok()?;
    let date = at.to_zoned(TimeZone::UTC).date();
    (date.year() >= 0).then(|| date.to_string())
}

/// Dates between two bounds, all read by formats.
pub(super) fn between_formatted(
    path: &Path,
    formats: &DateFormats,
    lower: &Bound<Value>,
    upper: &Bound<Value>,
    now: i64,
) -> Outcome<Filter> {
    let reading = DateReading::by(formats, now);
    let read = |bound: &Bound<Value>, is_lower: bool| {
        let value = match bound {
            Unbounded => return Ok(Unbounded),
            Included(value) | Excluded(value) => value,
        };
        let text = value.as_str().map_or_else(|| value.to_string(), Into::into);
        let ends = reading.ends(&text);
        let ends = ends.ok_or_else(|| no_date_of(value, formats.as_str()))?;
        Ok(end(bound, is_lower, ends).map(Value::from))
    };
    let (lower, upper) = (read(lower, true)?, read(upper, false)?);
    let cast = Cast::DateAs(formats.clone());
    Ok(Filter::Cast(cast, path.clone(), lower, upper))
}

/// Dates that are read by formats between two bounds, which are milliseconds or text of ISO 8601.
pub(super) fn between_as(
    path: &Path,
    formats: &DateFormats,
    lower: &Bound<Value>,
    upper: &Bound<Value>,
    now: i64,
) -> Outcome<Filter> {
    let lower = instant(lower, true, now)?.map(Value::from);
    let upper = instant(upper, false, now)?.map(Value::from);
    let cast = Cast::DateAs(formats.clone());
    Ok(Filter::Cast(cast, path.clone(), lower, upper))
}

/// Whether both bounds are numbers.
pub(super) fn are_millis(lower: &Bound<Value>, upper: &Bound<Value>) -> bool {
    [lower, upper].into_iter().all(|bound| match bound {
        Included(value) | Excluded(value) => value.as_f64().is_some(),
        Unbounded => true,
    })
}

/// The end of what a bound names, from its first to its last millisecond.
fn end(bound: &Bound<Value>, is_lower: bool, (first, last): (i64, i64)) -> Bound<i64> {
    match bound {
        Included(_) => Included(if is_lower { first } else { last }),
        Excluded(_) => Excluded(if is_lower { last } else { first }),
        Unbounded => Unbounded,
    }
}

/// A bound as milliseconds since 1970 UTC.
fn instant(bound: &Bound<Value>, is_lower: bool, now: i64) -> Outcome<Bound<i64>> {
    let value = match bound {
        Unbounded => return Ok(Unbounded),
        Included(value) | Excluded(value) => value,
    };
    let said = match value.as_str() {
        Some(text) => DateReading::usual(now).ends(&text),
        None => value.as_date_millis().map(|at| (at, at)),
    };
    let ends = said.ok_or_else(|| no_date_of(value, "strict_date_optional_time||epoch_millis"))?;
    Ok(end(bound, is_lower, ends))
}

fn no_date_of(value: &Value, formats: &str) -> Failure {
    let shown = value.as_str().map_or_else(|| value.to_string(), Into::into);
    unsupported(format!(
        "failed to parse date field [{shown}] with format [{formats}]"
    ))
}

/// Dates with parts of a millisecond between two bounds, by time. A bound with a part of a date is
/// about all of that part.
pub(super) fn nanos(
    path: Path,
    lower: &Bound<Value>,
    upper: &Bound<Value>,
    now: i64,
) -> Outcome<Filter> {
    let lower = nanosecond(lower, true, now)?.map(Value::from);
    let upper = nanosecond(upper, false, now)?.map(Value::from);
    Ok(Filter::Cast(Cast::Nanos, path, lower, upper))
}

/// A bound as nanoseconds since 1970 UTC. One of a time that these can't say is at their end.
fn nanosecond(bound: &Bound<Value>, is_lower: bool, now: i64) -> Outcome<Bound<i64>> {
    let (value, is_included) = match bound {
        Unbounded => return Ok(Unbounded),
        Included(value) => (value, true),
        Excluded(value) => (value, false),
    };
    let text = value.as_str();
    let exact = text.as_deref().and_then(|text| {
        let (first, last) = DateReading::usual(now).ends(text)?;
        let is_exact = first == last && !is_date_math(text);
        is_exact.then(|| Value::from(text).as_date_nanos())?
    });
    let nanos = match (exact, instant(bound, is_lower, now)?) {
        (Some(exact), _) => exact,
        (None, Included(at) | Excluded(at)) => {
            let first = at.saturating_mul(NANOS_PER_MILLI);
            match is_lower == is_included {
                true => first,
                false => first.saturating_add(NANOS_PER_MILLI - 1),
            }
        }
        (None, Unbounded) => return Ok(Unbounded),
    };
    Ok(match is_included {
        true => Included(nanos),
        false => Excluded(nanos),
    })
}
