//! [`Rounding`]: in which interval of a calendar, or of a fixed length, a moment lies.

use jiff::civil::{Date, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

const HOUR: i64 = 3_600_000;

/// An interval of a calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalendarUnit {
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From Monday on.
    Week,
    /// From the first day of a month on.
    Month,
    /// Three months, from January, April, July and October on.
    Quarter,
    /// From the first of January on.
    Year,
}

/// How moments are rounded down to where their interval begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounding {
    unit: Unit,
    zone: TimeZone,
    /// Intervals begin later by this, in milliseconds.
    offset: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Calendar(CalendarUnit),
    /// Milliseconds, above 0, of local time.
    Fixed(i64),
}

impl Rounding {
    /// By intervals of the calendar in a time zone: `UTC`, an offset such as `+02:00`, or a name
    /// such as `Europe/Berlin`. None if there is no such zone.
    #[must_use]
    pub fn calendar(unit: CalendarUnit, zone: &str) -> Option<Rounding> {
        let unit = match unit {
            CalendarUnit::Minute => Unit::Fixed(60_000),
            CalendarUnit::Hour => Unit::Fixed(HOUR),
            unit => Unit::Calendar(unit),
        };
        let zone = zone_of(zone)?;
        let offset = 0;
        Some(Rounding { unit, zone, offset })
    }

    /// By intervals of a number of milliseconds, in the local time of a zone, from 1970 on. None if
    /// it is 0 or less, or more than 2^53, or if there is no such zone.
    #[must_use]
    pub fn fixed(millis: i64, zone: &str) -> Option<Rounding> {
        let unit = (1..1 << 53)
            .contains(&millis)
            .then_some(Unit::Fixed(millis))?;
        let zone = zone_of(zone)?;
        let offset = 0;
        Some(Rounding { unit, zone, offset })
    }

    /// Begins intervals later by some milliseconds.
    #[must_use]
    pub fn later_by(mut self, millis: i64) -> Rounding {
        self.offset = millis;
        self
    }

    /// Where the interval with a moment begins; both are milliseconds since 1970 UTC. None out of
    /// the years -9999 to 9999.
    #[must_use]
    pub fn start(&self, millis: i64) -> Option<i64> {
        let moment = millis.checked_sub(self.offset)?;
        let start = match self.unit {
            Unit::Fixed(length) => self.start_of_fixed(moment, length)?,
            Unit::Calendar(unit) => {
                let local = Timestamp::from_millisecond(moment).ok()?;
                let date = local.to_zoned(self.zone.clone()).date();
                self.millis_at(first_day(date, unit)?)?
            }
        };
        debug_assert!(start <= moment, "an interval begins before what is in it");
        start.checked_add(self.offset)
    }

    /// Where the interval after one that begins at `start` begins.
    #[must_use]
    pub fn next(&self, start: i64) -> Option<i64> {
        let from = start.checked_sub(self.offset)?;
        let next = match self.unit {
            Unit::Fixed(length) => {
                // The local time may be set on or back in between.
                let late = from.checked_add(length)?.checked_add(length / 2)?;
                let next = self.start_of_fixed(late, length)?;
                if next > from { next } else { from + length }
            }
            Unit::Calendar(unit) => {
                let local = Timestamp::from_millisecond(from).ok()?;
                let date = local.to_zoned(self.zone.clone()).date();
                self.millis_at(next_first_day(first_day(date, unit)?, unit)?)?
            }
        };
        next.checked_add(self.offset)
    }

    /// The time zone.
    #[must_use]
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    fn start_of_fixed(&self, moment: i64, length: i64) -> Option<i64> {
        let offset = self.offset_at(moment)?;
        let local = moment.checked_add(offset)?;
        let local_start = local - local.rem_euclid(length);
        let start = local_start.checked_sub(offset)?;
        // Its offset may be another one.
        let shifted = local_start.checked_sub(self.offset_at(start)?)?;
        Some(if shifted <= moment { shifted } else { start })
    }

    fn offset_at(&self, moment: i64) -> Option<i64> {
        let moment = Timestamp::from_millisecond(moment).ok()?;
        Some(i64::from(self.zone.to_offset(moment).seconds()) * 1000)
    }

    /// Midnight, or where the day begins if it has none.
    fn millis_at(&self, date: Date) -> Option<i64> {
        let start = date.to_zoned(self.zone.clone()).ok()?;
        Some(start.timestamp().as_millisecond())
    }
}

fn first_day(date: Date, unit: CalendarUnit) -> Option<Date> {
    match unit {
        CalendarUnit::Minute | CalendarUnit::Hour | CalendarUnit::Day => Some(date),
        CalendarUnit::Week => {
            let days = date.weekday().since(Weekday::Monday);
            let back = SignedDuration::from_hours(-24 * i64::from(days));
            date.checked_add(back).ok()
        }
        CalendarUnit::Month => Some(date.first_of_month()),
        CalendarUnit::Quarter => {
            let month = (date.month() - 1) / 3 * 3 + 1;
            Date::new(date.year(), month, 1).ok()
        }
        CalendarUnit::Year => Some(date.first_of_year()),
    }
}

