//! What a document's key is as a value.

use quire_model::{Key, ValueRef};

/// What queries see in the field `_id` of a document whose key has this text: the integer that the
/// key is, or the text.
#[must_use]
pub fn id_value(key: &str) -> ValueRef<'_> {
    let integer = Key::parse(key).ok().and_then(|key| key.as_integer());
    let signed = integer.and_then(|integer| i64::try_from(integer).ok());
    let unsigned = integer.and_then(|integer| u64::try_from(integer).ok());
    match (signed, unsigned) {
        (Some(integer), _) => ValueRef::Int(integer),
        (None, Some(integer)) => ValueRef::UInt(integer),
        (None, None) => ValueRef::String(key),
    }
}
