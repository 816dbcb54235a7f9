//! Ranges of dates. A document may have a date in any spelling, with any offset, or as a number.

use std::ops::Bound::{self, Excluded, Included, Unbounded};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use quiredb::query::{Cast, Filter, Path, Value};

use crate::http::failure::{Failure, Outcome};
use crate::search::dates::{DateFormat, DateReading, Moment, is_date_math, moment};
use crate::search::filter::unsupported;

/// Follows every text that begins with what is before it.
const AFTER_ALL: char = '\u{10ffff}';

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

/// A bound as milliseconds since 1970 UTC.
fn instant(bound: &Bound<Value>, is_lower: bool, now: i64) -> Outcome<Bound<i64>> {
    let (value, is_included) = match bound {
        Unbounded => return Ok(Unbounded),
        Included(value) => (value, true),
        Excluded(value) => (value, false),
    };
    let said = match value.as_str() {
        Some(text) => DateReading::usual(now).ends(&text),
        None => value.as_date_millis().map(|at| (at, at)),
    };
    let (first, last) = said.ok_or_else(|| no_date(value))?;
    let at = if is_lower == is_included { first } else { last };
    Ok(match is_included {
        true => Included(at),
        false => Excluded(at),
    })
}

fn no_date(value: &Value) -> Failure {
    let shown = value.as_str().map_or_else(|| value.to_string(), Into::into);
    unsupported(format!(
        "failed to parse date field [{shown}] with format \
         [strict_date_optional_time||epoch_millis]"
    ))
}

/// A bound with its date math computed.
fn computed(bound: &Bound<Value>, is_lower: bool, now: i64) -> Outcome<Bound<Value>> {
    let is_excluded = matches!(bound, Excluded(_));
    let computed = |value: &Value| -> Outcome<Value> {
        let text = value.as_str();
        let Some(text) = text.as_deref().filter(|text| is_date_math(text)) else {
            return Ok(value.clone());
        };
        let how = Moment {
            now,
            format: &DateFormat::ISO,
            zone: "UTC",
            is_rounded_up: is_lower == is_excluded,
        };
        let millis = moment(text, &how).and_then(|at| Timestamp::from_millisecond(at).ok());
        let at = millis.ok_or_else(|| no_date(value))?;
        Ok(Value::from(at.to_string().as_str()))
    };
    Ok(match bound {
        Included(value) => Included(computed(value)?),
        Excluded(value) => Excluded(computed(value)?),
        Unbounded => Unbounded,
    })
}

/// Dates with parts of a millisecond between two bounds: texts by their letters, which orders those
/// of one spelling, and numbers of milliseconds.
pub(super) fn nanos(
    path: Path,
    lower: &Bound<Value>,
    upper: &Bound<Value>,
    now: i64,
) -> Outcome<Filter> {
    let (lower, upper) = (computed(lower, true, now)?, computed(upper, false, now)?);
    let of_numbers = numbers(
        &path,
        instant(&lower, true, now)?,
        instant(&upper, false, now)?,
    );
    let of_text = Filter::Range(path, text(&lower, true), text(&upper, false));
    Ok(of_text.or(of_numbers))
}

fn text(bound: &Bound<Value>, is_lower: bool) -> Bound<Value> {
    let whole = |value: &Value| match value.as_str() {
        Some(text) if is_part(&text) => Value::from(format!("{text}{AFTER_ALL}").as_str()),
        _ => value.clone(),
    };
    match bound {
        Included(value) if !is_lower => Included(whole(value)),
        Excluded(value) if is_lower => Excluded(whole(value)),
        bound => bound.clone(),
    }
}

/// Whether a text is a date without a minute or a second.
fn is_part(text: &str) -> bool {
    matches!(text.len(), 4 | 7 | 10 | 13 | 16)
}
