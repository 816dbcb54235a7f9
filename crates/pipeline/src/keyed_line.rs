//! Lines that carry a document and its key, so that a copy made of them has the same keys and the
//! same bytes.
//!
//! # Invariants
//! 1. What [`write_line`] writes of a document and its key, [`read`] reads as that document under
//!    that key, if both collections have the same key field.
//! 2. A document that has its key in the key field is a line as it is. So a line without any of the
//!    forms below is a document.
//!
//! # Layout
//! ```text
//! {"_id":"k","title":"x"}                        the document has the key in its key field
//! {"_key":"k","title":"x"}                       it has not: {"title":"x"} under the key k
//! {"_key":"k","_document":{"_key":1}}            a document that a reader could misread otherwise
//! {"_key":"k","_version":7,"title":"x"}          with its external version, also of "_document"
//! {"_key":"k","_expires":1795494216000000,…}     with when it expires, after its external version
//! {"key":"k", … ,"document":{"title":"x"}}       read, not written: as --json and tail print them
//! {"key":"k", … ,"deleted":true}                 the same, of a document that was deleted
//! ```
//!
//! Lines of --json have the external version as "external", those of tail as "version"; both have
//! when a document expires as "expires_micros". Times are microseconds since 1970 UTC.

use quiredb::{Condition, Document, Expiry, Key, ValueRef, Write};
use std::str::FromStr;

/// The field in which a line carries the key of a document that does not have it.
pub const KEY: &str = "_key";

/// The field in which a line carries the document whole, after [`KEY`].
const DOCUMENT: &str = "_document";

/// The field in which a line carries the external version of a document, after [`KEY`].
const VERSION: &str = "_version";

/// The field in which a line carries when a document expires, after these.
const EXPIRES: &str = "_expires";

/// The other members of lines of `--json` and `tail`.
const BESIDE: [&str; 7] = [
    "found",
    "version",
    "external",
    "partition",
    "position",
    "time_micros",
    "expires_micros",
];

/// What a line says of a document beside its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Beside {
    /// Its external version.
    pub external: Option<u64>,
    /// When it expires: microseconds since 1970 UTC.
    pub expires_micros: Option<i64>,
}

/// Appends the line of a document of a collection with this key field, without a line end.
pub fn write_line(
    key_field: &str,
    key: &Key,
    beside: Beside,
    document: &Document,
    out: &mut Vec<u8>,
) {
    let named = document.get(key_field);
    let names_key = named.is_some_and(|named| Key::from_value(named).is_ok_and(|is| is == *key));
    let mut names = document.fields().map(|(name, _)| name);
    let first = names.next();
    let is_marker = |name| matches!(name, Some(DOCUMENT | VERSION | EXPIRES));
    let is_plain = match first == Some(KEY) {
        false => names_key,
        true => names_key && key_field == KEY && !is_marker(names.next()),
    };
    if is_plain && beside == Beside::default() {
        return document.write_json(out);
    }
    out.extend_from_slice(b"{\"_key\":");
    match key.as_str() {
        Some(text) => ValueRef::String(text).write_json(out),
        None => out.extend_from_slice(key.to_string().as_bytes()),
    }
    if let Some(version) = beside.external {
        out.extend_from_slice(format!(",\"{VERSION}\":{version}").as_bytes());
    }
    if let Some(expires) = beside.expires_micros {
        out.extend_from_slice(format!(",\"{EXPIRES}\":{expires}").as_bytes());
    }
    // What is read as `_key` and the fields of a document must not be a document itself.
    let is_misread = document.get(KEY).is_some() || is_marker(first) || key_field == KEY;
    if is_misread || named.is_some() && !names_key {
        out.extend_from_slice(b",\"_document\":");
        document.write_json(out);
        return out.push(b'}');
    }
    let brace = out.len();
    document.write_json(out);
    // The brace of the document gives way to a comma, or to nothing.
    match document.is_empty() {
        true => drop(out.drain(brace..brace + 1)),
        false => out[brace] = b',',
    }
}

/// The write that a line with a key beside its document stands for; none for a line that is a
/// document, or is not understood.
pub(crate) fn read(line: &[u8], key_field: &str) -> Option<Write> {
    match split_key(line) {
        Some((key, rest)) => read_key_first(key, rest, key_field),
        None => read_members(line, key_field),
    }
}

fn read_key_first(key: Key, rest: &[u8], key_field: &str) -> Option<Write> {
    let (external, rest) = match split_number(rest, VERSION) {
        Some((version, rest)) => (Some(version), rest),
        None => (None, rest),
    };
    let (expires_micros, rest) = match split_number(rest, EXPIRES) {
        Some((time, rest)) => (Some(time), rest),
        None => (None, rest),
    };
    let write = read_document(key, rest, key_field)?;
    let beside = Beside {
        external,
        expires_micros,
    };
    Some(with_beside(write, beside))
}

/// The write of a document with these. A newer external version of it stays.
fn with_beside(write: Write, beside: Beside) -> Write {
    let condition = beside.external.map(Condition::ExternalOrEqual);
    Write {
        condition: condition.unwrap_or(write.condition),
        expiry: beside.expires_micros.map_or(write.expiry, Expiry::At),
        ..write
    }
}

