//! The body of a `_bulk` request.

use crate::change::Change;
use crate::object_fields::{object_fields, write_string};

/// The field that search servers refuse within a document.
const ID: &str = "_id";

/// How items are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BulkForm {
    /// The mapping type, which servers before version 7 want.
    pub(crate) doc_type: Option<String>,
    /// Whether the server is a search cluster, which refuses the field `_id` in documents.
    pub(crate) is_search: bool,
}

impl BulkForm {
    /// The lines of a bulk.
    pub(crate) fn encode(&self, bulk: &[&Change]) -> Vec<u8> {
        let bytes = bulk.iter().map(|change| change.bytes()).sum();
        let mut out = Vec::with_capacity(bytes);
        for change in bulk {
            self.encode_one(change, &mut out);
        }
        out
    }

    fn encode_one(&self, change: &Change, out: &mut Vec<u8>) {
        let op: &[u8] = match change.document {
            Some(_) => b"{\"index\":{\"_id\":",
            None => b"{\"delete\":{\"_id\":",
        };
        out.extend_from_slice(op);
        write_string(&change.key, out);
        if let Some(doc_type) = &self.doc_type {
            out.extend_from_slice(b",\"_type\":");
            write_string(doc_type, out);
        }
        let version = format!(
            ",\"version\":{},\"version_type\":\"external\"",
            change.position
        );
        out.extend_from_slice(version.as_bytes());
        out.extend_from_slice(b"}}\n");
        if let Some(document) = &change.document {
            match self.is_search && memchr::memmem::find(document.as_bytes(), b"\"_id\"").is_some()
            {
                true => write_without_id(document, out),
                false => out.extend_from_slice(document.as_bytes()),
            }
            out.push(b'\n');
        }
    }
}

/// Appends a document without its field `_id`; as it is, if it is no object: the server then says
/// what is wrong with it.
fn write_without_id(document: &str, out: &mut Vec<u8>) {
    let Ok(fields) = object_fields(document) else {
        return out.extend_from_slice(document.as_bytes());
    };
    let mut mark = b'{';
    for (name, value) in fields.iter().filter(|(name, _)| name != ID) {
        out.push(mark);
        write_string(name, out);
        out.push(b':');
        out.extend_from_slice(value.get().as_bytes());
        mark = b',';
    }
    if mark == b'{' {
        out.push(mark);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(key: &str, document: Option<&str>) -> Change {
        Change {
            partition: 0,
            position: 17,
            time_micros: 0,
            key: key.into(),
            document: document.map(Into::into),
        }
    }

    #[test]
    fn each_server_gets_the_form_that_it_takes() {
        let put = change("a\"b", Some(r#"{"_id":"a","n":1.50,"in":{"_id":2}}"#));
        let gone = change("c", None);
        let five = BulkForm {
            doc_type: Some("doc".into()),
            is_search: true,
        };
        let expected = concat!(
            r#"{"index":{"_id":"a\"b","_type":"doc","version":17,"version_type":"external"}}"#,
            "\n{\"n\":1.50,\"in\":{\"_id\":2}}\n",
            r#"{"delete":{"_id":"c","_type":"doc","version":17,"version_type":"external"}}"#,
            "\n"
        );
        assert_eq!(five.encode(&[&put, &gone]), expected.as_bytes());
        let quire = BulkForm {
            doc_type: None,
            is_search: false,
        };
        let expected =
            "{\"delete\":{\"_id\":\"c\",\"version\":17,\"version_type\":\"external\"}}\n";
        assert_eq!(quire.encode(&[&gone]), expected.as_bytes());
        let only = change("a", Some(r#"{"_id":"a"}"#));
        assert!(five.encode(&[&only]).ends_with(b"}}\n{}\n"));
    }
}
