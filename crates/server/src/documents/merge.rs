//! A partial document merged into a document as OpenSearch does it: objects merge field by field,
//! anything else replaces. Unlike a JSON merge patch (RFC 7396), null is a value: the field stays
//! and holds it.

use quire_model::{Document, Error, ValueRef};

/// `document` with the fields of `partial`. Fields keep their places; new ones follow in the order
/// of `partial`.
///
/// # Errors
/// If the result is larger than a document can be.
pub(crate) fn merge(document: &Document, partial: &Document) -> Result<Document, Error> {
    let mut text = Vec::with_capacity(document.as_bytes().len() + partial.as_bytes().len());
    write_merged(
        ValueRef::Object(document.root()),
        ValueRef::Object(partial.root()),
        &mut text,
    );
    Document::from_json(&text)
}

/// Recursion is bounded by the nesting of a document.
fn write_merged(old: ValueRef<'_>, new: ValueRef<'_>, out: &mut Vec<u8>) {
    let (ValueRef::Object(old), ValueRef::Object(new)) = (old, new) else {
        return new.write_json(out);
    };
    out.push(b'{');
    let start = out.len();
    let name_next = |name: &str, out: &mut Vec<u8>| {
        if out.len() > start {
            out.push(b',');
        }
        ValueRef::String(name).write_json(out);
        out.push(b':');
    };
    for (name, value) in old.fields() {
        name_next(name, out);
        match new.get(name) {
            Some(change) => write_merged(value, change, out),
            None => value.write_json(out),
        }
    }
    for (name, value) in new.fields().filter(|(name, _)| old.get(name).is_none()) {
        name_next(name, out);
        value.write_json(out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_merge_and_all_else_replaces() {
        let cases = [
            ("{}", r#"{"a":1.50}"#, r#"{"a":1.50}"#),
            (
                r#"{"a":1,"b":2}"#,
                r#"{"b":3,"c":4}"#,
                r#"{"a":1,"b":3,"c":4}"#,
            ),
            (
                r#"{"a":{"x":1,"y":2}}"#,
                r#"{"a":{"y":null,"z":[]}}"#,
                r#"{"a":{"x":1,"y":null,"z":[]}}"#,
            ),
            (r#"{"a":[1,2]}"#, r#"{"a":[3]}"#, r#"{"a":[3]}"#),
            (r#"{"a":{"x":1}}"#, r#"{"a":5}"#, r#"{"a":5}"#),
            (
                r#"{"a":5}"#,
                r#"{"a":{"x":{"y":null}}}"#,
                r#"{"a":{"x":{"y":null}}}"#,
            ),
            (r#"{"a":1}"#, "{}", r#"{"a":1}"#),
        ];
        for (document, partial, expected) in cases {
            let [document, partial] =
                [document, partial].map(|text| Document::from_json(text.as_bytes()).unwrap());
            assert_eq!(merge(&document, &partial).unwrap().to_json(), expected);
        }
    }
}