fn read_document(key: Key, rest: &[u8], key_field: &str) -> Option<Write> {
    if let Some(document) = split_document(rest)
        && let Ok(document) = Document::from_json(document)
    {
        return Some(Write::put(key, document));
    }
    let document = Document::from_json(&[b"{", rest].concat()).ok()?;
    let is_apart = match document.get(key_field) {
        None => key_field != KEY,
        Some(named) => Key::from_value(named).is_ok_and(|named| named == key),
    };
    is_apart.then(|| Write::put(key, document))
}

/// The key that a line begins with, and what follows the comma after it.
fn split_key(line: &[u8]) -> Option<(Key, &[u8])> {
    let rest = line.trim_ascii().strip_prefix(b"{")?.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"_key\"")?.trim_ascii_start();
    let rest = rest.strip_prefix(b":")?.trim_ascii_start();
    let (key, rest) = rest.split_at(scalar_end(rest)?);
    let key = match key.first() {
        Some(b'"') => Key::parse(&serde_json::from_slice::<String>(key).ok()?).ok()?,
        _ => Key::parse(std::str::from_utf8(key).ok()?).ok()?,
    };
    let rest = rest.trim_ascii_start();
    match rest.first()? {
        b',' => Some((key, rest.get(1..)?)),
        b'}' => Some((key, rest)),
        _ => None,
    }
}

/// The number that follows under a name, and what follows the comma after it.
fn split_number<'l, T: FromStr>(rest: &'l [u8], name: &str) -> Option<(T, &'l [u8])> {
    let rest = rest.trim_ascii_start().strip_prefix(b"\"")?;
    let rest = rest.strip_prefix(name.as_bytes())?.strip_prefix(b"\"")?;
    let rest = rest.trim_ascii_start().strip_prefix(b":")?;
    let rest = rest.trim_ascii_start();
    let (number, rest) = rest.split_at(scalar_end(rest)?);
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    let rest = rest.trim_ascii_start();
    match rest.first()? {
        b',' => Some((number, rest.get(1..)?)),
        b'}' => Some((number, rest)),
        _ => None,
    }
}

