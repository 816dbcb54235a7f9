//! [`Document`]: one JSON object, encoded.

use crate::container::Container;
use crate::error::Error;
use crate::json_in;
use crate::json_out;
use crate::limits::DEPTH_MAX;
use crate::ordered::OrderedValue;
use crate::patch::{self, Nulls};
use crate::raw::Raw;
use crate::scalars;
use crate::validate;
use crate::value::{Fields, ObjectRef, ValueRef};
use bytes::Bytes;
use std::fmt;

/// A JSON object in its encoded form, which is read in place: no tree is built, and a field is
/// found in constant time. Cloning shares the bytes. A document is checked when it is made, so
/// reading can't fail.
///
/// Fields keep their order and numbers their text. Two documents are equal if their encodings are:
/// texts that differ only in white space and string escapes make equal documents.
///
/// ```
/// use quire_model::{Document, ValueRef};
///
/// let document = Document::from_json(br#"{"id": 7, "size": {"w": 2.50, "h": 4}}"#)?;
/// assert_eq!(document.get("id"), Some(ValueRef::Int(7)));
/// assert_eq!(document.get_path("size.h"), Some(ValueRef::Int(4)));
/// assert_eq!(document.to_json(), r#"{"id":7,"size":{"w":2.50,"h":4}}"#);
///
/// let stored = document.bytes();
/// assert_eq!(Document::from_bytes(stored)?, document);
/// # Ok::<(), quire_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Document {
    bytes: Bytes,
}

impl Document {
    /// Encodes the text of one JSON object, in one pass.
    ///
    /// # Errors
    /// Says what is wrong at which byte: text that is not JSON (RFC 8259) in UTF-8 or not one
    /// object; more than [`DOCUMENT_BYTES_MAX`](crate::DOCUMENT_BYTES_MAX) bytes or
    /// [`DEPTH_MAX`](crate::DEPTH_MAX) levels; a field twice in one object; an integer outside
    /// `i64::MIN..=u64::MAX` or a float beyond f64, which would have to be rounded.
    pub fn from_json(json: &[u8]) -> Result<Document, Error> {
        // Boxed first: without spare room the bytes are shared without one more allocation.
        let bytes = Bytes::from(json_in::encode(json)?.into_boxed_slice());
        debug_assert!(
            validate::check_frame(&bytes).is_ok(),
            "an encoded document can be opened"
        );
        Ok(Document { bytes })
    }

    /// The bytes of the encoding of `json`, for who reserves memory for it: arrays of small values
    /// take up to four times their text. Reads the text once and allocates next to nothing. The
    /// document may lie in another object, and so be one level deeper than a document is.
    ///
    /// # Errors
    /// As of `from_json`, but for a text that is too long, and a field that is there twice.
    pub fn encoded_bytes(json: &[u8]) -> Result<usize, Error> {
        json_in::encoded_bytes(json, DEPTH_MAX + 1)
    }

