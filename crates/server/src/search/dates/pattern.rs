//! Patterns of dates as Java writes them: `yyyy-MM-dd'T'HH:mm:ss.SSSX`.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, ISOWeekDate, Weekday};
use jiff::tz::{Offset, TimeZone};

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    Text(String),
    /// At least this number of digits, and no more where they are two or more.
    Number(Field, usize),
    MonthName,
    DayName,
    /// This number of digits.
    Fraction(usize),
    /// Of the zone.
    Offset(OffsetForm),
}

/// How an offset is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OffsetForm {
    /// UTC is `Z`.
    with_z: bool,
    /// Hours and minutes have a colon between.
    with_colon: bool,
    /// Minutes of 0 are left out.
    is_short: bool,
}

/// What a number of a pattern says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field {
    Year,
    /// The year that the week belongs to.
    WeekYear,
    Month,
    /// Of ISO 8601, from 1.
    Week,
    Day,
    DayOfYear,
    /// From 1, Monday.
    WeekDay,
    Hour,
    Minute,
    Second,
}

/// The shortest time that a text names: what it leaves out may be anything within.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grain {
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// The parts of a pattern.
///
/// # Errors
/// The part that is not known.
pub(super) fn parts(pattern: &str) -> Result<Vec<Part>, String> {
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
        let offset = |with_z, with_colon, is_short| {
            Part::Offset(OffsetForm {
                with_z,
                with_colon,
                is_short,
            })
        };
        parts.push(match (letter, count) {
            ('y' | 'u', 4) => Part::Number(Field::Year, 4),
            ('Y', 4) => Part::Number(Field::WeekYear, 4),
            ('M', 1 | 2) => Part::Number(Field::Month, count),
            ('M', 3) => Part::MonthName,
            ('d', 1 | 2) => Part::Number(Field::Day, count),
            ('D', 1 | 3) => Part::Number(Field::DayOfYear, count),
            ('w', 1 | 2) => Part::Number(Field::Week, count),
            ('e', 1) => Part::Number(Field::WeekDay, 1),
            ('E', 1..=3) => Part::DayName,
            ('H', 1 | 2) => Part::Number(Field::Hour, count),
            ('m', 1 | 2) => Part::Number(Field::Minute, count),
            ('s', 1 | 2) => Part::Number(Field::Second, count),
            ('S', 1..=9) => Part::Fraction(count),
            ('X' | 'x', 1..=3) => offset(letter == 'X', count == 3, count == 1),
            ('Z', 1..=3) => offset(false, false, false),
            ('Z', 5) => offset(true, true, false),
            _ => return Err(letter.to_string().repeat(count)),
        });
    }
    Ok(parts)
}

/// Appends a part of a local time, which is by `offset` seconds after UTC.
pub(super) fn write_part(part: &Part, local: DateTime, offset: i32, millis: i64, out: &mut String) {
    let name = |names: &[&str], place: i8| {
        let place = usize::try_from(place).unwrap_or_default();
        names.get(place).copied().unwrap_or_default().to_owned()
    };
    let text = match part {
        Part::Text(text) => text.clone(),
        Part::Number(field, digits) => {
            let week = local.date().iso_week_date();
            let number: i16 = match field {
                Field::Year => local.year(),
                Field::WeekYear => week.year(),
                Field::Month => local.month().into(),
                Field::Week => week.week().into(),
                Field::Day => local.day().into(),
                Field::DayOfYear => local.day_of_year(),
                Field::WeekDay => week.weekday().to_monday_one_offset().into(),
                Field::Hour => local.hour().into(),
                Field::Minute => local.minute().into(),
                Field::Second => local.second().into(),
            };
            format!("{number:0digits$}")
        }
        Part::MonthName => name(&MONTHS, local.month() - 1),
        Part::DayName => name(&DAYS, local.weekday().to_monday_zero_offset()),
        Part::Fraction(digits) => {
            let all = format!("{:03}000000", millis.rem_euclid(1000));
            all.chars().take(*digits).collect()
        }
        Part::Offset(form) => offset_text(offset, *form),
    };
    out.push_str(&text);
}

/// An offset in ISO 8601's long form.
pub(super) fn iso_offset(seconds: i32) -> String {
    let form = OffsetForm {
        with_z: true,
        with_colon: true,
        is_short: false,
    };
    offset_text(seconds, form)
}

fn offset_text(seconds: i32, form: OffsetForm) -> String {
    if seconds == 0 && form.with_z {
        return "Z".into();
    }
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    let (hours, minutes) = (minutes / 60, minutes % 60);
    match form.with_colon {
        true => format!("{sign}{hours:02}:{minutes:02}"),
        false if form.is_short && minutes == 0 => format!("{sign}{hours:02}"),
        false => format!("{sign}{hours:02}{minutes:02}"),
    }
}

/// The offset that a text begins with, in seconds, and what follows it.
fn read_offset(text: &str) -> Option<(i32, &str)> {
    if let Some(rest) = text.strip_prefix(['Z', 'z']) {
        return Some((0, rest));
    }
    let sign = match text.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let (hours, rest) = digits(text.get(1..)?, 2, 2)?;
    let after_colon = rest.strip_prefix(':').unwrap_or(rest);
    let (minutes, rest) = digits(after_colon, 2, 2).unwrap_or((0, rest));
    Some((sign * (hours * 3600 + minutes * 60), rest))
}

