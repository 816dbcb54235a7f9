//! A column's value as JSON.
//!
//! | column | JSON |
//! | --- | --- |
//! | `smallint`, `integer`, `bigint`, `oid`, `numeric` | a number with all its digits |
//! | `real`, `double precision` | the shortest number that reads back the same |
//! | `NaN` and infinities | text |
//! | `boolean` | `true`, `false` |
//! | `json`, `jsonb` | as it is |
//! | `timestamp` | `2026-11-23T04:05:06.5` |
//! | `timestamptz` | as `timestamp`, in UTC with `Z` |
//! | `bytea` | base64 |
//! | an array | an array of the element's JSON |
//! | a domain | as the type that it is of |
//! | others | text, as the server writes it |

use crate::array::{self, Item};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Number,
    Text,
    Json,
    Timestamp,
    TimestampTz,
    Binary,
    Array { of: Box<Kind>, delimiter: char },
}

/// Appends a value as JSON.
pub(crate) fn write_json(kind: &Kind, value: Option<&str>, out: &mut String) {
    let Some(value) = value else {
        return out.push_str("null");
    };
    match kind {
        Kind::Bool if value == "t" || value == "f" => {
            out.push_str(if value == "t" { "true" } else { "false" });
        }
        Kind::Number if value.ends_with(|last: char| last.is_ascii_digit()) => out.push_str(value),
        Kind::Json => write_raw_json(value, out),
        Kind::Array { of, delimiter } => match array::parse(value, *delimiter) {
            Some(item) => write_item(of, &item, out),
            None => write_text(value, out),
        },
        _ => write_text(&text(kind, value), out),
    }
}

/// A value as text, as it is in keys.
pub(crate) fn text(kind: &Kind, value: &str) -> String {
    match kind {
        Kind::Timestamp | Kind::TimestampTz => timestamp(value),
        Kind::Binary => match value.strip_prefix("\\x").and_then(unhex) {
            Some(bytes) => STANDARD.encode(bytes),
            None => value.to_owned(),
        },
        _ => value.to_owned(),
    }
}

fn write_item(kind: &Kind, item: &Item, out: &mut String) {
    match item {
        Item::Null => out.push_str("null"),
        Item::Text(text) => write_json(kind, Some(text), out),
        Item::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_item(kind, item, out);
            }
            out.push(']');
        }
    }
}

pub(crate) fn write_text(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// JSON text within a document: without line ends, which are only between its tokens.
fn write_raw_json(text: &str, out: &mut String) {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => out.push_str(&raw.get().replace(['\n', '\r'], " ")),
        Err(_) => write_text(text, out),
    }
}

/// A time as ISO 8601 has it; infinities and years before Christ stay as the server writes them.
fn timestamp(value: &str) -> String {
    let Some((date, time)) = value.split_once(' ').filter(|_| !value.ends_with("BC")) else {
        return value.to_owned();
    };
    match time.strip_suffix("+00") {
        Some(time) => format!("{date}T{time}Z"),
        None => format!("{date}T{time}"),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| match pair {
        [upper, lower] => Some(digit(*upper)? << 4 | digit(*lower)?),
        _ => None,
    });
    bytes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json_with_nothing_lost() {
        let array = |of: Kind| Kind::Array {
            of: Box::new(of),
            delimiter: ',',
        };
        for (kind, value, expected) in [
            (Kind::Bool, "t", "true"),
            (
                Kind::Number,
                "-12345678901234567890.0120",
                "-12345678901234567890.0120",
            ),
            (Kind::Number, "1e+300", "1e+300"),
            (Kind::Number, "NaN", "\"NaN\""),
            (Kind::Number, "-Infinity", "\"-Infinity\""),
            (Kind::Json, "{\"a\":\n1.50}", "{\"a\": 1.50}"),
            (Kind::Text, "a\"\n", r#""a\"\n""#),
            (Kind::Binary, "\\x00ff", "\"AP8=\""),
            (
                Kind::Timestamp,
                "2026-11-23 04:05:06.5",
                "\"2026-11-23T04:05:06.5\"",
            ),
            (
                Kind::TimestampTz,
                "2026-11-23 04:05:06+00",
                "\"2026-11-23T04:05:06Z\"",
            ),
            (Kind::Timestamp, "infinity", "\"infinity\""),
            (
                Kind::Timestamp,
                "0044-03-15 00:00:00 BC",
                "\"0044-03-15 00:00:00 BC\"",
            ),
            (array(Kind::Number), "{{1,2},{3,NULL}}", "[[1,2],[3,null]]"),
            (
                array(Kind::Text),
                r#"{a,"b,\"c","NULL"}"#,
                r#"["a","b,\"c","NULL"]"#,
            ),
            (array(Kind::Bool), "{}", "[]"),
            (array(Kind::Json), r#"{"{\"a\": 1}"}"#, "[{\"a\": 1}]"),
        ] {
            let mut found = String::new();
            write_json(&kind, Some(value), &mut found);
            assert_eq!(found, expected);
            serde_json::from_str::<&RawValue>(&found).unwrap();
        }
        let mut null = String::new();
        write_json(&Kind::Json, None, &mut null);
        assert_eq!(null, "null");
    }
}