fn next_first_day(first: Date, unit: CalendarUnit) -> Option<Date> {
    let months = match unit {
        CalendarUnit::Minute | CalendarUnit::Hour | CalendarUnit::Day => {
            return first.tomorrow().ok();
        }
        CalendarUnit::Week => {
            return first.checked_add(SignedDuration::from_hours(7 * 24)).ok();
        }
        CalendarUnit::Month => 1,
        CalendarUnit::Quarter => 3,
        CalendarUnit::Year => 12,
    };
    let month = i16::from(first.month()) - 1 + months;
    let year = first.year().checked_add(month / 12)?;
    Date::new(year, i8::try_from(month % 12 + 1).ok()?, 1).ok()
}

/// The zone of a name or an offset.
fn zone_of(text: &str) -> Option<TimeZone> {
    if matches!(text, "Z" | "UTC" | "GMT") {
        return Some(TimeZone::UTC);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return TimeZone::get(text).ok(),
    };
    let digits = text.get(1..)?.replace(':', "");
    let (hours, minutes) = match (digits.len(), digits.bytes().all(|b| b.is_ascii_digit())) {
        (1 | 2, true) => (digits.as_str(), "0"),
        (4, true) => digits.split_at(2),
        _ => return None,
    };
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let is_offset = hours <= 18 && minutes < 60;
    let seconds = sign * (hours * 60 + minutes) * 60;
    let offset = is_offset.then(|| Offset::from_seconds(seconds).ok())??;
    Some(TimeZone::fixed(offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNITS: [CalendarUnit; 7] = [
        CalendarUnit::Minute,
        CalendarUnit::Hour,
        CalendarUnit::Day,
        CalendarUnit::Week,
        CalendarUnit::Month,
        CalendarUnit::Quarter,
        CalendarUnit::Year,
    ];

    fn millis(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    #[test]
    fn intervals_begin_where_the_calendar_says() {
        use CalendarUnit::*;
        for (unit, zone, moment, start) in [
            (
                Minute,
                "UTC",
                "2026-03-05T10:11:12.3Z",
                "2026-03-05T10:11:00Z",
            ),
            (Hour, "UTC", "2026-03-05T10:11:12Z", "2026-03-05T10:00:00Z"),
            (
                Hour,
                "+05:30",
                "2026-03-05T10:11:12Z",
                "2026-03-05T09:30:00Z",
            ),
            (Day, "UTC", "2026-03-05T10:11:12Z", "2026-03-05T00:00:00Z"),
            (
                Day,
                "Europe/Berlin",
                "2026-03-29T23:00:00Z",
                "2026-03-29T22:00:00Z",
            ),
            (
                Day,
                "Europe/Berlin",
                "2026-03-29T21:59:59Z",
                "2026-03-28T23:00:00Z",
            ),
            (
                Day,
                "America/New_York",
                "2026-11-02T04:59:59Z",
                "2026-11-01T04:00:00Z",
            ),
            (Week, "UTC", "2026-03-05T10:11:12Z", "2026-03-02T00:00:00Z"),
            (
                Week,
                "-01:00",
                "2026-03-02T00:30:00Z",
                "2026-02-23T01:00:00Z",
            ),
            (Month, "UTC", "2026-03-05T10:11:12Z", "2026-03-01T00:00:00Z"),
            (
                Quarter,
                "UTC",
                "2026-06-30T23:59:59Z",
                "2026-04-01T00:00:00Z",
            ),
            (
                Year,
                "Asia/Tokyo",
                "2025-12-31T15:00:00Z",
                "2025-12-31T15:00:00Z",
            ),
            (Year, "UTC", "1969-12-31T23:59:59Z", "1969-01-01T00:00:00Z"),
        ] {
            let rounding = Rounding::calendar(unit, zone).unwrap();
            assert_eq!(
                rounding.start(millis(moment)),
                Some(millis(start)),
                "{unit:?} {moment}"
            );
        }
        let days = Rounding::calendar(Day, "UTC").unwrap().later_by(6 * HOUR);
        let start = days.start(millis("2026-03-05T05:00:00Z"));
        assert_eq!(start, Some(millis("2026-03-04T06:00:00Z")));
        assert_eq!(Rounding::calendar(Day, "Mars/Base"), None);
        assert_eq!(Rounding::calendar(Day, "+25:00"), None);
        assert_eq!(Rounding::fixed(0, "UTC"), None);
    }

    proptest! {
        #[test]
        fn intervals_follow_each_other(
            moment in -4_000_000_000_000_i64..8_000_000_000_000,
            zone in prop_oneof![
                Just("UTC"), Just("+01:00"), Just("Europe/Berlin"), Just("America/New_York"),
                Just("Asia/Kathmandu"), Just("America/Sao_Paulo"),
            ],
            unit in prop_oneof![
                proptest::sample::select(UNITS.as_slice()).prop_map(Ok),
                (1_i64..100_000_000).prop_map(Err),
            ],
        ) {
            let rounding = match unit {
                Ok(unit) => Rounding::calendar(unit, zone).unwrap(),
                Err(millis) => Rounding::fixed(millis, zone).unwrap(),
            };
            let start = rounding.start(moment).unwrap();
            let next = rounding.next(start).unwrap();
            prop_assert!(start <= moment);
            prop_assert!(next > start);
            if matches!(unit, Ok(CalendarUnit::Day | CalendarUnit::Week | CalendarUnit::Month
                | CalendarUnit::Quarter | CalendarUnit::Year)) {
                prop_assert!(moment < next);
                prop_assert_eq!(rounding.start(start), Some(start));
                prop_assert_eq!(rounding.start(next - 1), Some(start));
                prop_assert_eq!(rounding.start(next), Some(next));
            }
        }
    }
}
