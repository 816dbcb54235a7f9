//! Checks a whole encoded document in one pass, linear in its bytes and without allocation.
//!
//! What passes is exactly what the encoder could have written: every value in its one spelling,
//! items side by side with nothing between or shared, names UTF-8 and each once, the index complete
//! and in order.

use crate::container::Container;
use crate::error::Error;
use crate::layout::{SCAN_FIELDS_MAX, VERSION, Width, bucket, buckets, split_entry, tag};
use crate::limits::{DEPTH_MAX, ENCODED_BYTES_MAX};
use crate::raw::Raw;

/// Checks `document`, all of it.
pub(crate) fn check(document: &[u8]) -> Result<(), Error> {
    check_value(check_frame(document)?, 1, 1)
}

/// Checks the version of `document` and that its root can be opened as an object, which it returns.
pub(crate) fn check_frame(document: &[u8]) -> Result<&[u8], Error> {
    if document.len() > ENCODED_BYTES_MAX {
        return Err(Error::TooLarge {
            bytes: document.len(),
            bytes_max: ENCODED_BYTES_MAX,
        });
    }
    let corrupt = |offset, what| Err(Error::Corrupt { offset, what });
    let Some((&version, root)) = document.split_first() else {
        return corrupt(0, "no bytes");
    };
    if version != VERSION {
        return corrupt(0, "not a document, or of a newer format version");
    }
    if root
        .first()
        .is_none_or(|first| first & !0b11 != tag::OBJECT)
    {
        return corrupt(1, "a document must be an object");
    }
    match Container::object(root, 1) {
        Some(_) => Ok(root),
        None => corrupt(1, "no value of this format version"),
    }
}

/// Checks a value that starts at `offset` of the document; an array or object is at nesting
/// `depth`.
fn check_value(bytes: &[u8], offset: usize, depth: usize) -> Result<(), Error> {
    let corrupt = |what| Err(Error::Corrupt { offset, what });
    // A nesting that is too deep is reported below, as an error of its own.
    match Raw::parse(bytes, 1) {
        None => corrupt("no value of this format version"),
        Some(Raw::String(text)) if std::str::from_utf8(text).is_err() => {
            corrupt("a string that is not UTF-8")
        }
        Some(Raw::Array(_) | Raw::Object(_)) if depth > DEPTH_MAX => Err(Error::TooDeep {
            offset,
            depth_max: DEPTH_MAX,
        }),
        Some(Raw::Array(array)) => {
            check_items(array, offset, |item, at| check_value(item, at, depth + 1))
        }
        Some(Raw::Object(object)) => {
            check_items(object, offset, |item, at| {
                let entry = split_entry(item);
                let Some((_, value)) = entry.filter(|(name, _)| std::str::from_utf8(name).is_ok())
                else {
                    return Err(Error::Corrupt {
                        offset: at,
                        what: "a field without a name in UTF-8",
                    });
                };
                check_value(value, at + item.len() - value.len(), depth + 1)
            })?;
            if names_are_sound(object) {
                Ok(())
            } else {
                corrupt("field names repeat or their index is wrong")
            }
        }
        Some(Raw::Null | Raw::Bool(_) | Raw::Number(_) | Raw::String(_)) => Ok(()),
    }
}

/// Checks that the items lie side by side up to the table of their ends, and each of them.
fn check_items<'a>(
    container: Container<'a>,
    offset: usize,
    check_item: impl Fn(&'a [u8], usize) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut start = 1;
    for index in 0..container.count {
        let item = container
            .end(index)
            .and_then(|end| container.bytes.get(start..end));
        let Some(item) = item else {
            return Err(Error::Corrupt {
                offset,
                what: "items of an array or object out of order",
            });
        };
        check_item(item, offset + start)?;
        start += item.len();
    }
    if start != container.ends_at || container.width != Width::of(start) {
        return Err(Error::Corrupt {
            offset,
            what: "items and tables of an array or object do not meet",
        });
    }
    Ok(())
}

/// Whether the names of `object` differ and its index is the one the encoder writes.
fn names_are_sound(object: Container<'_>) -> bool {
    if object.count <= SCAN_FIELDS_MAX {
        let names = || {
            (0..object.count)
                .filter_map(|index| object.entry(index))
                .map(|(name, _)| name)
        };
        return names()
            .enumerate()
            .all(|(index, name)| names().take(index).all(|earlier| earlier != name));
    }
    index_is_sound(object).unwrap_or(false)
}

/// Whether names ascend strictly within their buckets, and the buckets divide the whole list. Then
/// the list names each entry once: it has as many places as there are entries, and no name twice.
fn index_is_sound(object: Container<'_>) -> Option<bool> {
    let buckets = buckets(object.count);
    let mut place = 0;
    for current in 0..buckets {
        let end = object.bucket_end(current)?;
        let mut before: Option<&[u8]> = None;
        if end < place || end > object.count {
            return Some(false);
        }
        while place < end {
            let (name, _) = object.entry(object.listed(place)?)?;
            if bucket(name, buckets) != current || before.is_some_and(|before| before >= name) {
                return Some(false);
            }
            before = Some(name);
            place += 1;
        }
    }
    Some(place == object.count)
}
