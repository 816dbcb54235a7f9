//! A memcached value in a document: its JSON, or one field of it.
//!
//! # A field
//! ```text
//! NAME          the value: text as a string; of any other JSON value, such as a number, its text
//! NAME_base64   instead of it, a value that is not UTF-8, in base64
//! NAME_flags    the client's flags, if they are not 0
//! ```
//! Other fields of the document are not changed. A document without the first two fields, or with
//! null in them, has no value: a miss. If the value is removed from a document that has other
//! fields, they stay; otherwise the document is deleted.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use quire_model::{DOCUMENT_BYTES_MAX, Document, ErrorKind, ValueRef};
use quiredb::{Found, Key, Position, Write};

use super::outcome::Outcome;
use super::refusal::TOO_LARGE;
use crate::http::answer::write_string;
use crate::http::buffers::{COPIES, written_bytes};

/// Where values are in documents.
#[derive(Debug, Clone)]
pub(crate) enum Values {
    /// The value is the document.
    Json,
    Field(Names),
}

/// The fields of a value.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(super) value: String,
    pub(super) flags: String,
    base64: String,
}

/// A value as it is stored.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) value: Vec<u8>,
    pub(crate) flags: u32,
    /// The value is a JSON number, and stays one.
    pub(crate) is_number: bool,
}

impl Values {
    /// Values are in the field of this name; without one, they are the documents.
    pub(crate) fn new(field: Option<&str>) -> Values {
        match field {
            None => Values::Json,
            Some(field) => Values::Field(Names {
                value: field.to_owned(),
                flags: format!("{field}_flags"),
                base64: format!("{field}_base64"),
            }),
        }
    }

    /// Appends a document's value and gives its flags; none if it has no value.
    pub(crate) fn read(&self, document: &Document, out: &mut Vec<u8>) -> Option<u32> {
        let Values::Field(names) = self else {
            document.write_json(out);
            return Some(0);
        };
        match document.get(&names.value) {
            Some(ValueRef::String(text)) => out.extend_from_slice(text.as_bytes()),
            None | Some(ValueRef::Null) => match document.get(&names.base64) {
                Some(ValueRef::String(text)) => BASE64.decode_vec(text, out).ok()?,
                _ => return None,
            },
            Some(other) => other.write_json(out),
        }
        match document.get(&names.flags) {
            Some(ValueRef::Int(flags)) => Some(u32::try_from(flags).unwrap_or(0)),
            _ => Some(0),
        }
    }

    /// The value of a document, to be changed and stored again.
    pub(crate) fn stored(&self, document: &Document) -> Option<Stored> {
        let mut value = Vec::new();
        let flags = self.read(document, &mut value)?;
        let is_number = match self {
            Values::Json => false,
            Values::Field(names) => matches!(
                document.get(&names.value),
                Some(ValueRef::Int(_) | ValueRef::UInt(_))
            ),
        };
        Some(Stored {
            value,
            flags,
            is_number,
        })
    }

    /// Whether values are whole documents.
    pub(crate) fn are_documents(&self) -> bool {
        matches!(self, Values::Json)
    }

    /// Whether a document has nothing but a value.
    pub(crate) fn is_alone(&self, document: &Document) -> bool {
        match self {
            Values::Json => true,
            Values::Field(names) => !names.are_beside_others(document),
        }
    }

    /// The bytes that storing a large value takes beside the value: the text of its document, and
    /// what is made of that.
    pub(crate) fn written_bytes(&self, value: &[u8]) -> Result<usize, Outcome> {
        match self {
            Values::Json => Ok(written_bytes(value).saturating_sub(value.len())),
            Values::Field(_) => {
                let text_bytes = match std::str::from_utf8(value) {
                    Ok(text) => ValueRef::String(text).json_bytes(),
                    Err(_) => value.len().div_ceil(3).saturating_mul(4),
                };
                match text_bytes > DOCUMENT_BYTES_MAX {
                    true => Err(Outcome::Refused(TOO_LARGE)),
                    false => Ok(text_bytes * COPIES),
                }
            }
        }
    }

    /// The write that sets the value unconditionally. If values are a field, the write is a patch,
    /// which needs a document.
    pub(crate) fn set(&self, key: &Key, value: &[u8], flags: u32) -> Result<Write, Outcome> {
        match self {
            Values::Json => Ok(Write::put(key.clone(), json_document(value, flags)?)),
            Values::Field(names) => {
                let patch = names.document(value, flags, false, true)?;
                Ok(Write::patch(key.clone(), patch))
            }
        }
    }

