//! The load pipeline: input files in, batches of documents durable in a collection, in bounded
//! memory.
//!
//! ```text
//!                 batches              parsed batches            parts, one queue a writer
//!   reader ──────────────► parsers ─────────────────► coordinator ─────────────► writers
//!      ▲                                                │     ▲                     │
//!      └────────── room in the flow ◄───────────────────┘     └─────────────────────┘
//!                  (bytes in flight)                               written
//! ```
//!
//! The reader cuts the input into batches of whole documents; parsers, one a core, turn them into
//! writes; the coordinator puts them back in order and hands each partition's share to the writer
//! of that partition; writers write what has queued up as one batch with one sync.
//!
//! # Invariants
//! 1. One partition's documents are written in the order of the input, so the last document of a
//!    key wins.
//! 2. `acknowledged` counts a prefix of the input: all of it is as durable as was asked for.
//! 3. Bytes in flight are bounded by [`flow::Flow`], whatever the input; so is a line.
//! 4. A bad document stops the load with everything before it written, unless bad ones are to be
//!    skipped.

mod batch;
mod coordinator;
mod csv;
mod flow;
mod input;
mod ndjson;
mod parse;
mod read;
mod resume;
mod write;

pub(crate) use input::{Format, Input};
pub(crate) use resume::Resume;

use crate::error::with_advice;
use parse::Part;
use quiredb::{Collection, Document, Durability};
use read::DocumentReader;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How to load.
#[derive(Debug, Clone)]
pub(crate) struct LoadOptions {
    /// When a batch is acknowledged; none for the collection's own setting.
    pub(crate) durability: Option<Durability>,
    /// Go on after a bad document.
    pub(crate) skip_bad: bool,
    /// A batch ends with the document that reaches this many bytes of input …
    pub(crate) batch_bytes: usize,
    /// … or this many documents.
    pub(crate) batch_documents: usize,
    /// What is before this place is passed over.
    pub(crate) from: Place,
}

/// A place between two documents of the inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Inputs before this one, from 0, have been read.
    pub(crate) input: usize,
    /// And so many documents of it, bad ones too.
    pub(crate) documents: u64,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            durability: None,
            skip_bad: false,
            batch_bytes: 1 << 20,
            batch_documents: 1_000,
            from: Place::default(),
        }
    }
}

/// What happens during a load, in order.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// So many documents from the start of the input are as durable as was asked for.
    Acknowledged {
        /// Documents; those that were skipped are not counted.
        documents: u64,
        /// Bytes of input up to there.
        bytes: u64,
        /// The end of the batch, if all of it is.
        place: Option<Place>,
    },
    /// A document was skipped.
    Skipped(&'a BadDocument),
}

/// What a load did.
#[derive(Debug)]
pub(crate) struct Summary {
    /// Documents written.
    pub(crate) documents: u64,
    /// Bytes of input they were read from.
    pub(crate) bytes: u64,
    /// Bad documents passed over.
    pub(crate) skipped: u64,
    /// From the first read to the last byte durable.
    pub(crate) time: Duration,
    /// Why it ended before the end of the input.
    pub(crate) stopped: Option<Stop>,
}

/// Why a load ended early. What was acknowledged stays.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A document that can't be taken.
    Bad(BadDocument),
    /// Input that can't be read.
    Input {
        /// Which.
        name: Arc<str>,
        /// Why.
        source: io::Error,
    },
    /// The database refused or failed.
    Engine(quiredb::Error),
    /// The observer could not be told.
    Observer(io::Error),
    /// A thread can't be started.
    Thread(io::Error),
    /// A thread of the load, which is named, panicked: a bug in Quire.
    Panicked(&'static str),
}

/// A document that can't be taken: where it is and why.
#[derive(Debug)]
pub(crate) struct BadDocument {
    /// The file.
    pub(crate) file: Arc<str>,
    /// The line it starts on, from 1.
    pub(crate) line: u64,
    /// What is wrong with it.
    pub(crate) reason: String,
}

impl fmt::Display for BadDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.reason)
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Bad(bad) => bad.fmt(f),
            Stop::Input { name, source } => write!(f, "cannot read {name}: {source}"),
            Stop::Engine(error) => write!(f, "cannot write: {}", with_advice(error)),
            Stop::Observer(error) => write!(f, "cannot write to standard output: {error}"),
            Stop::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Stop::Panicked(thread) => {
                write!(f, "the {thread} thread panicked; this is a bug in Quire")
            }
        }
    }
}

/// What `observe` is: told of every event, on the caller's thread; its error stops the load.
pub(crate) type Observe<'a> = dyn FnMut(&Event<'_>) -> io::Result<()> + 'a;

/// Loads `inputs`, in order, into `collection`, then makes all that was written durable.
///
/// Blocks until the end. What can go wrong is in [`Summary::stopped`].
pub(crate) fn load(
    collection: &Collection,
    now: impl Fn() -> Duration,
    inputs: Vec<Input>,
    options: &LoadOptions,
    observe: &mut Observe<'_>,
) -> Summary {
    let start = now();
    let mut summary = coordinator::run(collection, inputs, options, observe);
    if let Err(error) = collection.sync() {
        summary.stopped.get_or_insert(Stop::Engine(error));
    }
    summary.time = now().saturating_sub(start);
    summary
}

/// What `quire load` reads from these bytes, CSV or NDJSON: for each document the line that it
/// starts on, and the document or why it is bad. For whoever tests it with bytes of all kinds.
///
/// # Errors
/// Of an input that can't be read on.
pub fn documents_of(
    is_csv: bool,
    input: &[u8],
) -> io::Result<Vec<(u64, Result<Document, String>)>> {
    let mut reader: Box<dyn DocumentReader + '_> = match is_csv {
        true => Box::new(csv::CsvReader::new(input)?),
        false => Box::new(ndjson::NdjsonReader::new(io::BufReader::new(input))),
    };
    let mut batch = batch::Batch::new(0, Place::default(), "input".into(), 0);
    while reader.read_into(&mut batch)? {}
    let documents = batch.lines.iter().map(|line| {
        let document = parse::document(line, &batch.text);
        (line.number, document)
    });
    Ok(documents.collect())
}

#[cfg(test)]
mod tests;
