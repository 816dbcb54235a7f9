//! Ids and documents from the bytes of a request.

use memchr::memmem;
use quire_model::{DOCUMENT_BYTES_MAX, ErrorKind};
use quiredb::{Collection, Document, Key, ValueRef};

use crate::engine::Engine;
use crate::http::failure::{Failure, Outcome};

pub(crate) fn parse_key(id: &str) -> Outcome<Key> {
    if id.is_empty() {
        let what = "if _id is specified it must not be empty";
        return Err(Failure::illegal_argument(what));
    }
    Key::parse(id).map_err(|error| Failure::illegal_argument(format!("_id: {error}")))
}

pub(crate) fn parse_document(json: &[u8]) -> Outcome<Document> {
    if json.is_empty() {
        return Err(Failure::parse("request body is required"));
    }
    document_of(json)
}

/// The document of an object of JSON. A field whose name has nothing but dots is refused: no path
/// leads to it.
pub(crate) fn document_of(json: &[u8]) -> Outcome<Document> {
    let document = Document::from_json(json).map_err(|error| document_failure(&error))?;
    // Few documents have these bytes, and the others need no look at their fields.
    let may_have = memmem::find(json, b"\".").is_some();
    if may_have && has_dots(ValueRef::Object(document.root())) {
        let what = "field name cannot contain only the character [.]";
        return Err(Failure::document(what));
    }
    Ok(document)
}

/// Whether an object in a value has a field whose name has nothing but dots. Recursion is as deep
/// as the document, which has a bound.
fn has_dots(value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Object(object) => object.fields().any(|(name, value)| {
            let is_dots = !name.is_empty() && name.bytes().all(|byte| byte == b'.');
            is_dots || has_dots(value)
        }),
        ValueRef::Array(array) => array.iter().any(has_dots),
        _ => false,
    }
}

pub(crate) fn document_failure(error: &quire_model::Error) -> Failure {
    match error.kind() {
        ErrorKind::TooLarge => Failure::too_large(error.to_string()),
        _ => Failure::document(error.to_string()),
    }
}

pub(crate) fn document_too_long(bytes: u64) -> Failure {
    Failure::too_large(format!(
        "document of {bytes} bytes is over the limit of {DOCUMENT_BYTES_MAX}"
    ))
}

/// The key of a document to be put: the one that the caller gives, else the one in its key field,
/// else a new one. True if it is new: no document can have it yet.
pub(crate) fn key_of(
    engine: &Engine,
    collection: &Collection,
    given: Option<Key>,
    document: &Document,
) -> Outcome<(Key, bool)> {
    if let Some(key) = given {
        return Ok((key, false));
    }
    if document.get(&collection.settings().key_field).is_some() {
        let key = collection.key_of(document);
        return Ok((
            key.map_err(|error| Failure::document(error.to_string()))?,
            false,
        ));
    }
    Ok((parse_key(&engine.new_id())?, true))
}
