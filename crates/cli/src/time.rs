//! Points in time, as people write them.

use std::fmt;

const SECONDS_A_DAY: i64 = 86_400;

/// A moment in microseconds since 1970 UTC; shown as `2026-11-20T14:30:05Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) i64);

impl fmt::Display for Moment {
    /// Source: Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(1_000_000);
        let (days, second) = (
            seconds.div_euclid(SECONDS_A_DAY),
            seconds.rem_euclid(SECONDS_A_DAY),
        );
        // A year begins on 1 March, so that a leap day is its last day. An era has 400 years, and
        // the first one begins in the year 0.
        let days = days + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let (month, next_year) = match month {
            0..10 => (month + 3, 0),
            _ => (month - 9, 1),
        };
        let year = era * 400 + year_of_era + next_year;
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (1_795_185_005, "2026-11-20T14:30:05Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(Moment(seconds * 1_000_000).to_string(), text);
        }
    }
}
