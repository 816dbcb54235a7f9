//! Row: a document as a line of an answer, and as the command reads it.

use quiredb::operations::Origin;
use quiredb::query::{Path, write_fields};
use quiredb::{Document, Found, ID, Key, Position, ValueRef};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::answer_text::AnswerText;
use super::end::End;

/// A line of an answer to a read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line<'l> {
    /// A document.
    #[serde(borrow)]
    Row(Row<'l>),
    /// No document has this key.
    Absent(String),
    /// What the command should report.
    Warning(String),
    /// The document before is one of an earlier version, which `load` refuses.
    Contradiction(String),
    /// The answer of a query, but for its documents.
    Answer(AnswerText),
    /// The work failed, and the answer ends here.
    Error(String),
    /// The answer is whole.
    End(End),
}

/// A document: its key, its version, its partition, its JSON, and, if it has one, its external
/// version, and when it expires.
#[derive(Debug, Deserialize)]
pub struct Row<'l>(
    String,
    u64,
    u32,
    #[serde(borrow)] &'l RawValue,
    #[serde(default)] Option<u64>,
    #[serde(default)] Option<i64>,
);

/// Appends the line of a document.
pub(super) fn write_row(found: &Found, fields: Option<&[Path]>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"row\":[");
    ValueRef::String(&found.key.to_string()).write_json(out);
    let (version, partition) = (found.version, found.partition);
    out.extend_from_slice(format!(",{version},{partition},").as_bytes());
    match fields {
        None => found.document.write_json(out),
        Some(fields) => {
            let shown = selected(fields, &found.document, Some(&found.key));
            out.extend_from_slice(shown.as_bytes());
        }
    }
    let beside = match (found.external, found.expires_micros) {
        (None, None) => String::new(),
        (Some(external), None) => format!(",{external}"),
        (None, Some(expires)) => format!(",null,{expires}"),
        (Some(external), Some(expires)) => format!(",{external},{expires}"),
    };
    out.extend_from_slice(beside.as_bytes());
    out.extend_from_slice(b"]}\n");
}

/// Appends a line of text: `{"warning":"…"}`.
pub(super) fn write_text(name: &str, text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{{\"{name}\":").as_bytes());
    ValueRef::String(text).write_json(out);
    out.extend_from_slice(b"}\n");
}

impl Row<'_> {
    /// What the row says beside the document; none if its key can't be one.
    pub fn origin(&self) -> Option<Origin> {
        let Row(key, version, partition, _, external, expires_micros) = self;
        Some(Origin {
            key: Key::parse(key).ok()?,
            version: Position(*version),
            external: *external,
            expires_micros: *expires_micros,
            partition: *partition,
        })
    }

    /// The document, or the fields of it that are wanted, as JSON.
    pub fn json(&self) -> &str {
        self.3.get()
    }
}

/// These fields of a document, as JSON. `_id` among them is the key, where the document has no such
/// field.
pub fn selected(fields: &[Path], document: &Document, key: Option<&Key>) -> String {
    let mut json = Vec::new();
    write_fields(document.root(), fields, &mut json);
    let json = String::from_utf8_lossy(&json).into_owned();
    let has_key = fields.iter().any(|field| field.as_str() == ID);
    let (Some(key), true, None) = (key, has_key, document.get(ID)) else {
        return json;
    };
    let mut shown = Vec::new();
    match key.as_str() {
        Some(text) => ValueRef::String(text).write_json(&mut shown),
        None => shown.extend_from_slice(key.to_string().as_bytes()),
    }
    let comma = if json == "{}" { "" } else { "," };
    let rest = json.strip_prefix('{').unwrap_or_default();
    let shown = String::from_utf8_lossy(&shown);
    format!("{{\"{ID}\":{shown}{comma}{rest}")
}
