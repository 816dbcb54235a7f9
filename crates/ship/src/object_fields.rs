//! The fields of a JSON object as they are written, in their order.

use crate::error::Error;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The names and values of an object's fields.
///
/// # Errors
/// If it is no object.
pub(crate) fn object_fields(document: &str) -> Result<Vec<(String, &RawValue)>, Error> {
    let mut parser = serde_json::Deserializer::from_str(document);
    let fields = parser.deserialize_map(FieldsVisitor);
    fields.map_err(|error| Error::Source(error.to_string()))
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }
}

/// Appends text as a JSON string.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    match text.bytes().all(is_plain) {
        true => {
            out.push(b'"');
            out.extend_from_slice(text.as_bytes());
            out.push(b'"');
        }
        false => out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes()),
    }
}
