//! Patterns of dates as Java writes them: `yyyy-MM-dd'T'HH:mm:ss.SSSX`.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, ISOWeekDate, Weekday};
use jiff::tz::{Offset, TimeZone};

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    /// At least this number of digits, and no more where they are two or more.
    Number(Field, usize),
    /// Two digits of a year from 2000 to 2099.
    ShortYear,
    /// The whole name, or its first three letters.
    MonthName(bool),
    DayName(bool),
    /// `AM` or `PM`.
    Half,
    /// This number of digits.
    Fraction(usize),
    /// Of the zone.
    Offset(OffsetForm),
}

/// How an offset is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffsetForm {
    /// UTC is `Z`.
    with_z: bool,
    /// Hours and minutes have a colon between.
    with_colon: bool,
    /// Minutes of 0 are left out.
    is_short: bool,
}

/// What a number of a pattern says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Of a day, from 1 to 24, which is midnight.
    ClockHour,
    /// Of a half of a day, from 0 to 11.
    HalfHour,
    /// Of a half of a day, from 1 to 12, where it begins.
    HalfClockHour,
    Minute,
    Second,
}

/// The shortest time that a text names: what it leaves out may be anything within.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DateGrain {
    /// It has a part of a second.
    Millisecond,
    /// It ends with a second.
    Second,
    /// It ends with a minute.
    Minute,
    /// It ends with an hour, or a half of a day.
    Hour,
    /// It ends with a day.
    Day,
    /// It ends with a week.
    Week,
    /// It ends with a month.
    Month,
    /// It is a year, or nothing shorter.
    Year,
}

/// Their first three letters are their short names.
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// A name, or its first three letters.
fn named(name: &str, is_whole: bool) -> &str {
    match is_whole {
        true => name,
        false => name.get(..3).unwrap_or(name),
    }
}

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
        // Reserved by Java's formats of dates, where brackets are around what may be left out.
        if ['#', '{', '}', '[', ']'].contains(&letter) {
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
            ('y' | 'u', 1 | 4) => Part::Number(Field::Year, count),
            ('y' | 'u', 2) => Part::ShortYear,
            ('Y', 4) => Part::Number(Field::WeekYear, 4),
            ('M' | 'L', 1 | 2) => Part::Number(Field::Month, count),
            ('M' | 'L', 3 | 4) => Part::MonthName(count == 4),
            ('d', 1 | 2) => Part::Number(Field::Day, count),
            ('D', 1 | 3) => Part::Number(Field::DayOfYear, count),
            ('w', 1 | 2) => Part::Number(Field::Week, count),
            ('e', 1) => Part::Number(Field::WeekDay, 1),
            ('E', 1..=4) => Part::DayName(count == 4),
            ('a', 1) => Part::Half,
            ('H', 1 | 2) => Part::Number(Field::Hour, count),
            ('k', 1 | 2) => Part::Number(Field::ClockHour, count),
            ('K', 1 | 2) => Part::Number(Field::HalfHour, count),
            ('h', 1 | 2) => Part::Number(Field::HalfClockHour, count),
            ('m', 1 | 2) => Part::Number(Field::Minute, count),
            ('s', 1 | 2) => Part::Number(Field::Second, count),
            ('S', 1..=9) => Part::Fraction(count),
            ('X' | 'x', 1..=3) => offset(letter == 'X', count == 3, count == 1),
            ('Z', 1..=3) => offset(false, false, false),
            ('Z', 5) => offset(true, true, false),
            _ => return Err(letter.to_string().repeat(count)),
        });
    }
    // Such an hour alone is two hours of a day.
    let is_half = |part: &Part| match part {
        Part::Number(Field::HalfHour, _) => Some("K without a"),
        Part::Number(Field::HalfClockHour, _) => Some("h without a"),
        _ => None,
    };
    match parts.iter().find_map(is_half) {
        Some(which) if !parts.contains(&Part::Half) => Err(which.to_owned()),
        _ => Ok(parts),
    }
}