/// Where the string or the integer ends that a text begins with.
fn scalar_end(text: &[u8]) -> Option<usize> {
    if text.first()? != &b'"' {
        let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
        let end = text.iter().position(|byte| !is_digit(byte))?;
        return (end > 0).then_some(end);
    }
    let mut is_escaped = false;
    for (at, byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The document of `"_document":{…}}`.
fn split_document(rest: &[u8]) -> Option<&[u8]> {
    let rest = rest.trim_ascii().strip_prefix(b"\"_document\"")?;
    let rest = rest.trim_ascii_start().strip_prefix(b":")?;
    rest.strip_suffix(b"}")
}

/// A line of `--json` or of `tail`.
fn read_members(line: &[u8], key_field: &str) -> Option<Write> {
    // Most lines are documents: they are not parsed twice.
    let begins = [&b"{\"key\":"[..], b"{\"partition\":"];
    let line = line.trim_ascii();
    if !begins.iter().any(|begin| line.starts_with(begin)) {
        return None;
    }
    let line = Document::from_json(line).ok()?;
    if line.get(key_field).is_some() {
        return None;
    }
    let key = Key::from_value(line.get("key")?).ok()?;
    let (content, value) = {
        let mut others = line
            .fields()
            .filter(|(name, _)| *name != "key" && !BESIDE.contains(name));
        let content = others.next()?;
        others.next().is_none().then_some(content)?
    };
    let external = match line.get("position") {
        Some(_) => line.get("version"),
        None => line.get("external"),
    };
    let external = match external {
        None => None,
        Some(ValueRef::Int(version)) => Some(u64::try_from(version).ok()?),
        Some(ValueRef::UInt(version)) => Some(version),
        Some(_) => return None,
    };
    let expires_micros = match line.get("expires_micros") {
        None => None,
        Some(ValueRef::Int(time)) => Some(time),
        Some(_) => return None,
    };
    let write = match (content, value) {
        ("document", ValueRef::Object(_)) => {
            let mut json = Vec::new();
            value.write_json(&mut json);
            Write::put(key, Document::from_json(&json).ok()?)
        }
        ("deleted", ValueRef::Bool(true)) => Write::delete(key),
        _ => return None,
    };
    let beside = Beside {
        external,
        expires_micros,
    };
    Some(with_beside(write, beside))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiredb::Action;

    fn document(json: &str) -> Document {
        Document::from_json(json.as_bytes()).unwrap()
    }

    fn line(key_field: &str, key: &str, beside: Beside, json: &str) -> String {
        let mut out = Vec::new();
        let key = Key::parse(key).unwrap();
        write_line(key_field, &key, beside, &document(json), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_is_read_as_what_it_was_written_of() {
        let documents = [
            r#"{}"#,
            r#"{"title":"x","n":1.50}"#,
            r#"{"_id":"k"}"#,
            r#"{"a":1,"_id":"k"}"#,
            r#"{"sku":"k","a":1}"#,
            r#"{"_key":"k"}"#,
            r#"{"_key":"z","_id":"k"}"#,
            r#"{"_key":"k","_id":"k"}"#,
            r#"{"_id":"k","_key":"k"}"#,
            r#"{"a":1,"_key":{"b":2}}"#,
            r#"{"_key":"k","_document":{"a":1}}"#,
            r#"{"_document":{"a":1}}"#,
            r#"{"_document":{"a":1},"b":"}"}"#,
            r#"{"key":"k","document":{"a":1}}"#,
            r#"{"_id":"other"}"#,
            r#"{"_version":7}"#,
            r#"{"_version":7,"_id":"k"}"#,
            r#"{"_key":"k","_version":7}"#,
            r#"{"_key":"k","_version":7,"_document":{"a":1}}"#,
            r#"{"_version":"x","_document":{"a":1}}"#,
            r#"{"_expires":7}"#,
            r#"{"_key":"k","_expires":7}"#,
            r#"{"_version":1,"_expires":7,"_id":"k"}"#,
            r#"{"_key":"k","_version":1,"_expires":7,"_document":{"a":1}}"#,
        ];
        let external = [None, Some(0), Some(u64::MAX)];
        let expires_micros = [None, Some(0), Some(i64::MIN), Some(i64::MAX)];
        let besides = external.into_iter().flat_map(|external| {
            expires_micros.map(|expires_micros| Beside {
                external,
                expires_micros,
            })
        });
        let besides: Vec<Beside> = besides.collect();
        let keys = ["k", "42", "-7", "\"q\\\"", "é\n", "{", "_key"];
        for written in ["_id", "sku", "_key", "key"] {
            let all = documents
                .iter()
                .flat_map(|json| keys.map(|key| (json, key)))
                .flat_map(|pair| besides.iter().map(move |beside| (pair, *beside)));
            for ((json, key), beside) in all {
                let line = line(written, key, beside, json);
                // Also as another program writes the same JSON.
                let spaced = line.replacen("{\"_key\":", " {\t\"_key\" : ", 1);
                for line in [line, spaced] {
                    let is_plain = document(&line) == document(json);
                    match read(line.as_bytes(), written) {
                        Some(Write {
                            key: read,
                            action: Action::Put(read_document),
                            condition,
                            expiry,
                        }) => {
                            let version = beside.external.map(Condition::ExternalOrEqual);
                            assert_eq!(condition, version.unwrap_or_default(), "{line}");
                            let expires = beside.expires_micros.map(Expiry::At);
                            assert_eq!(expiry, expires.unwrap_or_default(), "{line}");
                            assert_eq!(read.to_string(), key, "{line}");
                            assert_eq!(read_document.to_json(), *json, "{line}, {written}");
                        }
                        Some(other) => panic!("{other:?}"),
                        None => {
                            assert!(is_plain && beside == Beside::default(), "{line}");
                            let named = document(json);
                            let named = Key::from_value(named.get(written).unwrap());
                            assert_eq!(named.unwrap().to_string(), key, "{line}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_plain_document_is_no_such_line() {
        for json in [
            r#"{"_key":"123","_id":"cars/123","_rev":"x"}"#,
            r#"{"title":"x"}"#,
            r#"{"_key":1.5}"#,
            r#"{"_key":{"a":1}}"#,
            r#"{"_key":"#,
            r#"{"key":"k","document":{},"more":1}"#,
            r#"{"key":"k","document":{},"_id":"k"}"#,
            r#"{"key":"k","found":false}"#,
            "",
        ] {
            assert_eq!(read(json.as_bytes(), "_id"), None, "{json}");
        }
    }

    #[test]
    fn lines_of_json_output_and_of_tail_are_read() {
        let version = |version| Beside {
            external: Some(version),
            expires_micros: None,
        };
        let put = r#"{"key":7,"found":true,"version":3,"partition":0,"document":{"a":1.0}}"#;
        let write = Write::put(Key::from(7), document(r#"{"a":1.0}"#));
        assert_eq!(read(put.as_bytes(), "_id"), Some(write));
        let gone = r#"{"partition":0,"position":3,"time_micros":5,"key":"k","deleted":true}"#;
        let write = Write::delete(Key::parse("k").unwrap());
        assert_eq!(read(gone.as_bytes(), "_id"), Some(write));
        let put = r#"{"key":7,"version":3,"external":0,"partition":0,"document":{}}"#;
        let write = Write::put(Key::from(7), document("{}"));
        let write = with_beside(write, version(0));
        assert_eq!(read(put.as_bytes(), "_id"), Some(write));
        let gone = r#"{"partition":0,"position":3,"version":9,"key":7,"deleted":true}"#;
        let write = with_beside(Write::delete(Key::from(7)), version(9));
        assert_eq!(read(gone.as_bytes(), "_id"), Some(write));
        let put = r#"{"key":7,"version":3,"expires_micros":5,"document":{}}"#;
        let write = Write::put(Key::from(7), document("{}")).expiring(Expiry::At(5));
        assert_eq!(read(put.as_bytes(), "_id"), Some(write));
    }
}
