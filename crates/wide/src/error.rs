//! What can go wrong in a partition of wide documents.

use quire_model::{Key, Position};

/// Result of a partition's call.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A condition did not hold.
    Conflict,
    /// There is no row to patch.
    NotFound,
    /// A schema, a column, a value or a change is not acceptable.
    Invalid,
    /// Larger than a limit.
    TooLarge,
    /// Trees disagree, or bytes of them make no sense.
    Corrupt,
    /// The log no longer holds the position that was given.
    Gone,
    /// The partition has no room for another row.
    Full,
    /// A document or key.
    Model(quire_model::ErrorKind),
    /// A trigger refused the write, or failed.
    Trigger,
    /// The store below.
    Store(quire_store::ErrorKind),
}

/// An error of a partition.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store.
    #[error("{0}")]
    Store(#[from] quire_store::Error),
    /// A document or key.
    #[error("{0}")]
    Model(#[from] quire_model::Error),
    /// A trigger refused the write, or failed.
    #[error("{0}")]
    Trigger(#[from] quire_coprocessor::Error),
    /// A condition did not hold.
    #[error("document {key}: {reason}")]
    Conflict {
        /// The row.
        key: Key,
        /// What was required and what is so.
        reason: String,
    },
    /// There is no row to patch.
    #[error("document {key} does not exist, so it can't be patched")]
    NotFound {
        /// The row.
        key: Key,
    },
    /// The input can't be taken.
    #[error("{0}")]
    Invalid(String),
    /// Larger than a limit.
    #[error("{what} has {bytes} bytes; {bytes_max} is the limit{hint}")]
    TooLarge {
        /// What it is.
        what: String,
        /// Its bytes, as far as they were counted.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
        /// What to do, or nothing.
        hint: &'static str,
    },
    /// Trees disagree, or bytes of them make no sense.
    #[error("partition {partition}: {what}; run `quire verify`")]
    Corrupt {
        /// The partition.
        partition: u32,
        /// What is wrong.
        what: String,
    },
    /// The log no longer has what someone who tails it has not seen.
    #[error(
        "partition {partition}: changes after position {seen} are gone; they are all there from \
         position {next} on: read what the collection has now, and go on there; to keep changes \
         for longer, raise its setting log_retention_secs"
    )]
    LogGone {
        /// The partition.
        partition: u32,
        /// The last position that was seen.
        seen: Position,
        /// The first position from which on the log has all.
        next: Position,
    },
    /// The search index is damaged, or a query by it takes too much memory.
    #[error("{0}")]
    Search(quire_search::Error),
    /// All docids were given out.
    #[error(
        "partition {partition} has given out all 4,294,967,295 document numbers; \
         load the collection into one with more partitions"
    )]
    DocIdsExhausted {
        /// The partition.
        partition: u32,
    },
}

impl Error {
    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Store(error) => ErrorKind::Store(error.kind()),
            Error::Model(error) => ErrorKind::Model(error.kind()),
            Error::Trigger(_) => ErrorKind::Trigger,
            Error::Conflict { .. } => ErrorKind::Conflict,
            Error::NotFound { .. } => ErrorKind::NotFound,
            Error::Invalid(_) => ErrorKind::Invalid,
            Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::Search(quire_search::Error::ValuesTooLarge { .. }) => ErrorKind::TooLarge,
            Error::Corrupt { .. } | Error::Search(_) => ErrorKind::Corrupt,
            Error::LogGone { .. } => ErrorKind::Gone,
            Error::DocIdsExhausted { .. } => ErrorKind::Full,
        }
    }
}

impl From<quire_search::Error> for Error {
    fn from(error: quire_search::Error) -> Error {
        match error {
            quire_search::Error::Store(error) => error.into(),
            quire_search::Error::Model(error) => error.into(),
            error => Error::Search(error),
        }
    }
}

impl From<quire_lsm::Error> for Error {
    fn from(error: quire_lsm::Error) -> Error {
        Error::Store(error.into())
    }
}
