//! Intervals of dates as requests name them.

use quiredb::query::CalendarUnit;

/// A unit of the calendar, such as `month` or `1M`.
pub(crate) fn calendar_unit(text: &str) -> Option<CalendarUnit> {
    Some(match text {
        "minute" | "1m" => CalendarUnit::Minute,
        "hour" | "1h" => CalendarUnit::Hour,
        "day" | "1d" => CalendarUnit::Day,
        "week" | "1w" => CalendarUnit::Week,
        "month" | "1M" => CalendarUnit::Month,
        "quarter" | "1q" => CalendarUnit::Quarter,
        "year" | "1y" => CalendarUnit::Year,
        _ => return None,
    })
}

/// The milliseconds of a fixed interval above 0, such as `30s` or `12h`.
pub(crate) fn fixed_millis(text: &str) -> Option<i64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let millis = number.parse::<i64>().ok()?.checked_mul(unit)?;
    (millis > 0).then_some(millis)
}

/// The milliseconds of an offset, such as `+6h` or `-1d`.
pub(crate) fn offset_millis(text: &str) -> Option<i64> {
    let (sign, length) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    fixed_millis(length).map(|millis| sign * millis)
}