    /// The document of some fields, in this order. A float is written in the fewest digits that
    /// give it back, without an exponent.
    ///
    /// ```
    /// use quire_model::ordered::OrderedValue;
    /// use quire_model::Document;
    ///
    /// let fields = [("id", OrderedValue::Int(7)), ("price", OrderedValue::Float(2.5))];
    /// let document = Document::from_scalars(fields)?;
    /// assert_eq!(document.to_json(), r#"{"id":7,"price":2.5}"#);
    /// # Ok::<(), quire_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DuplicateField`]; [`Error::TooLarge`]; [`Error::InvalidJson`] for bytes, a
    /// timestamp, and a float that is whole or no number.
    pub fn from_scalars<'a>(
        fields: impl IntoIterator<Item = (&'a str, OrderedValue<'a>)>,
    ) -> Result<Document, Error> {
        let bytes = scalars::encode(fields)?;
        Ok(Document {
            bytes: Bytes::from(bytes.into_boxed_slice()),
        })
    }

    /// Takes an encoded document, checking all of it: one pass, linear in the bytes, without
    /// allocation.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if `bytes` are not exactly what [`from_json`](Self::from_json) could have
    /// made; [`Error::TooDeep`], [`Error::TooLarge`] (over
    /// [`ENCODED_BYTES_MAX`](crate::ENCODED_BYTES_MAX)) beyond the limits.
    pub fn from_bytes(bytes: Bytes) -> Result<Document, Error> {
        validate::check(&bytes)?;
        Ok(Document { bytes })
    }

    /// Takes an encoded document that a checksum has proved to be what was stored: only the frame
    /// of the root object is checked. In bytes that were never a document, fields that make no
    /// sense read as absent or null.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if `bytes` can't be a document of this version.
    pub fn from_stored(bytes: Bytes) -> Result<Document, Error> {
        validate::check_frame(&bytes)?;
        Ok(Document { bytes })
    }

    /// The encoding.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The encoding, shared.
    #[must_use]
    pub fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// The document as an object.
    #[must_use]
    pub fn root(&self) -> ObjectRef<'_> {
        ObjectRef(self.container())
    }

    /// The top-level field `name`, in constant time.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<ValueRef<'_>> {
        self.root().get(name)
    }

    /// The field at a dotted path: see [`ObjectRef::get_path`].
    #[must_use]
    pub fn get_path(&self, path: &str) -> Option<ValueRef<'_>> {
        self.root().get_path(path)
    }

    /// The top-level fields in the order they were written.
    #[must_use]
    pub fn fields(&self) -> Fields<'_> {
        self.root().fields()
    }

    /// Number of top-level fields.
    #[must_use]
    pub fn len(&self) -> usize {
        self.container().count
    }

    /// Whether it is `{}`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the document as compact JSON: fields in their order, numbers as written.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        json_out::write_value(&Raw::Object(self.container()), out);
    }

    /// The document as compact JSON: fields in their order, numbers as written.
    #[must_use]
    pub fn to_json(&self) -> String {
        json_out::to_json(Raw::Object(self.container()), self.bytes.len())
    }

    /// This document changed by a JSON merge patch (RFC 7396): the patch's fields replace ours,
    /// objects merge field by field, null removes. Our fields keep their places; new ones follow in
    /// the patch's order.
    ///
    /// ```
    /// # use quire_model::Document;
    /// let document = Document::from_json(br#"{"title": "old", "tags": ["a"], "draft": true}"#)?;
    /// let patch = Document::from_json(br#"{"title": "new", "draft": null}"#)?;
    /// assert_eq!(document.merge_patch(&patch)?.to_json(), r#"{"title":"new","tags":["a"]}"#);
    /// # Ok::<(), quire_model::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the result, as text, is over
    /// [`DOCUMENT_BYTES_MAX`](crate::DOCUMENT_BYTES_MAX).
    pub fn merge_patch(&self, patch: &Document) -> Result<Document, Error> {
        self.merged(patch, Nulls::Remove)
    }

    /// As [`merge_patch`](Self::merge_patch), but null is a value: the field stays and holds it.
    ///
    /// # Errors
    /// As of `merge_patch`.
    pub fn merge(&self, partial: &Document) -> Result<Document, Error> {
        self.merged(partial, Nulls::Keep)
    }

    fn merged(&self, patch: &Document, nulls: Nulls) -> Result<Document, Error> {
        let merged = patch::merge(self.container(), patch.container(), nulls)?;
        Ok(Document {
            bytes: Bytes::from(merged.into_boxed_slice()),
        })
    }

    /// The root object, behind the version byte.
    fn container(&self) -> Container<'_> {
        // A document is known to be an object; the fallback is for the compiler.
        let root = self.bytes.get(1..).unwrap_or_default();
        Container::object(root, 1).unwrap_or(Container::EMPTY)
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

#[cfg(test)]
mod tests;
