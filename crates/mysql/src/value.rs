//! A column's value as JSON.
//!
//! | column | JSON |
//! | --- | --- |
//! | integers, `YEAR`, `BIT` | a number, `BIGINT UNSIGNED` up to 2^64 - 1 |
//! | `DECIMAL` | a number with all its digits |
//! | `FLOAT`, `DOUBLE` | the shortest number that reads back the same |
//! | `CHAR`, `VARCHAR`, `TEXT`, `ENUM` | text |
//! | `SET` | an array of text |
//! | `JSON` | as it is |
//! | `DATE`, `DATETIME` | `2026-11-23`, `2026-11-23T04:05:06.5`; null for a zero date |
//! | `TIMESTAMP` | as `DATETIME`, in UTC with `Z` |
//! | `TIME` | `-12:30:00` |
//! | `BINARY`, `VARBINARY`, `BLOB` | base64 |

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mysql_async::Value;
use serde_json::value::RawValue;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A number, given as such or as its digits.
    Number,
    Text,
    Json,
    Set,
    Date,
    Datetime,
    Timestamp,
    Time,
    Bit,
    Binary,
}

impl Kind {
    /// Whether rows can be read in the order of such a column, and compared with its text.
    pub(crate) fn orders(self) -> bool {
        matches!(
            self,
            Kind::Number
                | Kind::Text
                | Kind::Date
                | Kind::Datetime
                | Kind::Timestamp
                | Kind::Binary
        )
    }
}

/// Appends a value as JSON.
pub(crate) fn write_json(kind: Kind, value: &Value, out: &mut String) {
    match (kind, value) {
        (_, Value::NULL) => out.push_str("null"),
        (Kind::Json, Value::Bytes(bytes)) => write_raw_json(bytes, out),
        (Kind::Set, Value::Bytes(bytes)) => {
            let names = String::from_utf8_lossy(bytes);
            let names = names.split(',').filter(|name| !name.is_empty());
            let names: Vec<&str> = names.collect();
            out.push_str(&serde_json::Value::from(names).to_string());
        }
        _ => match text(kind, value) {
            Some(text) if kind == Kind::Number || kind == Kind::Bit => out.push_str(&text),
            Some(text) => out.push_str(&serde_json::Value::from(text).to_string()),
            None => out.push_str("null"),
        },
    }
}

/// A value as text, as it is in keys; none for null and zero dates.
pub(crate) fn text(kind: Kind, value: &Value) -> Option<String> {
    Some(match value {
        Value::NULL => return None,
        Value::Bytes(bytes) => match kind {
            Kind::Binary => STANDARD.encode(bytes),
            Kind::Bit => bits(bytes).to_string(),
            Kind::Number => digits(&String::from_utf8_lossy(bytes)),
            _ => String::from_utf8_lossy(bytes).into_owned(),
        },
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => shortest(*number),
        Value::Double(number) => serde_json::Value::from(*number).to_string(),
        Value::Date(0, 0, 0, ..) => return None,
        Value::Date(year, month, day, hour, minute, second, micros) => {
            let date = format!("{year:04}-{month:02}-{day:02}");
            if kind == Kind::Date {
                return Some(date);
            }
            let zone = if kind == Kind::Timestamp { "Z" } else { "" };
            let fraction = fraction(*micros);
            format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}")
        }
        Value::Time(is_negative, days, hours, minutes, seconds, micros) => {
            let sign = if *is_negative { "-" } else { "" };
            let hours = days * 24 + u32::from(*hours);
            let fraction = fraction(*micros);
            format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{fraction}")
        }
    })
}

/// A value as SQL that compares with the column; none if it is null.
pub(crate) fn sql(kind: Kind, value: &Value) -> Option<String> {
    match (kind, value) {
        (Kind::Binary, Value::Bytes(bytes)) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(format!("x'{hex}'"))
        }
        (Kind::Number, _) => text(kind, value),
        (Kind::Timestamp, _) => {
            let text = text(kind, value)?;
            Some(crate::options::text(text.trim_end_matches('Z')))
        }
        _ => text(kind, value).map(|text| crate::options::text(&text)),
    }
}

/// JSON text within a document: without line ends, which are only between its tokens.
fn write_raw_json(bytes: &[u8], out: &mut String) {
    let text = String::from_utf8_lossy(bytes);
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(raw) => out.push_str(&raw.get().replace(['\n', '\r'], " ")),
        Err(_) => out.push_str(&serde_json::Value::from(&*text).to_string()),
    }
}

/// The digits of a decimal as JSON has them: no zeros before them, but one before the point.
fn digits(text: &str) -> String {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let rest = rest.trim_start_matches('0');
    match rest.as_bytes().first() {
        None | Some(b'.') => format!("{sign}0{rest}"),
        _ => format!("{sign}{rest}"),
    }
}

fn bits(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |bits, byte| (bits << 8) | u64::from(*byte))
}

fn fraction(micros: u32) -> String {
    match micros {
        0 => String::new(),
        _ => format!(".{micros:06}").trim_end_matches('0').to_owned(),
    }
}

/// A single-precision number by its own shortest digits, not those of the double.
fn shortest(number: f32) -> String {
    format!("{number:?}").replace("e+", "e")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(kind: Kind, value: Value) -> String {
        let mut out = String::new();
        write_json(kind, &value, &mut out);
        out
    }

    #[test]
    fn values_are_json_with_nothing_lost() {
        let bytes = |text: &str| Value::Bytes(text.into());
        for (kind, value, expected) in [
            (Kind::Number, Value::UInt(u64::MAX), "18446744073709551615"),
            (Kind::Number, bytes("-0012.340"), "-12.340"),
            (Kind::Number, bytes(".50"), "0.50"),
            (Kind::Number, Value::Float(0.1), "0.1"),
            (Kind::Number, Value::Double(1e300), "1e+300"),
            (Kind::Bit, Value::Bytes(vec![1, 2]), "258"),
            (Kind::Set, bytes("a,b"), r#"["a","b"]"#),
            (Kind::Set, bytes(""), "[]"),
            (Kind::Json, bytes("{\"a\":\n1.50}"), "{\"a\": 1.50}"),
            (Kind::Json, bytes("no"), "\"no\""),
            (Kind::Text, bytes("a\"\n"), r#""a\"\n""#),
            (Kind::Binary, Value::Bytes(vec![0, 255]), "\"AP8=\""),
            (
                Kind::Date,
                Value::Date(2026, 1, 2, 0, 0, 0, 0),
                "\"2026-01-02\"",
            ),
            (Kind::Datetime, Value::Date(0, 0, 0, 0, 0, 0, 0), "null"),
            (
                Kind::Timestamp,
                Value::Date(2026, 1, 2, 3, 4, 5, 60),
                "\"2026-01-02T03:04:05.00006Z\"",
            ),
            (
                Kind::Time,
                Value::Time(true, 1, 2, 3, 4, 0),
                "\"-26:03:04\"",
            ),
        ] {
            let found = json(kind, value);
            assert_eq!(found, expected);
            serde_json::from_str::<&RawValue>(&found).unwrap();
        }
    }
}
