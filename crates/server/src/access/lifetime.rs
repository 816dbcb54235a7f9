//! How long a token lives, in words: `90m`, `12h`, `30d`, `never`.

use std::time::Duration;

/// The longest life of a token that expires: a hundred years.
const SECONDS_MAX: u64 = 100 * 366 * 24 * 60 * 60;

/// The lifetime in a text; none for `never`.
///
/// # Errors
/// In words, if it is no time of at least one second.
pub fn parse_lifetime(text: &str) -> Result<Option<Duration>, String> {
    if text == "never" {
        return Ok(None);
    }
    let wrong =
        || format!("`{text}` is no lifetime: give a time such as 90m, 12h or 30d, or never");
    let unit = match text.bytes().last() {
        Some(b's') => 1,
        Some(b'm') => 60,
        Some(b'h') => 60 * 60,
        Some(b'd') => 24 * 60 * 60,
        _ => return Err(wrong()),
    };
    let digits = text.get(..text.len() - 1).unwrap_or_default();
    let count: Option<u64> = match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse().ok(),
        false => None,
    };
    let seconds = count.and_then(|count| count.checked_mul(unit));
    match seconds {
        Some(seconds) if (1..=SECONDS_MAX).contains(&seconds) => {
            Ok(Some(Duration::from_secs(seconds)))
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_whole_numbers_of_a_unit() {
        let seconds = |text: &str| parse_lifetime(text).map(|time| time.map(|it| it.as_secs()));
        assert_eq!(seconds("never"), Ok(None));
        assert_eq!(seconds("90m"), Ok(Some(5400)));
        assert_eq!(seconds("30d"), Ok(Some(2_592_000)));
        for wrong in [
            "",
            "d",
            "0d",
            "-1d",
            "+1d",
            "1.5h",
            "30",
            "30 d",
            "é",
            "99999999999999999999d",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
