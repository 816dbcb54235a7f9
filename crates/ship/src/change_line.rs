//! A change as a line of JSON, as `quire tail` and `_changes` print it.

use crate::change::Change;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Line<'a> {
    partition: u32,
    position: u64,
    #[serde(default)]
    time_micros: i64,
    #[serde(borrow)]
    key: &'a RawValue,
    #[serde(borrow)]
    document: Option<&'a RawValue>,
    #[serde(default)]
    deleted: bool,
}

/// Reads a line.
///
/// # Errors
/// If it is none: a part of a sentence that says why.
pub(crate) fn read(line: &str) -> Result<Change, String> {
    let line: Line<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let document = match (line.document, line.deleted) {
        (Some(document), false) => Some(document.get().into()),
        (None, true) => None,
        _ => return Err("it has neither a document nor \"deleted\":true".to_owned()),
    };
    Ok(Change {
        partition: line.partition,
        position: line.position,
        time_micros: line.time_micros,
        key: key_text(line.key.get())?.into(),
        document,
    })
}

/// The text of a key that is a JSON string or integer.
///
/// # Errors
/// If it is neither: a sentence that says so.
pub fn key_text(json: &str) -> Result<String, String> {
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json).map_err(|error| error.to_string()),
        Some(b'-' | b'0'..=b'9') if !json.contains(['.', 'e', 'E']) => Ok(json.to_owned()),
        _ => Err(format!("the key {json} is neither a string nor an integer")),
    }
}

/// Appends the line of a change, with its end.
pub(crate) fn write(change: &Change, out: &mut Vec<u8>) {
    let Change {
        partition,
        position,
        time_micros,
        key,
        document,
    } = change;
    let key = serde_json::Value::from(&**key);
    let head = format!(
        "{{\"partition\":{partition},\"position\":{position},\"time_micros\":{time_micros},\
         \"key\":{key},"
    );
    out.extend_from_slice(head.as_bytes());
    match document {
        Some(document) => {
            out.extend_from_slice(b"\"document\":");
            out.extend_from_slice(document.as_bytes());
        }
        None => out.extend_from_slice(b"\"deleted\":true"),
    }
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_read_as_it_was_written() {
        for document in [None, Some(r#"{"a":[1.50,"}"]}"#)] {
            let change = Change {
                partition: 3,
                position: 9,
                time_micros: 7,
                key: "a\"\n".into(),
                document: document.map(Into::into),
            };
            let mut line = Vec::new();
            write(&change, &mut line);
            let line = String::from_utf8(line).unwrap();
            assert_eq!(line.matches('\n').count(), 1);
            assert_eq!(read(&line), Ok(change));
        }
        let number = r#"{"partition":0,"position":1,"time_micros":5,"key":-42,"deleted":true}"#;
        assert_eq!(&*read(number).unwrap().key, "-42");
        assert!(read(r#"{"partition":0,"position":1,"key":"k"}"#).is_err());
    }
}
