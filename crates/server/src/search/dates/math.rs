//! Date math: `now-1d/d`, `2026-01-01||+1M/d`.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use quiredb::query::{CalendarUnit, DateFormat, Rounding};

/// How a moment is read.
pub(crate) struct Moment<'a> {
    /// The current time, in milliseconds since 1970 UTC.
    pub(crate) now: i64,
    pub(crate) format: &'a DateFormat,
    /// The name of the time zone.
    pub(crate) zone: &'a str,
    /// Rounding gives the last millisecond of a unit, and not the first.
    pub(crate) is_rounded_up: bool,
}

/// Whether a text is relative to another date.
pub(crate) fn is_date_math(text: &str) -> bool {
    let rest = text.strip_prefix("now");
    let is_now = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', '-', '/']));
    is_now || text.contains("||")
}

/// The moment that a text says, in milliseconds since 1970 UTC; none if it says none.
pub(crate) fn moment(text: &str, how: &Moment<'_>) -> Option<i64> {
    let zone = Rounding::calendar(CalendarUnit::Day, how.zone)?
        .zone()
        .clone();
    let (start, math) = match text.split_once("||") {
        Some((date, math)) => (how.format.read(date, &zone)?, math),
        None if is_date_math(text) => (how.now, text.strip_prefix("now")?),
        None => (how.format.read(text, &zone)?, ""),
    };
    let mut at = start;
    let mut rest = math;
    while let Some(operation) = rest.chars().next() {
        rest = rest.get(1..)?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        let unit = after.chars().next()?;
        rest = after.get(1..)?;
        let number: i64 = if number.is_empty() {
            1
        } else {
            number.parse().ok()?
        };
        at = match operation {
            '+' => plus(at, number, unit, &zone)?,
            '-' => plus(at, -number, unit, &zone)?,
            '/' if digits == 0 => rounded(at, unit, how)?,
            _ => return None,
        };
    }
    Some(at)
}

fn rounded(at: i64, unit: char, how: &Moment<'_>) -> Option<i64> {
    let rounding = match unit {
        's' => Rounding::fixed(1000, how.zone),
        'm' => Rounding::calendar(CalendarUnit::Minute, how.zone),
        'h' | 'H' => Rounding::calendar(CalendarUnit::Hour, how.zone),
        'd' => Rounding::calendar(CalendarUnit::Day, how.zone),
        'w' => Rounding::calendar(CalendarUnit::Week, how.zone),
        'M' => Rounding::calendar(CalendarUnit::Month, how.zone),
        'y' => Rounding::calendar(CalendarUnit::Year, how.zone),
        _ => None,
    }?;
    let start = rounding.start(at)?;
    match how.is_rounded_up {
        true => Some(rounding.next(start)? - 1),
        false => Some(start),
    }
}

fn plus(at: i64, number: i64, unit: char, zone: &TimeZone) -> Option<i64> {
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' | 'H' => 3600,
        _ => return plus_days(at, number, unit, zone),
    };
    at.checked_add(number.checked_mul(seconds * 1000)?)
}

/// At the same time of a later day.
fn plus_days(at: i64, number: i64, unit: char, zone: &TimeZone) -> Option<i64> {
    let local = Timestamp::from_millisecond(at)
        .ok()?
        .to_zoned(zone.clone())
        .datetime();
    let date = match unit {
        'd' => later(local.date(), number)?,
        'w' => later(local.date(), number.checked_mul(7)?)?,
        'M' => months_later(local.date(), number)?,
        'y' => months_later(local.date(), number.checked_mul(12)?)?,
        _ => return None,
    };
    let local = DateTime::from_parts(date, local.time());
    Some(
        local
            .to_zoned(zone.clone())
            .ok()?
            .timestamp()
            .as_millisecond(),
    )
}

fn later(date: Date, days: i64) -> Option<Date> {
    let hours = SignedDuration::from_hours(days.checked_mul(24).filter(|h| h.abs() < 1 << 40)?);
    date.checked_add(hours).ok()
}

/// The same day of a later month, or its last day.
fn months_later(date: Date, months: i64) -> Option<Date> {
    let month = i64::from(date.year()) * 12 + i64::from(date.month()) - 1;
    let month = month.checked_add(months)?;
    let year = i16::try_from(month.div_euclid(12)).ok()?;
    let first = Date::new(year, i8::try_from(month.rem_euclid(12) + 1).ok()?, 1).ok()?;
    Date::new(year, first.month(), date.day().min(first.days_in_month())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_math_is_computed() {
        let millis = |text: &str| text.parse::<Timestamp>().unwrap().as_millisecond();
        let now = millis("2026-03-31T10:20:30.5Z");
        let at = |text: &str, zone: &str, is_rounded_up: bool| {
            let format = &DateFormat::ISO;
            moment(
                text,
                &Moment {
                    now,
                    format,
                    zone,
                    is_rounded_up,
                },
            )
        };
        for (text, zone, up, expected) in [
            ("now", "UTC", false, "2026-03-31T10:20:30.5Z"),
            ("now-1d/d", "UTC", false, "2026-03-30T00:00:00Z"),
            ("now/d", "UTC", true, "2026-03-31T23:59:59.999Z"),
            ("now/d", "Europe/Berlin", false, "2026-03-30T22:00:00Z"),
            ("now-1M", "UTC", false, "2026-02-28T10:20:30.5Z"),
            ("now+1h+30m", "UTC", false, "2026-03-31T11:50:30.5Z"),
            ("2026-01-01||/M", "UTC", false, "2026-01-01T00:00:00Z"),
            ("2024-02-29||+1y", "UTC", false, "2025-02-28T00:00:00Z"),
            ("2026-01-01", "+02:00", false, "2025-12-31T22:00:00Z"),
            ("now/w", "UTC", false, "2026-03-30T00:00:00Z"),
        ] {
            assert_eq!(at(text, zone, up), Some(millis(expected)), "{text} {zone}");
        }
        for refused in [
            "now-", "now-1", "now-1x", "now/2d", "then", "now||", "now*2d", "x||/d",
        ] {
            assert_eq!(at(refused, "UTC", false), None, "{refused}");
        }
        assert_eq!(at("now+99999999999999999y", "UTC", false), None);
    }
}
