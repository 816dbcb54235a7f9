//! Standard output: results, as text or JSON.

use crate::documents::{DocumentFormat, Documents};
use crate::error::{Error, Result};
use quire_pipeline::{Beside, KEY, write_line};
use quiredb::operations::Origin;
use quiredb::{Document, Key, Written};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, BufWriter, Stdout, Write};

/// Bytes that are written together.
const BUFFER_BYTES: usize = 64 << 10;

/// Standard output, buffered.
pub(crate) struct Output {
    json: bool,
    writer: BufWriter<Stdout>,
    /// Documents in the format of `--format`, if there is one.
    documents: Option<Documents>,
}

impl Output {
    /// For results as JSON, or as text for people.
    pub(crate) fn new(json: bool) -> Output {
        Output {
            json,
            writer: BufWriter::with_capacity(BUFFER_BYTES, io::stdout()),
            documents: None,
        }
    }

    /// Whether results are printed as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints the documents that follow in a format; `fields` are those that are wanted.
    ///
    /// # Errors
    /// If `--json` wants another format.
    pub(crate) fn start_documents(
        &mut self,
        format: DocumentFormat,
        fields: &Option<Vec<String>>,
    ) -> Result<()> {
        if self.json {
            return Err(Error::Usage(
                "--json and --format are two formats: leave one out".to_owned(),
            ));
        }
        self.documents = Some(Documents::new(format, fields));
        Ok(())
    }

    /// Prints what is left of the documents.
    pub(crate) fn end_documents(&mut self) -> Result<()> {
        match self.documents.take() {
            Some(documents) => documents.end(&mut self.writer),
            None => Ok(()),
        }
    }

    /// Prints a document that is given as JSON.
    pub(crate) fn document(&mut self, json: &str) -> Result<()> {
        match &mut self.documents {
            Some(documents) => documents.add(json, &mut self.writer),
            None => self.line(json),
        }
    }

    /// Prints a line of text.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<()> {
        writeln!(self.writer, "{text}").map_err(Error::Output)
    }

    /// Prints a line of JSON.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        serde_json::to_writer(&mut self.writer, value)
            .map_err(|error| Error::Output(error.into()))?;
        self.writer.write_all(b"\n").map_err(Error::Output)
    }

    /// Prints a document as it was written; with `--json`, in an object with key and version.
    pub(crate) fn found(&mut self, origin: &Origin, document: &Document) -> Result<()> {
        self.found_as(origin, &document.to_json())
    }

    /// Prints a document and its key as a line that `quire load` reads as both; with `--json`, in
    /// an object with key and version. A row has the columns of the document, and before them its
    /// key if the document does not have it.
    pub(crate) fn keyed(
        &mut self,
        key_field: &str,
        origin: &Origin,
        document: &Document,
    ) -> Result<()> {
        if self.json {
            return self.found_as(origin, &document.to_json());
        }
        if let Some(Documents::Rows(_)) = self.documents {
            return self.document(&row_json(key_field, &origin.key, document));
        }
        let is_line = matches!(self.documents, None | Some(Documents::Lines));
        let beside = match is_line {
            true => Beside {
                external: origin.external,
                expires_micros: origin.expires_micros,
            },
            false => Beside::default(),
        };
        let mut line = Vec::new();
        write_line(key_field, &origin.key, beside, document, &mut line);
        self.document(&String::from_utf8_lossy(&line))
    }

    /// As [`found`](Output::found), with `document` as the JSON of the document.
    pub(crate) fn found_as(&mut self, found: &Origin, document: &str) -> Result<()> {
        if !self.json {
            return self.document(document);
        }
        let external = found
            .external
            .map(|version| format!("\"external\":{version},"));
        let expires = found
            .expires_micros
            .map(|time| format!("\"expires_micros\":{time},"));
        self.line(format_args!(
            "{{\"key\":{},\"found\":true,\"version\":{},{}{}\"partition\":{},\"document\":{}}}",
            key_json(&found.key),
            found.version,
            external.unwrap_or_default(),
            expires.unwrap_or_default(),
            found.partition,
            document
        ))
    }

    /// As [`found`](Output::found), for a document without a known key.
    pub(crate) fn found_bare(&mut self, document: &str) -> Result<()> {
        if !self.json {
            return self.document(document);
        }
        self.line(format_args!("{{\"found\":true,\"document\":{document}}}"))
    }

    /// Prints the effect of a write.
    pub(crate) fn written(&mut self, key: &Key, written: &Written) -> Result<()> {
        let effect = effect(written);
        if self.json {
            return self.line(format_args!(
                "{{\"key\":{},\"effect\":\"{effect}\",\"version\":{},\"partition\":{}}}",
                key_json(key),
                written.version,
                written.partition
            ));
        }
        self.line(format_args!(
            "{effect} {key}, version {} of partition {}",
            written.version, written.partition
        ))
    }

    /// Writes the buffer out.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.writer.flush().map_err(Error::Output)
    }
}

/// The effect of a write in one word.
fn effect(written: &Written) -> &'static str {
    match written.effect {
        quiredb::Effect::Created => "created",
        quiredb::Effect::Updated => "updated",
        quiredb::Effect::Deleted => "deleted",
        quiredb::Effect::Unchanged => "unchanged",
    }
}

/// A document as JSON, and before its fields its key if the key field does not have it: as `_key`,
/// or where the document has a field of that name, under the name of the key field.
fn row_json(key_field: &str, key: &Key, document: &Document) -> String {
    let json = document.to_json();
    let named = document.get(key_field);
    if named.is_some_and(|named| Key::from_value(named).is_ok_and(|is| is == *key)) {
        return json;
    }
    let column = match document.get(KEY) {
        None => KEY,
        Some(_) => key_field,
    };
    let column = serde_json::Value::from(column);
    let comma = if document.is_empty() { "" } else { "," };
    let rest = json.strip_prefix('{').unwrap_or_default();
    format!("{{{column}:{}{comma}{rest}", key_json(key))
}

/// A key as JSON: a string or an integer.
pub(crate) fn key_json(key: &Key) -> String {
    match key.as_str() {
        Some(text) => serde_json::Value::from(text).to_string(),
        None => key.to_string(),
    }
}
