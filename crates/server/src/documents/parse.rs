//! Ids and documents from the bytes of a request.

use quire_model::{DOCUMENT_BYTES_MAX, ErrorKind};
use quiredb::{Collection, Document, Key};

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
    Document::from_json(json).map_err(|error| document_failure(&error))
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
