//! When a value expires, as clients say it, and as documents have it.

use quiredb::Expiry;

use super::words::number;

const SECOND_MICROS: i64 = 1_000_000;

/// Longer times are seconds since 1970, as in memcached.
const RELATIVE_SECONDS_MAX: u64 = 30 * 24 * 60 * 60;

/// The exptime of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exptime {
    Never,
    /// At once: afterwards there is no value.
    AtOnce,
    /// After this number of seconds: at most thirty days.
    In(u32),
    /// Seconds since 1970 UTC.
    At(u64),
}

impl Exptime {
    /// That of a word; none if it is no whole number.
    pub(crate) fn parse(word: &[u8]) -> Option<Exptime> {
        if let Some(rest) = word.strip_prefix(b"-") {
            return number(rest).map(|seconds| match seconds {
                0 => Exptime::Never,
                _ => Exptime::AtOnce,
            });
        }
        Some(match number(word)? {
            0 => Exptime::Never,
            seconds @ 1..=RELATIVE_SECONDS_MAX => Exptime::In(seconds as u32),
            seconds => Exptime::At(seconds),
        })
    }

    /// What it is at a time: microseconds since 1970 UTC.
    pub(crate) fn at(self, now_micros: i64) -> Lifetime {
        let until = match self {
            Exptime::Never => return Lifetime::Endless,
            Exptime::AtOnce => return Lifetime::Over,
            Exptime::In(seconds) => now_micros.saturating_add(i64::from(seconds) * SECOND_MICROS),
            Exptime::At(seconds) => {
                let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
                seconds.saturating_mul(SECOND_MICROS)
            }
        };
        match until > now_micros {
            true => Lifetime::Until(until),
            false => Lifetime::Over,
        }
    }
}

/// How long a value is to live after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// As long as before.
    Kept,
    Endless,
    /// Microseconds since 1970 UTC.
    Until(i64),
    /// Not at all.
    Over,
}

impl Lifetime {
    /// The expiry that a document has with it, which expires then now.
    pub(crate) fn expires_micros(self, now: Option<i64>) -> Option<i64> {
        match self {
            Lifetime::Kept => now,
            Lifetime::Endless | Lifetime::Over => None,
            Lifetime::Until(time) => Some(time),
        }
    }
}

/// The expiry of a write.
pub(crate) fn expiry(expires_micros: Option<i64>) -> Expiry {
    expires_micros.map_or(Expiry::Never, Expiry::At)
}

/// The seconds until a time, rounded up, as a client is told: -1 if there is none.
pub(crate) fn seconds_left(expires_micros: Option<i64>, now_micros: i64) -> i64 {
    let Some(expires) = expires_micros else {
        return -1;
    };
    let left = expires.saturating_sub(now_micros).max(0);
    left / SECOND_MICROS + i64::from(left % SECOND_MICROS != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_up_to_thirty_days_are_from_now_and_others_since_1970() {
        let now = 1_800_000_000 * SECOND_MICROS;
        for (word, expected) in [
            ("0", Lifetime::Endless),
            ("-0", Lifetime::Endless),
            ("-1", Lifetime::Over),
            ("60", Lifetime::Until(now + 60 * SECOND_MICROS)),
            ("2592000", Lifetime::Until(now + 2_592_000 * SECOND_MICROS)),
            // libmemcached finds out by such a time whether a key exists.
            ("2592001", Lifetime::Over),
            ("1800000000", Lifetime::Over),
            ("1800000001", Lifetime::Until(now + SECOND_MICROS)),
            ("18446744073709551615", Lifetime::Until(i64::MAX)),
        ] {
            let exptime = Exptime::parse(word.as_bytes()).unwrap();
            assert_eq!(exptime.at(now), expected, "{word}");
        }
        for word in ["", "-", "1.5", "x", "18446744073709551616", "--1"] {
            assert_eq!(Exptime::parse(word.as_bytes()), None, "{word}");
        }
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(seconds_left(None, 5), -1);
        for (left, seconds) in [
            (-1, 0),
            (0, 0),
            (1, 1),
            (SECOND_MICROS, 1),
            (SECOND_MICROS + 1, 2),
        ] {
            assert_eq!(seconds_left(Some(7 + left), 7), seconds);
        }
    }
}