/// The number that a text begins with, of `least` to `most` digits, and what follows it.
fn digits(text: &str, least: usize, most: usize) -> Option<(i32, &str)> {
    let count = text.bytes().take(most).take_while(u8::is_ascii_digit);
    let count = count.count();
    let (number, rest) = text.split_at_checked(count)?;
    (count >= least).then(|| Some((number.parse().ok()?, rest)))?
}

/// What a text says, number by number.
#[derive(Default)]
struct Said {
    year: Option<i32>,
    week_year: Option<i32>,
    month: Option<i32>,
    week: Option<i32>,
    day: Option<i32>,
    day_of_year: Option<i32>,
    week_day: Option<i32>,
    hour: i32,
    minute: i32,
    second: i32,
    nanos: i32,
    offset: Option<i32>,
}

/// The moment that a text is by a pattern, in milliseconds since 1970 UTC, and its grain. Without
/// an offset it is local time.
pub(super) fn read_parts(parts: &[Part], text: &str, zone: &TimeZone) -> Option<(i64, Grain)> {
    let mut rest = text;
    let mut said = Said::default();
    let mut grain = Grain::Year;
    for part in parts {
        let named = match part {
            Part::Number(field, count) => {
                let most = match (field, *count) {
                    (Field::DayOfYear, 1) => 3,
                    (Field::WeekDay, _) => 1,
                    (_, 1) => 2,
                    (_, count) => count,
                };
                let (number, after) = digits(rest, *count, most)?;
                rest = after;
                said.set(*field, number)
            }
            Part::Fraction(count) => {
                let (number, after) = digits(rest, *count, *count)?;
                rest = after;
                said.nanos = number * 10_i32.pow(9_u32.saturating_sub(*count as u32));
                Grain::Millisecond
            }
            Part::Text(text) => {
                rest = rest.strip_prefix(text.as_str())?;
                continue;
            }
            Part::MonthName => {
                let (name, after) = rest.split_at_checked(3)?;
                let place = MONTHS.iter().position(|month| *month == name)?;
                rest = after;
                said.set(Field::Month, i32::try_from(place).ok()? + 1)
            }
            Part::DayName => {
                rest = rest.split_at_checked(3)?.1;
                continue;
            }
            Part::Offset(_) => {
                let (offset, after) = read_offset(rest)?;
                (said.offset, rest) = (Some(offset), after);
                continue;
            }
        };
        grain = grain.min(named);
    }
    if !rest.is_empty() {
        return None;
    }
    let local = said.local()?;
    let at = match said.offset {
        Some(seconds) => Offset::from_seconds(seconds)
            .ok()?
            .to_timestamp(local)
            .ok()?,
        None => local.to_zoned(zone.clone()).ok()?.timestamp(),
    };
    Some((Timestamp::as_millisecond(at), grain))
}

impl Said {
    fn set(&mut self, field: Field, number: i32) -> Grain {
        let (place, grain) = match field {
            Field::Hour => {
                self.hour = number;
                return Grain::Hour;
            }
            Field::Minute => {
                self.minute = number;
                return Grain::Minute;
            }
            Field::Second => {
                self.second = number;
                return Grain::Second;
            }
            Field::Year => (&mut self.year, Grain::Year),
            Field::WeekYear => (&mut self.week_year, Grain::Year),
            Field::Month => (&mut self.month, Grain::Month),
            Field::Week => (&mut self.week, Grain::Week),
            Field::Day => (&mut self.day, Grain::Day),
            Field::DayOfYear => (&mut self.day_of_year, Grain::Day),
            Field::WeekDay => (&mut self.week_day, Grain::Day),
        };
        *place = Some(number);
        grain
    }

    fn local(&self) -> Option<DateTime> {
        let small = |number: i32| i8::try_from(number).ok();
        let first = |number: Option<i32>| small(number.unwrap_or(1));
        let date = match (self.week_year, self.day_of_year) {
            (Some(year), _) => {
                let day = Weekday::from_monday_one_offset(first(self.week_day)?).ok()?;
                let week = first(self.week)?;
                ISOWeekDate::new(i16::try_from(year).ok()?, week, day)
                    .ok()?
                    .date()
            }
            (None, day) => {
                let year = i16::try_from(self.year.unwrap_or(1970)).ok()?;
                match day {
                    Some(day) => {
                        let start = Date::new(year, 1, 1).ok()?;
                        let day = i16::try_from(day).ok()?;
                        start.with().day_of_year(day).build().ok()?
                    }
                    None => Date::new(year, first(self.month)?, first(self.day)?).ok()?,
                }
            }
        };
        let (hour, minute) = (small(self.hour)?, small(self.minute)?);
        let time = jiff::civil::Time::new(hour, minute, small(self.second)?, self.nanos).ok()?;
        Some(date.to_datetime(time))
    }
}
