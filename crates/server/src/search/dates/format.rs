//! [`DateFormat`]: dates as text, by a pattern of Java or by a name of OpenSearch.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use quiredb::query::Value;
use std::fmt::Write;

/// How dates are written and read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DateFormat {
    /// `2026-01-31T12:00:00.000Z`, or with an offset.
    Iso,
    Millis,
    Seconds,
    Pattern(Vec<Part>),
}

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Part {
    Text(String),
    Year,
    Month,
    MonthName,
    Day,
    DayName,
    Hour,
    Minute,
    Second,
    /// This number of digits.
    Fraction(usize),
    /// Of the zone; `Z` for UTC if it is true.
    Offset(bool),
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl DateFormat {
    /// The format of a name or a pattern; of several with `||` between, the first.
    ///
    /// # Errors
    /// The part that is not known.
    pub(crate) fn parse(text: &str) -> Result<DateFormat, String> {
        let text = text.split("||").next().unwrap_or(text);
        let pattern = match text.strip_prefix("strict_").unwrap_or(text) {
            "date_optional_time" | "date_time" | "iso8601" => return Ok(DateFormat::Iso),
            "epoch_millis" => return Ok(DateFormat::Millis),
            "epoch_second" => return Ok(DateFormat::Seconds),
            "date" | "year_month_day" => "yyyy-MM-dd",
            "date_hour_minute_second" => "yyyy-MM-dd'T'HH:mm:ss",
            "date_time_no_millis" => "yyyy-MM-dd'T'HH:mm:ssXXX",
            "basic_date" => "yyyyMMdd",
            "year" => "yyyy",
            "year_month" => "yyyy-MM",
            "hour_minute_second" => "HH:mm:ss",
            _ => text,
        };
        parts(pattern).map(DateFormat::Pattern)
    }

    /// A moment, in milliseconds since 1970 UTC, as text.
    pub(crate) fn write(&self, millis: i64, zone: &TimeZone) -> String {
        let Ok(timestamp) = Timestamp::from_millisecond(millis) else {
            return millis.to_string();
        };
        let zoned = timestamp.to_zoned(zone.clone());
        let (local, offset) = (zoned.datetime(), zoned.offset().seconds());
        let mut out = String::new();
        // Writing to a string doesn't fail.
        match self {
            DateFormat::Millis => return millis.to_string(),
            DateFormat::Seconds => return millis.div_euclid(1000).to_string(),
            DateFormat::Iso => {
                let millisecond = millis.rem_euclid(1000);
                let (year, month, day) = (local.year(), local.month(), local.day());
                let (hour, minute, second) = (local.hour(), local.minute(), local.second());
                let _ = write!(
                    out,
                    "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.\
                     {millisecond:03}{}",
                    offset_text(offset, true)
                );
            }
            DateFormat::Pattern(parts) => {
                for part in parts {
                    write_part(part, local, offset, millis, &mut out);
                }
            }
        }
        out
    }

    /// The moment that a text is; by ISO 8601 where the format is none of its own.
    pub(crate) fn read(&self, text: &str, zone: &TimeZone) -> Option<i64> {
        match self {
            DateFormat::Millis => text.parse().ok(),
            DateFormat::Seconds => text.parse::<i64>().ok()?.checked_mul(1000),
            DateFormat::Pattern(parts) => read_parts(parts, text, zone).or_else(|| iso(text, zone)),
            DateFormat::Iso => iso(text, zone).or_else(|| text.parse().ok()),
        }
    }
}

/// A text of ISO 8601; without an offset it is local time.
fn iso(text: &str, zone: &TimeZone) -> Option<i64> {
    let millis = Value::from(text).as_date_millis()?;
    let time = text.split_once(['T', ' ']).map_or("", |(_, time)| time);
    match time.contains(['Z', 'z', '+', '-']) {
        true => Some(millis),
        false => {
            let local = Timestamp::from_millisecond(millis)
                .ok()?
                .to_zoned(TimeZone::UTC);
            let zoned = local.datetime().to_zoned(zone.clone()).ok()?;
            Some(zoned.timestamp().as_millisecond())
        }
    }
}

fn offset_text(seconds: i32, with_z: bool) -> String {
    if seconds == 0 && with_z {
        return "Z".into();
    }
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

fn write_part(part: &Part, local: DateTime, offset: i32, millis: i64, out: &mut String) {
    let name = |names: &[&str], place: i8| {
        let place = usize::try_from(place).unwrap_or_default();
        names.get(place).copied().unwrap_or_default().to_owned()
    };
    let text = match part {
        Part::Text(text) => text.clone(),
        Part::Year => format!("{:04}", local.year()),
        Part::Month => format!("{:02}", local.month()),
        Part::MonthName => name(&MONTHS, local.month() - 1),
        Part::Day => format!("{:02}", local.day()),
        Part::DayName => name(&DAYS, local.weekday().to_monday_zero_offset()),
        Part::Hour => format!("{:02}", local.hour()),
        Part::Minute => format!("{:02}", local.minute()),
        Part::Second => format!("{:02}", local.second()),
        Part::Fraction(digits) => {
            let all = format!("{:03}000000", millis.rem_euclid(1000));
            all.chars().take(*digits).collect()
        }
        Part::Offset(with_z) => offset_text(offset, *with_z),
    };
    out.push_str(&text);
}

fn parts(pattern: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = pattern.chars().peekable();
    while let Some(letter) = rest.next() {
        if letter == '\'' {
            let text: String = rest.by_ref().take_while(|next| *next != '\'').collect();
            parts.push(Part::Text(if text.is_empty() { "'".into() } else { text }));
            continue;
        }
        // Reserved by Java's formats of dates; in its formats of numbers these are digits.
        if ['#', '{', '}'].contains(&letter) {
            return Err(letter.into());
        }
        if !letter.is_ascii_alphabetic() {
            parts.push(Part::Text(letter.into()));
            continue;
        }
        let mut count = 1;
        while rest.next_if_eq(&letter).is_some() {
            count += 1;
        }
        parts.push(match (letter, count) {
            ('y' | 'u', 4) => Part::Year,
            ('M', 2) => Part::Month,
            ('M', 3) => Part::MonthName,
            ('d', 2) => Part::Day,
            ('E', 1..=3) => Part::DayName,
            ('H', 2) => Part::Hour,
            ('m', 2) => Part::Minute,
            ('s', 2) => Part::Second,
            ('S', 1..=9) => Part::Fraction(count),
            ('X', 3) => Part::Offset(true),
            ('x', 3) => Part::Offset(false),
            _ => return Err(letter.to_string().repeat(count)),
        });
    }
    Ok(parts)
}

fn read_parts(parts: &[Part], text: &str, zone: &TimeZone) -> Option<i64> {
    let mut rest = text;
    let (mut year, mut month, mut day) = (1970, 1, 1);
    let (mut hour, mut minute, mut second, mut nanos) = (0, 0, 0, 0);
    let mut offset = None;
    for part in parts {
        let mut digits = |count: usize| -> Option<i32> {
            let (number, after) = rest.split_at_checked(count)?;
            rest = after;
            number
                .bytes()
                .all(|b| b.is_ascii_digit())
                .then(|| number.parse().ok())?
        };
        match part {
            Part::Year => year = digits(4)?,
            Part::Month => month = digits(2)?,
            Part::Day => day = digits(2)?,
            Part::Hour => hour = digits(2)?,
            Part::Minute => minute = digits(2)?,
            Part::Second => second = digits(2)?,
            Part::Fraction(count) => {
                nanos = digits(*count)? * 10_i32.pow(9_u32.saturating_sub(*count as u32));
            }
            Part::Text(text) => rest = rest.strip_prefix(text.as_str())?,
            Part::MonthName => {
                let (name, after) = rest.split_at_checked(3)?;
                let place = MONTHS.iter().position(|month| *month == name)?;
                (month, rest) = (i32::try_from(place).ok()? + 1, after);
            }
            Part::DayName => rest = rest.split_at_checked(3)?.1,
            Part::Offset(_) => {
                let length = if rest.starts_with('Z') { 1 } else { 6 };
                let (text, after) = rest.split_at_checked(length)?;
                (offset, rest) = (Some(text), after);
            }
        }
    }
    if !rest.is_empty() {
        return None;
    }
    let small = |number: i32| i8::try_from(number).ok();
    let local = DateTime::new(
        i16::try_from(year).ok()?,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        nanos,
    );
    let local = local.ok()?;
    match offset {
        Some(offset) => format!("{local}{offset}").parse::<Timestamp>().ok(),
        None => local
            .to_zoned(zone.clone())
            .ok()
            .map(|zoned| zoned.timestamp()),
    }
    .map(Timestamp::as_millisecond)
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
            ("epoch_second", "1769859001"),
            ("yyyy-MM-dd", "2026-01-31"),
            ("dd/MMM/yyyy:HH:mm:ss XXX", "31/Jan/2026:13:30:01 +02:00"),
            ("yyyy-MM-dd'T'HH:mm:ss.SSS", "2026-01-31T13:30:01.234"),
            ("EEE HH", "Sat 13"),
        ] {
            let parsed = DateFormat::parse(format).unwrap();
            let written = parsed.write(millis, &zone);
            assert_eq!(written, text, "{format}");
            if !format.starts_with("EEE") {
                let read = parsed.read(&written, &zone).unwrap();
                assert_eq!(parsed.write(read, &zone), text, "{format}");
            }
        }
        assert_eq!(DateFormat::parse("yyyy ww"), Err("ww".into()));
        assert_eq!(DateFormat::parse("#.0"), Err("#".into()));
        let pattern = DateFormat::parse("yyyy-MM-dd").unwrap();
        assert_eq!(pattern.read("2026-02-30", &zone), None);
        assert_eq!(pattern.read("2026-01-01x", &zone), None);
    }
}
