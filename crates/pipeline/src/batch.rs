//! Source batch: documents of one input as text, in order, as a source hands them to a parser.

use crate::position::SourcePosition;
use std::ops::Range;
use std::sync::Arc;

/// Documents of one input, in order.
#[derive(Debug)]
pub(crate) struct SourceBatch {
    /// Its number in the order of the inputs, dense from 0.
    pub(crate) sequence: u64,
    /// The name of the input, for messages.
    pub(crate) input: Arc<str>,
    /// Where it begins.
    pub(crate) start: SourcePosition,
    /// Where it ends; the source moves this forward as it reads.
    pub(crate) end: SourcePosition,
    /// The text of the documents.
    pub(crate) text: Vec<u8>,
    /// Where they are in the text.
    pub(crate) items: Vec<SourceItem>,
}

/// One document of a batch.
#[derive(Debug)]
pub(crate) struct SourceItem {
    /// The line of the input where it starts, from 1.
    pub(crate) line: u64,
    /// The bytes of the input that it takes, its line end included.
    pub(crate) bytes: Range<u64>,
    /// Its JSON in the batch's text, or why it has none.
    pub(crate) json: Result<Range<usize>, String>,
}

/// The memory of an item beside its text, estimated: the item, its key, its part of the vectors.
const ITEM_BYTES: usize = 200;

impl SourceBatch {
    /// An empty batch that begins at `start`, with room for `text_bytes`.
    pub(crate) fn new(
        sequence: u64,
        input: Arc<str>,
        start: SourcePosition,
        text_bytes: usize,
    ) -> SourceBatch {
        SourceBatch {
            sequence,
            input,
            start,
            end: start,
            text: Vec::with_capacity(text_bytes),
            items: Vec::new(),
        }
    }

    /// Appends a document.
    pub(crate) fn push(&mut self, item: SourceItem) {
        debug_assert!(
            self.end.byte <= item.bytes.end,
            "a source moves forward only"
        );
        self.end.documents += 1;
        self.end.byte = item.bytes.end;
        self.items.push(item);
    }

    /// Bytes of memory that the batch takes until it is written, estimated.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.text
            .len()
            .saturating_add(self.items.len().saturating_mul(ITEM_BYTES))
    }

    /// Whether its last document is bad. The batch then ends there: the next document may take
    /// very long to arrive, and a bad one may stop the pipeline.
    pub(crate) fn ends_badly(&self) -> bool {
        self.items.last().is_some_and(|item| item.json.is_err())
    }
}
