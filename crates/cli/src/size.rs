//! Sizes, counts and durations as people write and read them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes from the command line: `512MiB`, `1.5GB`, `65536`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

const UNITS: [(&str, u64); 12] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("tib", 1 << 40),
];

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let trimmed = text.trim();
        let split = trimmed
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let unit = unit.trim().to_ascii_lowercase();
        let bytes = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .and_then(|(_, scale)| scaled(number, *scale));
        bytes.map(Size).ok_or_else(|| {
            format!("`{text}` is not a size; sizes look like 256MiB, 1.5GB or 65536")
        })
    }
}

/// `number` times `scale`, exactly if `number` is whole.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale);
    }
    let value = number.parse::<f64>().ok()? * scale as f64;
    (value.is_finite() && (0.0..1e18).contains(&value)).then_some(value as u64)
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut value, mut unit) = (self.0 as f64, "B");
        for larger in ["kB", "MB", "GB", "TB"] {
            if value < 999.5 {
                break;
            }
            value /= 1000.0;
            unit = larger;
        }
        if unit == "B" || value >= 99.95 {
            write!(f, "{value:.0} {unit}")
        } else {
            write!(f, "{value:.1} {unit}")
        }
    }
}

/// An age from the command line, in seconds: `30d`, `12h`, `90m`, `45s`, or `0`. A number without a
/// unit is refused: thirty days and thirty seconds should not be confused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) u64);

const AGE_UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Age, String> {
        let trimmed = text.trim();
        if trimmed == "0" {
            return Ok(Age(0));
        }
        let seconds = AGE_UNITS.iter().find_map(|(unit, scale)| {
            let number = trimmed.strip_suffix(unit)?.trim_end();
            number.parse::<u64>().ok()?.checked_mul(*scale)
        });
        seconds
            .map(Age)
            .ok_or_else(|| format!("`{text}` is not an age; ages look like 30d, 12h, 90m or 45s"))
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, scale): &&(&str, u64)| self.0.is_multiple_of(*scale);
        let (unit, scale) = AGE_UNITS.iter().find(fits).unwrap_or(&("s", 1));
        write!(f, "{}{unit}", self.0 / scale)
    }
}

/// Bytes in a second from the command line: `64MB/s`, `64MB`; `none` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) Option<u64>);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let trimmed = text.trim();
        if trimmed == "none" {
            return Ok(Rate(None));
        }
        match trimmed.trim_end_matches("/s").parse() {
            Ok(Size(bytes)) if bytes > 0 => Ok(Rate(Some(bytes))),
            _ => Err(format!(
                "`{text}` is not a rate; rates look like 64MB/s, or none for no limit"
            )),
        }
    }
}

/// A count with commas between the thousands: `63,666`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 document`, `2 documents`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let table = [
            ("65536", 65_536),
            ("1k", 1_024),
            ("256MiB", 256 << 20),
            ("256 mib", 256 << 20),
            ("1.5GB", 1_500_000_000),
            ("0.5 GiB", 1 << 29),
        ];
        for (text, bytes) in table {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in [
            "",
            "MiB",
            "-1",
            "1.2.3k",
            "12 parsecs",
            "99999999999999999999",
            "1e3",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn ages_have_a_unit() {
        for (text, seconds, shown) in [
            ("30d", 2_592_000, "30d"),
            ("36 h", 129_600, "36h"),
            ("60m", 3_600, "1h"),
            ("45s", 45, "45s"),
            ("0", 0, "0d"),
        ] {
            assert_eq!(text.parse(), Ok(Age(seconds)), "{text}");
            assert_eq!(Age(seconds).to_string(), shown);
        }
        for text in ["", "30", "d", "-1d", "1.5d", "1w", "999999999999999999d"] {
            assert!(text.parse::<Age>().is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_sizes_or_none() {
        for text in ["64MB/s", "64MB", " 64mb/s"] {
            assert_eq!(text.parse(), Ok(Rate(Some(64_000_000))), "{text}");
        }
        assert_eq!("none".parse(), Ok(Rate(None)));
        for text in ["", "0", "0/s", "fast", "64MB/min"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_shown_short() {
        let shown: Vec<String> = [0, 999, 1_000, 48_123_456, 999_600, 123_456_789_012]
            .map(|bytes| Size(bytes).to_string())
            .into();
        assert_eq!(
            shown,
            ["0 B", "999 B", "1.0 kB", "48.1 MB", "1.0 MB", "123 GB"]
        );
        assert_eq!(
            [count(7), count(1_000), count(1_234_567)],
            ["7", "1,000", "1,234,567"]
        );
        assert_eq!(counted(1, "file", "files"), "1 file");
    }
}
