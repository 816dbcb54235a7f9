//! Batch: a run of documents as text, as the reader hands them to a parser.

use super::Place;
use std::ops::Range;
use std::sync::Arc;

/// Documents of one file, in order.
#[derive(Debug)]
pub(super) struct Batch {
    /// Its place in the input, dense from 0.
    pub(super) sequence: u64,
    /// Where it begins.
    pub(super) from: Place,
    /// The file, for messages.
    pub(super) file: Arc<str>,
    /// The text of the documents.
    pub(super) text: Vec<u8>,
    /// Where they are in it.
    pub(super) lines: Vec<Line>,
    /// Bytes of input that were read for it.
    pub(super) input_bytes: u64,
}

/// One document of a batch.
#[derive(Debug)]
pub(super) struct Line {
    /// The line of the file it starts on, from 1.
    pub(super) number: u64,
    /// Its JSON in the batch's text, or why it has none.
    pub(super) json: Result<Range<usize>, String>,
}

/// What a line costs in memory beside its text, roughly: its place here, its key and its share of
/// the vectors.
const LINE_BYTES: usize = 200;

impl Batch {
    /// An empty one.
    pub(super) fn new(sequence: u64, from: Place, file: Arc<str>, text_bytes: usize) -> Batch {
        Batch {
            sequence,
            from,
            file,
            text: Vec::with_capacity(text_bytes),
            lines: Vec::new(),
            input_bytes: 0,
        }
    }

    /// Where it ends.
    pub(super) fn end(&self) -> Place {
        Place {
            documents: self.from.documents + self.lines.len() as u64,
            ..self.from
        }
    }

    /// What it takes of the flow.
    pub(super) fn weight(&self) -> usize {
        self.text
            .len()
            .saturating_add(self.lines.len().saturating_mul(LINE_BYTES))
    }

    /// Whether its last line is a bad one. It then ends here, since reading on may take for ever.
    pub(super) fn ends_badly(&self) -> bool {
        self.lines.last().is_some_and(|line| line.json.is_err())
    }
}
