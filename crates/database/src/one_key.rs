//! One key: what a document says of its own key is never another than the one it is written under.
//!
//! # Invariants
//! 1. The collection's key field, and `_id`, hold the document's key wherever a document that was
//!    written has them. A document may have neither: its key is beside it.
//! 2. A document that broke this rule before there was one stays readable. It is written again only
//!    when it keeps the rule, except by the repair, which drops nothing.

use crate::{Error, Result};
use quire_collection::{Action, ID, Write};
use quire_model::{Document, Key, ValueRef};

/// The longest value that an error shows, in characters.
const SHOWN_MAX: usize = 64;

/// Refuses a write whose document, or patch, names another key than the write's.
pub(crate) fn check(key_field: &str, write: &Write) -> Result<()> {
    let contradiction = match &write.action {
        Action::Delete => return Ok(()),
        Action::Put(document) => contradiction(key_field, &write.key, document),
        // A patch with null takes the field out.
        Action::Patch(patch) => contradiction(key_field, &write.key, patch)
            .filter(|(_, value)| !matches!(value, ValueRef::Null)),
    };
    let Some((field, value)) = contradiction else {
        return Ok(());
    };
    let mut json = Vec::new();
    value.write_json(&mut json);
    let text = String::from_utf8_lossy(&json);
    let mut shown: String = text.chars().take(SHOWN_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    let why = match field == key_field {
        true => "the collection's key field",
        false => "the name of the key in every collection",
    };
    Err(Error::Invalid(format!(
        "the document is written under the key {}, but its field {field:?} is {shown}: {field:?} \
         is {why}, so leave it out or make it that key",
        write.key
    )))
}

/// The field in which a document has another value than its key, and that value.
pub(crate) fn contradiction<'d>(
    key_field: &'d str,
    key: &Key,
    document: &'d Document,
) -> Option<(&'d str, ValueRef<'d>)> {
    let others = (key_field != ID).then_some(ID);
    let mut fields = [key_field].into_iter().chain(others);
    fields.find_map(|field| {
        let value = document.get(field)?;
        let is_key = Key::from_value(value).is_ok_and(|named| named == *key);
        (!is_key).then_some((field, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_may_not_name_another_key_than_its_own() {
        let cases = [
            ("_id", "k", r#"{"a":1}"#, true),
            ("_id", "k", r#"{"_id":"k"}"#, true),
            ("_id", "k", r#"{"_id":"l"}"#, false),
            ("_id", "k", r#"{"_id":["k"]}"#, false),
            ("_id", "k", r#"{"_id":null}"#, false),
            ("_id", "42", r#"{"_id":42}"#, true),
            ("_id", "42", r#"{"_id":"42"}"#, true),
            ("_id", "42", r#"{"_id":42.0}"#, false),
            ("_id", "k", r#"{"x":{"_id":"l"},"sku":"l"}"#, true),
            ("sku", "k", r#"{"sku":"k"}"#, true),
            ("sku", "k", r#"{"sku":"l"}"#, false),
            ("sku", "k", r#"{"_id":"k"}"#, true),
            ("sku", "k", r#"{"sku":"k","_id":"l"}"#, false),
        ];
        for (field, key, json, is_right) in cases {
            let key = Key::parse(key).unwrap();
            let document = Document::from_json(json.as_bytes()).unwrap();
            let put = check(field, &Write::put(key.clone(), document.clone()));
            assert_eq!(put.is_ok(), is_right, "{json} under {key}, by {field}");
            let patch = check(field, &Write::patch(key, document));
            assert_eq!(patch.is_ok(), is_right || json.contains("null"), "{json}");
        }
    }

    #[test]
    fn the_error_names_the_key_the_field_and_what_to_do() {
        let json = format!(r#"{{"_id":"é{}"}}"#, "x".repeat(5000));
        let document = Document::from_json(json.as_bytes()).unwrap();
        let write = Write::put(Key::parse("k1").unwrap(), document);
        let error = check("sku", &write).unwrap_err().to_string();
        for part in ["key k1", "\"_id\"", "leave it out"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(error.len() < 400, "{error}");
    }
}
