//! What a document's key is as a value.

use quire_model::{Key, ValueRef};

/// What queries see in the field `_id` of a document whose key has this text: the integer that the
/// key is, or the text.
#[must_use]
pub fn id_value(key: &str) -> ValueRef<'_> {
    let integer = Key::parse(key).ok().and_then(|key| key.as_integer());
    integer
        .and_then(of_integer)
        .unwrap_or(ValueRef::String(key))
}

/// The same of a key.
pub(crate) fn id_of_key(key: &Key) -> ValueRef<'_> {
    let text = || ValueRef::String(key.as_str().unwrap_or_default());
    key.as_integer().and_then(of_integer).unwrap_or_else(text)
}

fn of_integer(integer: i128) -> Option<ValueRef<'static>> {
    match (i64::try_from(integer), u64::try_from(integer)) {
        (Ok(integer), _) => Some(ValueRef::Int(integer)),
        (Err(_), Ok(integer)) => Some(ValueRef::UInt(integer)),
        (Err(_), Err(_)) => None,
    }
}
