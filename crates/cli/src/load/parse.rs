//! Parser threads: the text of a batch into writes, shared out among the writers.

use super::Place;
use super::batch::{Batch, Line};
use super::coordinator::Message;
use crate::error::causes;
use quiredb::{Collection, Document, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// A batch as writes.
#[derive(Debug)]
pub(super) struct Parsed {
    /// The batch's place in the input.
    pub(super) sequence: u64,
    /// Its file.
    pub(super) file: Arc<str>,
    /// What it has taken of the flow.
    pub(super) weight: usize,
    /// Bytes of input it was read from.
    pub(super) input_bytes: u64,
    /// Where it ends; none if what is after a bad document is not loaded.
    pub(super) end: Option<Place>,
    /// The lines of its good documents, ascending.
    pub(super) lines: Vec<u64>,
    /// The good documents, one part a writer.
    pub(super) parts: Vec<Part>,
    /// The bad ones: line and reason. Where bad ones stop the load there is at most one, and no
    /// document after it.
    pub(super) bad: Vec<(u64, String)>,
}

/// What one writer gets of a batch, in the order of the input.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// The batch.
    pub(super) sequence: u64,
    /// What to write.
    pub(super) writes: Vec<Write>,
    /// The line of each write.
    pub(super) lines: Vec<u64>,
}

/// Parses batches until none come.
pub(super) fn run(
    collection: &Collection,
    writers: usize,
    skip_bad: bool,
    batches: &Receiver<Batch>,
    coordinator: &Sender<Message>,
) {
    for batch in batches {
        let parsed = parse(collection, writers, skip_bad, batch);
        if coordinator.send(Message::Parsed(parsed)).is_err() {
            return;
        }
    }
}

fn parse(collection: &Collection, writers: usize, skip_bad: bool, batch: Batch) -> Parsed {
    let mut parsed = Parsed {
        sequence: batch.sequence,
        file: Arc::clone(&batch.file),
        weight: batch.weight(),
        input_bytes: batch.input_bytes,
        end: Some(batch.end()),
        lines: Vec::with_capacity(batch.lines.len()),
        parts: Vec::new(),
        bad: Vec::new(),
    };
    parsed.parts.resize_with(writers, || Part {
        sequence: batch.sequence,
        ..Part::default()
    });
    for line in &batch.lines {
        match parse_line(collection, line, &batch.text) {
            Ok(write) => {
                let writer = collection.partition_of(&write.key) as usize % writers.max(1);
                if let Some(part) = parsed.parts.get_mut(writer) {
                    part.writes.push(write);
                    part.lines.push(line.number);
                    parsed.lines.push(line.number);
                }
            }
            Err(reason) => {
                parsed.bad.push((line.number, reason));
                if !skip_bad {
                    // The rest of the batch is not loaded; each document counts with its line end.
                    let texts = batch.lines.iter().take(parsed.lines.len());
                    let bytes =
                        texts.filter_map(|line| Some(line.json.as_ref().ok()?.len() as u64 + 1));
                    parsed.input_bytes = bytes.sum();
                    parsed.end = None;
                    break;
                }
            }
        }
    }
    parsed
}

fn parse_line(collection: &Collection, line: &Line, text: &[u8]) -> Result<Write, String> {
    let document = document(line, text)?;
    let key = collection
        .key_of(&document)
        .map_err(|error| causes(&error))?;
    Ok(Write::put(key, document))
}

/// The document of a line of a batch's text, or why there is none.
pub(super) fn document(line: &Line, text: &[u8]) -> Result<Document, String> {
    let json = match &line.json {
        Ok(range) => text.get(range.clone()).unwrap_or_default(),
        Err(reason) => return Err(reason.clone()),
    };
    Document::from_json(json).map_err(|error| {
        let mut reason = causes(&error);
        if json.trim_ascii_start().starts_with(b"[") {
            reason.push_str("; a file that is one array can be loaded with: jq -c '.[]' FILE | quire load DB COLLECTION -");
        }
        reason
    })
}
