//! [`DateFormat`]: dates as text, by a pattern of Java or by a name of OpenSearch.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt::Write;

use super::pattern::{DateGrain, Part, iso_offset, parts, read_parts, write_part};
use crate::Value;

/// Nanoseconds of a millisecond.
pub(crate) const NANOS_PER_MILLI: i64 = 1_000_000;

/// The longest text that a pattern reads. The longest pattern is bounded by the request.
const TEXT_MAX: usize = 256;

/// How dates are written and read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateFormat(Form);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Form {
    /// `2026-01-31T12:00:00.000Z`, or with an offset.
    Iso,
    /// The same with all digits of the second that are not 0, three at least.
    IsoNanos,
    Millis,
    Seconds,
    Pattern(Vec<Part>),
}

/// The names of OpenSearch's formats and their patterns; each has a name with `strict_` too.
const NAMED: [(&str, &str); 43] = [
    ("date", "yyyy-MM-dd"),
    ("year_month_day", "yyyy-MM-dd"),
    ("year_month", "yyyy-MM"),
    ("year", "yyyy"),
    ("date_hour", "yyyy-MM-dd'T'HH"),
    ("date_hour_minute", "yyyy-MM-dd'T'HH:mm"),
    ("date_hour_minute_second", "yyyy-MM-dd'T'HH:mm:ss"),
    (
        "date_hour_minute_second_fraction",
        "yyyy-MM-dd'T'HH:mm:ss.SSS",
    ),
    (
        "date_hour_minute_second_millis",
        "yyyy-MM-dd'T'HH:mm:ss.SSS",
    ),
    ("date_time", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"),
    ("date_time_no_millis", "yyyy-MM-dd'T'HH:mm:ssXXX"),
    ("ordinal_date", "yyyy-DDD"),
    ("ordinal_date_time", "yyyy-DDD'T'HH:mm:ss.SSSXXX"),
    ("ordinal_date_time_no_millis", "yyyy-DDD'T'HH:mm:ssXXX"),
    ("week_date", "YYYY-'W'ww-e"),
    ("week_date_time", "YYYY-'W'ww-e'T'HH:mm:ss.SSSXXX"),
    ("week_date_time_no_millis", "YYYY-'W'ww-e'T'HH:mm:ssXXX"),
    ("weekyear", "YYYY"),
    ("week_year", "YYYY"),
    ("weekyear_week", "YYYY-'W'ww"),
    ("weekyear_week_day", "YYYY-'W'ww-e"),
    ("hour", "HH"),
    ("hour_minute", "HH:mm"),
    ("hour_minute_second", "HH:mm:ss"),
    ("hour_minute_second_fraction", "HH:mm:ss.SSS"),
    ("hour_minute_second_millis", "HH:mm:ss.SSS"),
    ("time", "HH:mm:ss.SSSXXX"),
    ("time_no_millis", "HH:mm:ssXXX"),
    ("t_time", "'T'HH:mm:ss.SSSXXX"),
    ("t_time_no_millis", "'T'HH:mm:ssXXX"),
    ("basic_date", "yyyyMMdd"),
    ("basic_date_time", "yyyyMMdd'T'HHmmss.SSSXX"),
    ("basic_date_time_no_millis", "yyyyMMdd'T'HHmmssXX"),
    ("basic_ordinal_date", "yyyyDDD"),
    ("basic_ordinal_date_time", "yyyyDDD'T'HHmmss.SSSXX"),
    ("basic_ordinal_date_time_no_millis", "yyyyDDD'T'HHmmssXX"),
    ("basic_time", "HHmmss.SSSXX"),
    ("basic_time_no_millis", "HHmmssXX"),
    ("basic_t_time", "'T'HHmmss.SSSXX"),
    ("basic_t_time_no_millis", "'T'HHmmssXX"),
    ("basic_week_date", "YYYY'W'wwe"),
    ("basic_week_date_time", "YYYY'W'wwe'T'HHmmss.SSSXX"),
    ("basic_week_date_time_no_millis", "YYYY'W'wwe'T'HHmmssXX"),
];

impl DateFormat {
    /// ISO 8601.
    pub const ISO: DateFormat = DateFormat(Form::Iso);

    /// Milliseconds since 1970 UTC.
    pub const MILLIS: DateFormat = DateFormat(Form::Millis);

    /// The format of a name or a pattern; of several with `||` between, the first.
    ///
    /// # Errors
    /// The part that is not known.
    pub fn parse(text: &str) -> Result<DateFormat, String> {
        let text = text.split("||").next().unwrap_or(text);
        let name = text.strip_prefix("strict_").unwrap_or(text);
        Ok(DateFormat(match name {
            "date_optional_time" | "iso8601" | "rfc3339_lenient" => Form::Iso,
            "date_optional_time_nanos" => Form::IsoNanos,
            "epoch_millis" => Form::Millis,
            "epoch_second" => Form::Seconds,
            name => {
                let mut named = NAMED.into_iter();
                let pattern = named.find(|(of, _)| *of == name);
                Form::Pattern(parts(pattern.map_or(text, |(_, pattern)| pattern))?)
            }
        }))
    }

    /// ISO 8601 with nanoseconds.
    pub const ISO_NANOS: DateFormat = DateFormat(Form::IsoNanos);

    /// A moment, in milliseconds since 1970 UTC, as text.
    #[must_use]
    pub fn write(&self, millis: i64, zone: &TimeZone) -> String {
        self.write_part(millis, 0, zone)
    }

    /// A moment, in nanoseconds since 1970 UTC, as text.
    #[must_use]
    pub fn write_nanos(&self, nanos: i64, zone: &TimeZone) -> String {
        let part = nanos.rem_euclid(NANOS_PER_MILLI) as u32;
        self.write_part(nanos.div_euclid(NANOS_PER_MILLI), part, zone)
    }

    /// `part` is the nanoseconds after the millisecond.
    fn write_part(&self, millis: i64, part: u32, zone: &TimeZone) -> String {
        let Ok(timestamp) = Timestamp::from_millisecond(millis) else {
            return millis.to_string();
        };
        let zoned = timestamp.to_zoned(zone.clone());
        let (local, offset) = (zoned.datetime(), zoned.offset().seconds());
        let mut out = String::new();
        // Writing to a string doesn't fail.
        match &self.0 {
            Form::Millis if part == 0 => return millis.to_string(),
            Form::Millis => {
                let _ = write!(out, "{millis}.{part:06}");
                out.truncate(out.trim_end_matches('0').len());
            }
            Form::Seconds => {
                let (seconds, fraction) =
                    (millis.unsigned_abs() / 1000, millis.unsigned_abs() % 1000);
                let sign = if millis < 0 { "-" } else { "" };
                let _ = write!(out, "{sign}{seconds}");
                if fraction > 0 {
                    let _ = write!(out, ".{fraction:03}");
                    out.truncate(out.trim_end_matches('0').len());
                }
            }
            Form::Iso | Form::IsoNanos => {
                let millisecond = millis.rem_euclid(1000);
                let mut fraction = format!("{millisecond:03}");
                if self.0 == Form::IsoNanos && part > 0 {
                    let _ = write!(fraction, "{part:06}");
                    fraction.truncate(fraction.trim_end_matches('0').len().max(3));
                }
                let (year, month, day) = (local.year(), local.month(), local.day());
                let (hour, minute, second) = (local.hour(), local.minute(), local.second());
                let _ = write!(
                    out,
                    "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.\
                     {fraction}{}",
                    iso_offset(offset)
                );
            }
            Form::Pattern(parts) => {
                for one in parts {
                    write_part(one, local, offset, (millis, part), &mut out);
                }
            }
        }
        out
    }

    /// The moment that a text is; by ISO 8601 where the format is none of its own.
    #[must_use]
    pub fn read(&self, text: &str, zone: &TimeZone) -> Option<i64> {
        let own = self.read_grain(text, zone);
        let own = own.or_else(|| match &self.0 {
            Form::Pattern(_) => iso(text, zone),
            Form::Iso | Form::IsoNanos => DateFormat::MILLIS.read_grain(text, zone),
            Form::Millis | Form::Seconds => None,
        });
        own.map(|(millis, _)| millis)
    }

    /// The moment that a text of this format is, in milliseconds since 1970 UTC, and its grain.
    #[must_use]
    pub fn read_grain(&self, text: &str, zone: &TimeZone) -> Option<(i64, DateGrain)> {
        if text.len() > TEXT_MAX {
            return None;
        }
        match &self.0 {
            Form::Millis => {
                // A part of a millisecond is cut off.
                let (millis, _) = decimal(text)?;
                Some((millis, DateGrain::Millisecond))
            }
            Form::Seconds => {
                let (seconds, fraction) = decimal(text)?;
                let Some(digits) = fraction else {
                    return Some((seconds.checked_mul(1000)?, DateGrain::Second));
                };
                let first = format!("{digits:0<3}").get(..3)?.parse::<i64>().ok()?;
                let is_before = text.starts_with('-');
                let millis = seconds.checked_mul(1000)?;
                let millis = millis.checked_add(if is_before { -first } else { first })?;
                Some((millis, DateGrain::Millisecond))
            }
            Form::Pattern(parts) => read_parts(parts, text, zone),
            Form::Iso | Form::IsoNanos => iso(text, zone),
        }
    }
}

/// The whole part of a decimal number, and the digits after its point.
fn decimal(text: &str) -> Option<(i64, Option<&str>)> {
    let (whole, fraction) = match text.split_once('.') {
        None => (text, None),
        Some((whole, fraction)) => (whole, Some(fraction)),
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
    let is_number = is_digits(whole.strip_prefix('-').unwrap_or(whole));
    if !is_number || fraction.is_some_and(|fraction| !is_digits(fraction)) {
        return None;
    }
    Some((whole.parse().ok()?, fraction))
}

/// A text of ISO 8601; without an offset it is local time.
fn iso(text: &str, zone: &TimeZone) -> Option<(i64, DateGrain)> {
    let millis = Value::from(text).as_date_millis()?;
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, ""));
    let (time, has_offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(end) => (time.get(..end)?, true),
        None => (time, false),
    };
    let grain = match (date.len(), time.matches(':').count()) {
        (4, _) => DateGrain::Year,
        (7, _) => DateGrain::Month,
        _ if time.is_empty() => DateGrain::Day,
        _ if time.contains(['.', ',']) => DateGrain::Millisecond,
        (_, 0) => DateGrain::Hour,
        (_, 1) => DateGrain::Minute,
        _ => DateGrain::Second,
    };
    if has_offset {
        return Some((millis, grain));
    }
    let local = Timestamp::from_millisecond(millis)
        .ok()?
        .to_zoned(TimeZone::UTC);
    let zoned = local.datetime().to_zoned(zone.clone()).ok()?;
    Some((zoned.timestamp().as_millisecond(), grain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_and_read_by_patterns() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let millis = 1_769_859_001_234; // 2026-01-31T11:30:01.234Z
        for (format, text) in [
            ("strict_date_optional_time", "2026-01-31T13:30:01.234+02:00"),
            ("epoch_millis", "1769859001234"),
            ("epoch_second", "1769859001.234"),
            ("yyyy-MM-dd", "2026-01-31"),
            ("dd/MMM/yyyy:HH:mm:ss XXX", "31/Jan/2026:13:30:01 +02:00"),
            ("yyyy-MM-dd'T'HH:mm:ss.SSS", "2026-01-31T13:30:01.234"),
            ("EEE HH", "Sat 13"),
            ("yyyy/MM/dd HH:mm:ss Z", "2026/01/31 13:30:01 +0200"),
            ("d.M.yyyy H:m X", "31.1.2026 13:30 +02"),
            ("strict_date_time_no_millis", "2026-01-31T13:30:01+02:00"),
            ("basic_date_time", "20260131T133001.234+0200"),
            ("ordinal_date", "2026-031"),
            ("basic_week_date", "2026W056"),
            ("strict_weekyear_week", "2026-W05"),
            (
                "yyyy/MM/dd hh:mm:ss.SSS a XX",
                "2026/01/31 01:30:01.234 PM +0200",
            ),
            (
                "EEEE, d MMMM y 'at' k:mm",
                "Saturday, 31 January 2026 at 13:30",
            ),
            ("yy.M.d''K a", "26.1.31'1 PM"),
        ] {
            let parsed = DateFormat::parse(format).unwrap();
            let written = parsed.write(millis, &zone);
            assert_eq!(written, text, "{format}");
            if !format.starts_with("EEE") {
                let read = parsed.read(&written, &zone).unwrap();
                assert_eq!(parsed.write(read, &zone), text, "{format}");
            }
        }
        assert_eq!(DateFormat::parse("yyyy QQ"), Err("QQ".into()));
        for (format, part) in [
            ("#.0", "#"),
            ("yyyy[-MM]", "["),
            ("yyyy-MM-dd z", "z"),
            ("yyyy MMMMM", "MMMMM"),
            ("yyyy-MM-dd hh:mm", "h without a"),
        ] {
            assert_eq!(DateFormat::parse(format), Err(part.into()), "{format}");
        }
        for (format, text) in [
            ("EEE dd.MM.yyyy", "Fri 31.01.2026"),
            ("hh a", "13 PM"),
            ("hh a", "00 AM"),
            ("hh a", "11 pm"),
            ("kk", "00"),
            ("epoch_second", "1.5.5"),
            ("epoch_second", "1."),
            ("epoch_second", "9223372036854775807"),
            ("epoch_millis", "1e3"),
        ] {
            let format = DateFormat::parse(format).unwrap();
            assert_eq!(format.read_grain(text, &zone), None, "{text}");
        }
        let seconds = DateFormat::parse("epoch_second").unwrap();
        assert_eq!(seconds.read("-1.25", &zone), Some(-1250));
        assert_eq!(seconds.write(-1250, &zone), "-1.25");
        let nanos = millis * 1_000_000 + 567_890;
        for (format, text) in [
            (
                "strict_date_optional_time_nanos",
                "2026-01-31T13:30:01.23456789+02:00",
            ),
            ("strict_date_optional_time", "2026-01-31T13:30:01.234+02:00"),
            ("HH:mm:ss.SSSSSSSSS", "13:30:01.234567890"),
            ("epoch_millis", "1769859001234.56789"),
        ] {
            let format = DateFormat::parse(format).unwrap();
            assert_eq!(format.write_nanos(nanos, &zone), text);
        }
        let pattern = DateFormat::parse("yyyy-MM-dd").unwrap();
        assert_eq!(pattern.read("2026-02-30", &zone), None);
        assert_eq!(pattern.read("2026-01-01x", &zone), None);
    }
}