/// Appends a part of a local time, which is by `offset` seconds after UTC.
///
/// `moment` is in milliseconds since 1970, and the nanoseconds after these.
pub(super) fn write_part(
    part: &Part,
    local: DateTime,
    offset: i32,
    moment: (i64, u32),
    out: &mut String,
) {
    let name = |names: &[&str], place: i8, is_whole: bool| {
        let place = usize::try_from(place).unwrap_or_default();
        named(names.get(place).copied().unwrap_or_default(), is_whole).to_owned()
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
                Field::ClockHour => (i16::from(local.hour()) + 23) % 24 + 1,
                Field::HalfHour => i16::from(local.hour()) % 12,
                Field::HalfClockHour => (i16::from(local.hour()) + 11) % 12 + 1,
                Field::Minute => local.minute().into(),
                Field::Second => local.second().into(),
            };
            format!("{number:0digits$}")
        }
        Part::ShortYear => format!("{:02}", local.year().rem_euclid(100)),
        Part::MonthName(is_whole) => name(&MONTHS, local.month() - 1, *is_whole),
        Part::DayName(is_whole) => name(&DAYS, local.weekday().to_monday_zero_offset(), *is_whole),
        Part::Half => if local.hour() < 12 { "AM" } else { "PM" }.to_owned(),
        Part::Fraction(digits) => {
            let all = format!("{:03}{:06}", moment.0.rem_euclid(1000), moment.1);
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

/// The place of the name that a text begins with, from 1, and what follows it.
fn read_name<'t>(text: &'t str, names: &[&str], is_whole: bool) -> Option<(i32, &'t str)> {
    let mut places = (1_i32..).zip(names);
    places.find_map(|(place, name)| Some((place, text.strip_prefix(named(name, is_whole))?)))
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
    /// As its name says, beside the date.
    day_name: Option<i32>,
    hour: i32,
    /// The hour of a half of a day, from 0 to 11.
    half_hour: Option<i32>,
    is_afternoon: Option<bool>,
    minute: i32,
    second: i32,
    nanos: i32,
    offset: Option<i32>,
}

/// The moment that a text is by a pattern, in milliseconds since 1970 UTC, and its grain. Without
/// an offset it is local time.
pub(super) fn read_parts(parts: &[Part], text: &str, zone: &TimeZone) -> Option<(i64, DateGrain)> {
    let mut rest = text;
    let mut said = Said::default();
    let mut grain = DateGrain::Year;
    for part in parts {
        let named = match part {
            Part::Number(field, count) => {
                let most = match (field, *count) {
                    (Field::DayOfYear, 1) => 3,
                    (Field::Year, 1) => 4,
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
                DateGrain::Millisecond
            }
            Part::Text(text) => {
                rest = rest.strip_prefix(text.as_str())?;
                continue;
            }
            Part::ShortYear => {
                let (number, after) = digits(rest, 2, 2)?;
                rest = after;
                said.set(Field::Year, 2000 + number)
            }
            Part::MonthName(is_whole) => {
                let (place, after) = read_name(rest, &MONTHS, *is_whole)?;
                rest = after;
                said.set(Field::Month, place)
            }
            Part::DayName(is_whole) => {
                let (place, after) = read_name(rest, &DAYS, *is_whole)?;
                (said.day_name, rest) = (Some(place), after);
                continue;
            }
            Part::Half => {
                let (half, after) = rest.split_at_checked(2)?;
                said.is_afternoon = Some(match half {
                    "AM" => false,
                    "PM" => true,
                    _ => return None,
                });
                rest = after;
                DateGrain::Hour
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
    fn set(&mut self, field: Field, number: i32) -> DateGrain {
        let (place, grain) = match field {
            Field::Hour => {
                self.hour = number;
                return DateGrain::Hour;
            }
            Field::ClockHour => {
                // There is no hour 0, and it is refused.
                self.hour = match number {
                    24 => 0,
                    0 => i32::MAX,
                    hour => hour,
                };
                return DateGrain::Hour;
            }
            Field::HalfHour => {
                self.half_hour = Some(number);
                return DateGrain::Hour;
            }
            Field::HalfClockHour => {
                self.half_hour = Some(match number {
                    12 => 0,
                    0 => i32::MAX,
                    hour => hour,
                });
                return DateGrain::Hour;
            }
            Field::Minute => {
                self.minute = number;
                return DateGrain::Minute;
            }
            Field::Second => {
                self.second = number;
                return DateGrain::Second;
            }
            Field::Year => (&mut self.year, DateGrain::Year),
            Field::WeekYear => (&mut self.week_year, DateGrain::Year),
            Field::Month => (&mut self.month, DateGrain::Month),
            Field::Week => (&mut self.week, DateGrain::Week),
            Field::Day => (&mut self.day, DateGrain::Day),
            Field::DayOfYear => (&mut self.day_of_year, DateGrain::Day),
            Field::WeekDay => (&mut self.week_day, DateGrain::Day),
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
        if let Some(name) = self.day_name
            && i32::from(date.weekday().to_monday_one_offset()) != name
        {
            return None;
        }
        let hour = match (self.half_hour, self.is_afternoon) {
            (Some(hour @ 0..12), half) => hour + if half == Some(true) { 12 } else { 0 },
            (Some(_), _) => return None,
            (None, _) => self.hour,
        };
        let (hour, minute) = (small(hour)?, small(self.minute)?);
        let time = jiff::civil::Time::new(hour, minute, small(self.second)?, self.nanos).ok()?;
        Some(date.to_datetime(time))
    }
}
