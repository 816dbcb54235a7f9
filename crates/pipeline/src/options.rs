//! How a pipeline runs.

use crate::made_keys::MadeKeys;
use crate::position::SourcePosition;
use quiredb::Durability;
use std::thread;

/// How a pipeline runs. All sizes are in bytes.
#[derive(Debug, Clone)]
pub struct Options {
    /// When a batch is acknowledged; none for the collection's own setting.
    pub durability: Option<Durability>,
    /// What to do about a bad document.
    pub on_bad: OnBad,
    /// Keys for documents without the key field; without them such a document is bad.
    pub made_keys: Option<MadeKeys>,
    /// A batch ends with the document that makes its text this long, or longer; 1 MiB.
    pub batch_bytes: usize,
    /// A batch has at most this many documents; 1,000. Small batches are acknowledged earlier;
    /// large ones need fewer syncs.
    pub batch_documents: usize,
    /// Memory of the documents between the reader and the last write, estimated; 8 MiB. The reader
    /// waits when it is used up. One batch may be larger.
    pub in_flight_bytes_max: usize,
    /// Threads that parse, at least 1; one for each core.
    pub parsers: usize,
    /// Threads that write, at least 1 and at most one for each partition; 16. If there are more
    /// partitions, a thread writes several.
    pub writers_max: usize,
    /// Where the pipeline begins; the start. Inputs before it are not opened. The documents before
    /// it in its own input are read and skipped, by their count.
    pub from: SourcePosition,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            durability: None,
            on_bad: OnBad::Stop,
            made_keys: None,
            batch_bytes: 1 << 20,
            batch_documents: 1_000,
            in_flight_bytes_max: 8 << 20,
            parsers: thread::available_parallelism().map_or(1, usize::from),
            writers_max: 16,
            from: SourcePosition::default(),
        }
    }
}

/// What to do about a bad document. Good documents before it are written in each case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBad {
    /// Stop. No document after it is written by the parser's verdict; if only the database finds
    /// that it is bad, documents after it may be written, but are not acknowledged.
    Stop,
    /// Skip it, report and count it; stop at the first one after this many.
    Skip {
        /// How many may be skipped; `u64::MAX` for no limit.
        max: u64,
    },
}
