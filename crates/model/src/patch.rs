//! Merges of encoded documents, as a JSON merge patch (RFC 7396) has them or with nulls as values.
//! Values that the patch does not change are copied as bytes.

use crate::container::Container;
use crate::encoder::{DuplicateName, Encoder, Output};
use crate::error::{Error, excerpt};
use crate::json_out;
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::raw::Raw;

/// The text of a value is at most this many times as long as its encoding: worst is a decimal of 22
/// zeros after the point, 26 bytes of text in 3.
const TEXT_RATIO_MAX: usize = 16;

/// What a null in a patch does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// It removes the field.
    Remove,
    /// It is the field's value.
    Keep,
}

/// The document `target` as changed by `patch`, both whole encodings without their version byte.
pub(crate) fn merge(
    target: Container<'_>,
    patch: Container<'_>,
    nulls: Nulls,
) -> Result<Vec<u8>, Error> {
    let mut encoder = Encoder::with_capacity(target.bytes.len() + patch.bytes.len());
    // Both objects have no name twice, so the result has none; this error is for the compiler.
    let duplicate = |DuplicateName(name)| Error::DuplicateField {
        name: excerpt(&name),
        offset: 0,
    };
    merge_object(Some(target), patch, nulls, &mut encoder).map_err(duplicate)?;
    let merged = encoder.finish();
    check_text_bytes(&merged)?;
    Ok(merged)
}

/// Writes `target` (nothing, if it is not an object) as changed by `patch`. Nested no deeper than
/// the deeper of both.
fn merge_object(
    target: Option<Container<'_>>,
    patch: Container<'_>,
    nulls: Nulls,
    encoder: &mut Encoder,
) -> Result<(), DuplicateName> {
    let open = encoder.begin();
    let depth = patch.depth_inside();
    for (name, value) in target.iter().flat_map(Container::entries) {
        match patch.find(name) {
            None => {
                encoder.name(name);
                encoder.value(value);
            }
            Some(change) => {
                if !write_change(name, Some(value), change, depth, nulls, encoder)? {
                    continue;
                }
            }
        }
        encoder.end_item(open);
    }
    for (name, change) in patch.entries() {
        let is_new = target.is_none_or(|target| target.find(name).is_none());
        if is_new && write_change(name, None, change, depth, nulls, encoder)? {
            encoder.end_item(open);
        }
    }
    encoder.end_object(open)
}

/// Writes the field `name`, nested `depth` deep, as `change` makes it of `old`; false if that is no
/// field.
fn write_change(
    name: &[u8],
    old: Option<&[u8]>,
    change: &[u8],
    depth: u8,
    nulls: Nulls,
    encoder: &mut Encoder,
) -> Result<bool, DuplicateName> {
    match Raw::parse(change, depth) {
        Some(Raw::Null) if nulls == Nulls::Remove => return Ok(false),
        Some(Raw::Object(patch)) => {
            encoder.name(name);
            let old = old.and_then(|old| Container::object(old, depth));
            merge_object(old, patch, nulls, encoder)?;
        }
        _ => {
            encoder.name(name);
            encoder.value(change);
        }
    }
    Ok(true)
}

/// Checks that the text of the document is within the limit for documents.
fn check_text_bytes(document: &[u8]) -> Result<(), Error> {
    if document.len() <= DOCUMENT_BYTES_MAX / TEXT_RATIO_MAX {
        return Ok(());
    }
    let root = Container::object(document.get(1..).unwrap_or_default(), 1);
    let bytes = root.map_or(0, |root| json_out::text_bytes(&Raw::Object(root)));
    if bytes > DOCUMENT_BYTES_MAX {
        return Err(Error::TooLarge {
            bytes,
            bytes_max: DOCUMENT_BYTES_MAX,
        });
    }
    Ok(())
}