    /// The write that stores the value, on condition that the document still has the version found,
    /// or is absent.
    pub(crate) fn store(
        &self,
        key: &Key,
        found: Option<Position>,
        stored: &Stored,
    ) -> Result<Write, Outcome> {
        let Stored {
            value,
            flags,
            is_number,
        } = stored;
        match (self, found) {
            (Values::Json, _) => {
                let put = Write::put(key.clone(), json_document(value, *flags)?);
                Ok(match found {
                    None => put.if_absent(),
                    Some(version) => put.if_version(version),
                })
            }
            (Values::Field(names), None) => {
                let document = names.document(value, *flags, *is_number, false)?;
                Ok(Write::put(key.clone(), document).if_absent())
            }
            (Values::Field(names), Some(version)) => {
                let patch = names.document(value, *flags, *is_number, true)?;
                Ok(Write::patch(key.clone(), patch).if_version(version))
            }
        }
    }

    /// The write that changes nothing in the document, on condition that it still has the version
    /// found.
    pub(crate) fn keep(found: &Found) -> Result<Write, Outcome> {
        let nothing = Values::no_document()?;
        Ok(Write::patch(found.key.clone(), nothing).if_version(found.version))
    }

    /// A document without a field.
    pub(super) fn no_document() -> Result<Document, Outcome> {
        Document::from_json(b"{}").map_err(|error| refused(&error))
    }

    /// The write that removes the value, on condition that the document still has the version
    /// found.
    pub(crate) fn remove(&self, found: &Found) -> Result<Write, Outcome> {
        let key = found.key.clone();
        let write = match self {
            Values::Field(names) if names.are_beside_others(&found.document) => {
                Write::patch(key, names.nothing()?)
            }
            _ => Write::delete(key),
        };
        Ok(write.if_version(found.version))
    }
}

impl Names {
    fn all(&self) -> [&str; 3] {
        [&self.value, &self.base64, &self.flags]
    }

    fn are_beside_others(&self, document: &Document) -> bool {
        document
            .fields()
            .any(|(name, _)| !self.all().contains(&name))
    }

    /// A document of these fields alone. As a merge patch it also removes those of them that the
    /// value does not have.
    pub(super) fn document(
        &self,
        value: &[u8],
        flags: u32,
        is_number: bool,
        is_patch: bool,
    ) -> Result<Document, Outcome> {
        let mut json = Vec::with_capacity(value.len() + 64);
        let mut field = |name: &str, write: &dyn Fn(&mut Vec<u8>)| {
            json.push(if json.is_empty() { b'{' } else { b',' });
            write_string(name, &mut json);
            json.push(b':');
            write(&mut json);
        };
        let null = |json: &mut Vec<u8>| json.extend_from_slice(b"null");
        let absent = match std::str::from_utf8(value) {
            Ok(text) if is_number => {
                field(&self.value, &|json| json.extend_from_slice(text.as_bytes()));
                &self.base64
            }
            Ok(text) => {
                field(&self.value, &|json| write_string(text, json));
                &self.base64
            }
            Err(_) => {
                let text = BASE64.encode(value);
                field(&self.base64, &|json| write_string(&text, json));
                &self.value
            }
        };
        if flags != 0 {
            field(&self.flags, &|json| {
                json.extend_from_slice(flags.to_string().as_bytes());
            });
        } else if is_patch {
            field(&self.flags, &null);
        }
        if is_patch {
            field(absent, &null);
        }
        json.push(b'}');
        Document::from_json(&json).map_err(|error| refused(&error))
    }

    /// The merge patch that removes these fields.
    fn nothing(&self) -> Result<Document, Outcome> {
        let mut json = Vec::new();
        for name in self.all() {
            json.push(if json.is_empty() { b'{' } else { b',' });
            write_string(name, &mut json);
            json.extend_from_slice(b":null");
        }
        json.push(b'}');
        Document::from_json(&json).map_err(|error| refused(&error))
    }
}

/// Parses a value that is a document.
fn json_document(value: &[u8], flags: u32) -> Result<Document, Outcome> {
    if flags != 0 {
        return Err(Outcome::client_error(
            "flags must be 0: the value is a JSON document, which has no place for them",
        ));
    }
    Document::from_json(value).map_err(|error| refused(&error))
}

fn refused(error: &quire_model::Error) -> Outcome {
    match error.kind() {
        ErrorKind::TooLarge => Outcome::Refused(TOO_LARGE),
        _ => Outcome::client_error(&format!("the value is not a JSON document: {error}")),
    }
}
