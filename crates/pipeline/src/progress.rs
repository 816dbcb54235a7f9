//! How far a pipeline is.

use crate::csv_types::CsvColumn;
use crate::error::{BadDocument, Error};
use crate::position::SourcePosition;
use std::io;
use std::time::Duration;

/// How far a pipeline is. It counts a prefix of the inputs, all of which is acknowledged: as
/// durable as [`Options::durability`](crate::Options::durability) says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Documents that were written; bad ones are not counted.
    pub documents: u64,
    /// Bytes of input from the start of the pipeline to the last of these documents.
    pub bytes: u64,
    /// Bad documents that were skipped, as far as they are known; they may lie behind the prefix.
    pub bad: u64,
    /// The end of the last batch that was acknowledged whole. All documents before it are
    /// acknowledged, or were skipped. If a document stopped the pipeline, `documents` and `bytes`
    /// count the ones between this position and that document too.
    pub position: SourcePosition,
    /// Since the pipeline began.
    pub time: Duration,
}

impl Progress {
    /// Documents written in a second, rounded; 0 if no time has passed.
    pub fn documents_per_second(&self) -> u64 {
        per_second(self.documents, self.time)
    }

    /// Bytes of input read in a second, rounded; 0 if no time has passed.
    pub fn bytes_per_second(&self) -> u64 {
        per_second(self.bytes, self.time)
    }
}

fn per_second(amount: u64, time: Duration) -> u64 {
    match time.as_secs_f64() {
        seconds if seconds > 0.0 => (amount as f64 / seconds).round() as u64,
        _ => 0,
    }
}

/// What a pipeline reports while it runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// An input that is a table is opened. Its documents come next.
    Opened {
        /// Its name.
        input: &'a str,
        /// Its columns, in order.
        columns: &'a [CsvColumn],
    },
    /// More documents are acknowledged. Under [`Durability::Sync`](quiredb::Durability::Sync),
    /// resuming from the position loses nothing, whatever happens; under the others that holds
    /// once the collection was synced after this event.
    Acknowledged(&'a Progress),
    /// A bad document was skipped.
    Skipped(&'a BadDocument),
}

/// Gets the events, in order, on the thread that called [`load`](crate::load). An error stops the
/// pipeline.
pub type Observe<'a> = dyn FnMut(&Event<'_>) -> io::Result<()> + 'a;

/// What a pipeline has done.
#[derive(Debug)]
pub struct Summary {
    /// How far it came. The time is that of the last sync.
    pub progress: Progress,
    /// Why it stopped before the end of the inputs.
    pub stopped: Option<Error>,
}
