//! Dates, times and durations as text of ISO 8601.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use std::fmt::Write;

const NANOSECONDS_A_DAY: i128 = 86_400_000_000_000;

/// The Julian day of 1 January 1970.
const JULIAN_DAY_1970: i128 = 2_440_588;

const EPOCH: Date = Date::constant(1970, 1, 1);

/// Appends a day, counted from 1970.
///
/// # Errors
/// If its year is not one of four digits.
pub(crate) fn write_date(days: i32, out: &mut String) -> Result<(), String> {
    let after = SignedDuration::from_hours(24 * i64::from(days));
    let date = EPOCH.checked_add(after);
    let date = date.map_err(|_| format!("the day {days} from 1970 has no date"))?;
    let _ = write!(out, "{date}");
    Ok(())
}

/// Appends a time of the day.
///
/// # Errors
/// If it is none.
pub(crate) fn write_time(nanoseconds: i128, out: &mut String) -> Result<(), String> {
    if !(0..NANOSECONDS_A_DAY).contains(&nanoseconds) {
        return Err(format!("{nanoseconds} ns is no time of a day"));
    }
    let time: Time = datetime(nanoseconds)?.time();
    let _ = write!(out, "{time}");
    Ok(())
}

/// Appends a moment, counted from 1970: one of UTC with a `Z`, one of a local clock without.
///
/// # Errors
/// If its year is not one of four digits.
pub(crate) fn write_timestamp(
    nanoseconds: i128,
    is_utc: bool,
    out: &mut String,
) -> Result<(), String> {
    let _ = write!(out, "{}", datetime(nanoseconds)?);
    if is_utc {
        out.push('Z');
    }
    Ok(())
}

/// The nanoseconds from 1970 of a timestamp of 96 bits: nanoseconds of a Julian day.
pub(crate) fn julian([low, high, day]: [u32; 3]) -> i128 {
    let of_day = i128::from(u64::from(high) << 32 | u64::from(low));
    (i128::from(day) - JULIAN_DAY_1970) * NANOSECONDS_A_DAY + of_day
}

/// Appends a duration of months, days and milliseconds.
pub(crate) fn write_interval([months, days, milliseconds]: [u32; 3], out: &mut String) {
    let (seconds, rest) = (milliseconds / 1_000, milliseconds % 1_000);
    let _ = write!(out, "P{months}M{days}DT{seconds}.{rest:03}S");
}

fn datetime(nanoseconds: i128) -> Result<jiff::civil::DateTime, String> {
    let moment = Timestamp::from_nanosecond(nanoseconds);
    let moment = moment.map_err(|_| format!("{nanoseconds} ns from 1970 has no date"))?;
    Ok(TimeZone::UTC.to_datetime(moment))
}
