//! Why shipping stops.

/// The result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why shipping to a sink stopped. What was acknowledged stays, and the next run goes on after it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration is wrong.
    #[error("{0}")]
    Config(String),
    /// The source can't be read, and another attempt would not help.
    #[error("cannot read the source: {0}")]
    Source(String),
    /// The source does not answer at the moment.
    #[error("the source does not answer: {0}")]
    SourceAway(String),
    /// The source was split: its partitions have other numbers now. A reader that is opened anew
    /// goes on from what [`Topic::resumed`](crate::Topic::resumed) makes of the cursor.
    #[error("the source was split while it was read: begin again, from the stored position")]
    SourceSplit,
    /// The sink refuses everything, and another attempt would not help.
    #[error("sink {sink}: {reason}")]
    Sink {
        /// Its name.
        sink: String,
        /// What it said.
        reason: String,
    },
    /// A cluster refuses what a reindex needs, or does not answer.
    #[error("{url}: {reason}")]
    Cluster {
        /// Its address.
        url: String,
        /// What it said, and to what.
        reason: String,
    },
    /// A reindex can't do that now; the text says what to do first.
    #[error("{0}")]
    Reindex(String),
    /// Another process works on the same reindex.
    #[error("another command works on this reindex: {0} is in use")]
    InUse(String),
    /// More documents were refused than may be.
    #[error(
        "sink {sink} refused more than {max} documents, the last because of: {reason}; they are in \
         {file}. Mend the mapping or the documents, or raise dead_letters_max"
    )]
    DeadLetters {
        /// The sink's name.
        sink: String,
        /// How many may be refused in a run.
        max: u64,
        /// Why the last one was.
        reason: String,
        /// The file of refused documents.
        file: String,
    },
    /// A file can't be read or written.
    #[error(transparent)]
    File(#[from] quire_env::Error),
    /// A thread can't be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// A thread panicked: a bug in Quire.
    #[error("a thread that ships to {0} panicked; this is a bug in Quire")]
    Panicked(String),
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
}
