//! A document with its key in a field.

use super::Result;
use super::id_value::id_value;
use super::indexer::ID;
use quire_model::{Document, Key};

/// The document, with its key in the field [`ID`], whatever it has in that field.
///
/// # Errors
/// If the document would be larger than documents may be.
pub fn with_key(document: Document, key: &Key) -> Result<Document> {
    let text = key.to_string();
    let id = id_value(&text);
    if document.get(ID) == Some(id) {
        return Ok(document);
    }
    let mut json = format!("{{\"{ID}\":").into_bytes();
    id.write_json(&mut json);
    json.push(b'}');
    Ok(document.merge_patch(&Document::from_json(&json)?)?)
}
