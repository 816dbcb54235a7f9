//! Parse: the text of a batch into writes, grouped by partition and shared out among the writers.

use crate::batch::{SourceBatch, SourceItem};
use crate::error::{BadDocument, reason};
use crate::group::{Grouper, PartitionGroup};
use crate::keyed_line;
use crate::made_keys::MadeKeys;
use crate::position::SourcePosition;
use crate::target::Target;
use quiredb::{Document, Key, Write};
use std::sync::Arc;

/// Turns batches into writes to one collection.
#[derive(Debug, Clone)]
pub(crate) struct Parser<C> {
    pub(crate) target: C,
    /// That of the collection.
    pub(crate) key_field: String,
    /// The count of writers, at least 1.
    pub(crate) writers: usize,
    /// Keys for documents without one.
    pub(crate) made_keys: Option<MadeKeys>,
    /// Whether a bad document ends the pipeline.
    pub(crate) stops_at_bad: bool,
}

/// A batch as writes.
#[derive(Debug)]
pub(crate) struct ParsedBatch {
    /// The batch's number in the order of the inputs.
    pub(crate) sequence: u64,
    /// The name of its input.
    pub(crate) input: Arc<str>,
    /// What it counts as in flight.
    pub(crate) memory_bytes: usize,
    /// Bytes of input that it was read from.
    pub(crate) input_bytes: u64,
    /// Where it ends; none if the documents after a bad one are not loaded.
    pub(crate) end: Option<SourcePosition>,
    /// The lines of its good documents, ascending.
    pub(crate) lines: Vec<u64>,
    /// The good documents: one part for each writer.
    pub(crate) parts: Vec<Part>,
    /// The bad documents. If bad ones stop the pipeline there is at most one, and no document
    /// after it.
    pub(crate) bad: Vec<BadDocument>,
}

/// The part of a batch that one writer gets.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// The batch.
    pub(crate) sequence: u64,
    /// At most one group for each partition.
    pub(crate) groups: Vec<PartitionGroup<Origin>>,
}

/// Where a document comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// The number of its batch.
    pub(crate) sequence: u64,
    /// The line where it starts.
    pub(crate) line: u64,
    /// The offset in its input, in bytes.
    pub(crate) byte: u64,
}

impl<C: Target> Parser<C> {
    /// Parses a batch, as far as it is to be loaded.
    pub(crate) fn parse(&self, batch: SourceBatch) -> ParsedBatch {
        let sequence = batch.sequence;
        let mut parsed = ParsedBatch {
            sequence,
            input: Arc::clone(&batch.input),
            memory_bytes: batch.memory_bytes(),
            input_bytes: batch.end.byte - batch.start.byte,
            end: Some(batch.end),
            lines: Vec::with_capacity(batch.items.len()),
            parts: Vec::new(),
            bad: Vec::new(),
        };
        let mut grouper = Grouper::new(&self.target);
        let mut good_end = batch.start.byte;
        for item in &batch.items {
            let origin = Origin {
                sequence,
                line: item.line,
                byte: item.bytes.start,
            };
            match self.write_of(item, &batch) {
                Ok(write) => {
                    grouper.push(write, origin);
                    parsed.lines.push(item.line);
                    good_end = item.bytes.end;
                }
                Err(reason) => {
                    parsed.bad.push(BadDocument {
                        input: Arc::clone(&batch.input),
                        line: origin.line,
                        byte: origin.byte,
                        reason,
                    });
                    if self.stops_at_bad {
                        parsed.input_bytes = good_end - batch.start.byte;
                        parsed.end = None;
                        break;
                    }
                }
            }
        }
        parsed.parts.resize_with(self.writers, || Part {
            sequence,
            groups: Vec::new(),
        });
        for group in grouper.finish() {
            let writer = group.partition() as usize % self.writers.max(1);
            if let Some(part) = parsed.parts.get_mut(writer) {
                part.groups.push(group);
            }
        }
        parsed
    }

    fn write_of(&self, item: &SourceItem, batch: &SourceBatch) -> Result<Write, String> {
        let json = text_of(item, &batch.text)?;
        let write = match keyed_line::read(json, &self.key_field) {
            Some(write) => write,
            None => {
                let document = document_of(item, &batch.text)?;
                let key = match &self.made_keys {
                    Some(keys) if document.get(&self.key_field).is_none() => {
                        keys.key(batch.start.input, item.line)
                    }
                    _ => self.target.key_of(&document),
                };
                let why = |error| format!("{}{}", reason(&error), hint(&document));
                Write::put(key.map_err(why)?, document)
            }
        };
        let checked = self.target.check_key(&write);
        checked.map_err(|error| reason(&error))?;
        Ok(write)
    }
}

/// The document of an item of a batch with this text, or why there is none.
pub(crate) fn document_of(item: &SourceItem, text: &[u8]) -> Result<Document, String> {
    let json = text_of(item, text)?;
    Document::from_json(json).map_err(|error| {
        let mut reason = reason(&error);
        if json.trim_ascii_start().starts_with(b"[") {
            reason.push_str("; jq -c '.[]' FILE makes lines of a file that is one array");
        }
        if is_begun_over_lines(json) {
            reason.push_str(
                "; a document is one line: jq -c . FILE makes lines of a file that is printed \
                 over several",
            );
        }
        reason
    })
}

/// Whether a line only begins an object, as where JSON is printed over several lines.
fn is_begun_over_lines(json: &[u8]) -> bool {
    let line = json.trim_ascii();
    line == b"{" || line.starts_with(b"{") && line.ends_with(b",")
}

/// What to do about a document without a key, if that is known.
fn hint(document: &Document) -> String {
    let names = ["id", "_id", "key", "uuid", "ID", "Id"];
    let looks = |name: &&&str| {
        document
            .get(name)
            .is_some_and(|value| Key::from_value(value).is_ok())
    };
    match names.iter().find(looks) {
        Some(name) => format!("; --key {name} takes it from the field {name:?}"),
        None => "; --key FIELD takes it from another field, --key auto makes keys".to_owned(),
    }
}

fn text_of<'t>(item: &SourceItem, text: &'t [u8]) -> Result<&'t [u8], String> {
    match &item.json {
        Ok(range) => Ok(text.get(range.clone()).unwrap_or_default()),
        Err(reason) => Err(reason.clone()),
    }
}
