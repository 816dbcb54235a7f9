//! Dates in documents: text of ISO 8601, and numbers of milliseconds since 1970 UTC; or what the
//! formats of a field say.

mod format;
mod formats;
mod pattern;

use crate::Value;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use quire_model::ordered::OrderedValue;

pub use format::DateFormat;
pub(crate) use format::NANOS_PER_MILLI;
pub use formats::DateFormats;
pub use pattern::DateGrain;

/// The milliseconds since 1970 UTC that a value says; none if it is no date.
///
/// Text is a year, a month, a day, or a day and a time with or without an offset (UTC then), such
/// as `2026`, `2026-01`, `2026-01-31`, `2026-01-31T12:00` and `2026-01-31T12:00:00.5+02:00`.
pub(crate) fn millis_of(value: &OrderedValue<'_>) -> Option<i64> {
    let millis = match value {
        OrderedValue::Int(millis) => *millis,
        OrderedValue::UInt(millis) => i64::try_from(*millis).ok()?,
        // A part of a millisecond is cut off.
        OrderedValue::Float(millis) if millis.abs() < 1e15 => millis.floor() as i64,
        OrderedValue::String(text) => return millis_of_text(text),
        _ => return None,
    };
    let timestamp = Timestamp::from_millisecond(millis).ok()?;
    Some(timestamp.as_millisecond())
}

impl Value {
    /// The milliseconds since 1970 UTC that it says, if it is a date: text of ISO 8601, or a number
    /// of milliseconds.
    #[must_use]
    pub fn as_date_millis(&self) -> Option<i64> {
        millis_of(&self.get())
    }

    /// The nanoseconds since 1970 UTC that it says, if it is a date of the years 1678 to 2261: text
    /// of ISO 8601, or a number of milliseconds.
    #[must_use]
    pub fn as_date_nanos(&self) -> Option<i64> {
        nanos_of(&self.get())
    }
}

/// The nanoseconds since 1970 UTC that a value says, as [`millis_of`]; none if it is no date, or
/// one before 1677 or after 2262.
pub(crate) fn nanos_of(value: &OrderedValue<'_>) -> Option<i64> {
    match value {
        OrderedValue::String(text) => i64::try_from(moment_of_text(text)?.as_nanosecond()).ok(),
        _ => millis_of(value)?.checked_mul(NANOS_PER_MILLI),
    }
}

fn millis_of_text(text: &str) -> Option<i64> {
    moment_of_text(text).map(Timestamp::as_millisecond)
}

fn moment_of_text(text: &str) -> Option<Timestamp> {
    let is_start = |text: &str| text.bytes().take(4).all(|byte| byte.is_ascii_digit());
    // The libraries read other forms too, such as durations and names of zones.
    if text.len() < 4 || text.len() > 40 || !is_start(text) || text.contains('[') {
        return None;
    }
    let date = match text.len() {
        4 => Date::new(text.parse().ok()?, 1, 1)
            .ok()?
            .to_datetime(Default::default()),
        7 => format!("{text}-01").parse().ok()?,
        _ => {
            if let Ok(timestamp) = text.parse::<Timestamp>() {
                return Some(timestamp);
            }
            text.parse::<DateTime>().ok()?
        }
    };
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn dates_are_read_and_other_values_are_not() {
        for (text, expected) in [
            ("1970", Some(0)),
            ("1970-01", Some(0)),
            ("1970-01-02", Some(86_400_000)),
            ("1970-01-01T01", Some(3_600_000)),
            ("1970-01-01T00:01", Some(60_000)),
            ("1970-01-01T00:00:01.5Z", Some(1_500)),
            ("1970-01-01T01:00:00+01:00", Some(0)),
            ("1969-12-31T23:59:59.999Z", Some(-1)),
            ("1970-01-01 00:00:02", Some(2_000)),
            ("", None),
            ("19700", None),
            ("1970-13", None),
            ("1970-02-30", None),
            ("yesterday", None),
            ("1970-01-01T25:00", None),
            ("1970-01-01T00:00[Europe/Berlin]", None),
        ] {
            let value = OrderedValue::String(Cow::Borrowed(text));
            assert_eq!(millis_of(&value), expected, "{text}");
        }
        let nanos = |text: &str| Value::from(text).as_date_nanos();
        assert_eq!(nanos("1970-01-01T00:00:01.000000002Z"), Some(1_000_000_002));
        assert_eq!(nanos("1970-01-01T00:00:00.5+00:00"), Some(500_000_000));
        assert_eq!((nanos("2300-01-01"), nanos("x")), (None, None));
        assert_eq!(Value::from(2).as_date_nanos(), Some(2_000_000));
        assert_eq!(millis_of(&OrderedValue::Int(-5)), Some(-5));
        assert_eq!(millis_of(&OrderedValue::Float(1.9)), Some(1));
        assert_eq!(millis_of(&OrderedValue::UInt(u64::MAX)), None);
        assert_eq!(millis_of(&OrderedValue::Bool(true)), None);
    }
}
