//! A record as a change of a document.

use quire_ship::{Change, key_text};
use rskafka::record::RecordAndOffset;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The position of the change that a record is.
pub(crate) fn position(offset: i64) -> u64 {
    offset.unsigned_abs().saturating_add(1)
}

/// The offset of the record that comes after a position.
pub(crate) fn offset_after(position: u64) -> i64 {
    i64::try_from(position).unwrap_or(i64::MAX)
}

/// The change. `key_field` is the field with the document's key; none if it is that of the record.
///
/// # Errors
/// If it is no document with a key: a part of a sentence that says why.
pub(crate) fn change(
    partition: u32,
    record: RecordAndOffset,
    key_field: Option<&str>,
) -> Result<Change, String> {
    let RecordAndOffset { record, offset } = record;
    let text = |bytes: Vec<u8>, what: &str| {
        String::from_utf8(bytes).map_err(|_| format!("its {what} is not UTF-8"))
    };
    let value = record.value.map(|value| text(value, "value")).transpose()?;
    let of_field = match (&value, key_field) {
        (Some(value), Some(field)) => Some(key_in(value, field)?),
        _ => None,
    };
    let key = match (of_field, record.key) {
        (Some(key), _) => key,
        (None, Some(key)) => text(key, "key")?,
        (None, None) => {
            return Err("it has no key: name the field that has it, as key_field".to_owned());
        }
    };
    Ok(Change {
        partition,
        position: position(offset),
        time_micros: record.timestamp.timestamp_micros(),
        key: key.into(),
        document: value.map(in_one_line).transpose()?,
    })
}

/// The key of a document in one of its fields.
fn key_in(value: &str, field: &str) -> Result<String, String> {
    let fields: BTreeMap<String, &RawValue> =
        serde_json::from_str(value).map_err(|error| format!("its value is no object: {error}"))?;
    let key = fields
        .get(field)
        .ok_or_else(|| format!("the document has no field {field:?}, its key"))?;
    key_text(key.get())
}

/// A JSON object without line ends, which may be between its tokens alone.
fn in_one_line(value: String) -> Result<Box<str>, String> {
    let json: &RawValue =
        serde_json::from_str(&value).map_err(|error| format!("its value is no JSON: {error}"))?;
    if !json.get().starts_with('{') {
        return Err("its value is no JSON object".to_owned());
    }
    let json = json.get();
    Ok(match memchr::memchr2(b'\n', b'\r', json.as_bytes()) {
        None => json.into(),
        Some(_) => json.replace(['\n', '\r'], " ").into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rskafka::record::Record;

    fn record(key: Option<&str>, value: Option<&str>) -> RecordAndOffset {
        RecordAndOffset {
            record: Record {
                key: key.map(Into::into),
                value: value.map(Into::into),
                headers: BTreeMap::new(),
                timestamp: "2026-11-23T00:00:00.5Z".parse().unwrap(),
            },
            offset: 6,
        }
    }

    #[test]
    fn a_record_is_a_change_at_its_offset_and_one_without_a_value_a_deletion() {
        let value = "{\"a\":\r\n 1.50,\"b\":\"x\\n\"}";
        let read = change(3, record(Some("k"), Some(value)), None).unwrap();
        assert_eq!((read.partition, read.position, &*read.key), (3, 7, "k"));
        assert_eq!(
            read.document.as_deref(),
            Some("{\"a\":   1.50,\"b\":\"x\\n\"}")
        );
        assert_eq!(read.time_micros, 1_795_392_000_500_000);
        let gone = change(0, record(Some("k"), None), Some("id")).unwrap();
        assert_eq!((&*gone.key, gone.document), ("k", None));
        let of_field = change(0, record(None, Some(r#"{"id":-7,"a":{}}"#)), Some("id"));
        assert_eq!(&*of_field.unwrap().key, "-7");
        assert_eq!(offset_after(position(6)), 7);
    }

    #[test]
    fn what_is_no_document_with_a_key_is_refused_with_a_reason() {
        for (key, value, field, why) in [
            (None, Some("{}"), None, "key_field"),
            (Some("k"), Some("[1]"), None, "no JSON object"),
            (Some("k"), Some("{\"a\":"), None, "no JSON"),
            (Some("k"), Some("{}"), Some("id"), "no field \"id\""),
            (
                Some("k"),
                Some("{\"id\":1.5}"),
                Some("id"),
                "neither a string",
            ),
            (None, None, Some("id"), "no key"),
        ] {
            let error = change(0, record(key, value), field).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let mut bytes = record(Some("k"), None);
        bytes.record.value = Some(vec![0xff]);
        assert!(change(0, bytes, None).unwrap_err().contains("UTF-8"));
    }
}
