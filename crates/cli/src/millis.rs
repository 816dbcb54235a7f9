//! Short times from the command line: `500ms`, `2s`.

use std::time::Duration;

/// The longest time: a day.
const MILLIS_MAX: u64 = 24 * 60 * 60 * 1000;

/// A time from one millisecond to a day.
///
/// # Errors
/// If the text is none, with what it must be.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let (digits, unit) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (text.strip_suffix('s').unwrap_or_default(), 1000),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: Option<u64> = digits.parse().ok().filter(|_| is_number);
    let millis = count.and_then(|count| count.checked_mul(unit));
    match millis {
        Some(millis @ 1..=MILLIS_MAX) => Ok(Duration::from_millis(millis)),
        _ => Err(format!("`{text}` is no time: give one such as 500ms or 2s")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_milliseconds_or_seconds() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("2s"), Ok(Duration::from_secs(2)));
        for wrong in ["", "ms", "0ms", "2", "-1s", "+1s", "1.5s", "2d", "86401s"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
