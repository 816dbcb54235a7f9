//! What can go wrong in a partition.

use quire_model::{Key, Position};

/// Result of a partition's call.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The document to patch is not there.
    NotFound,
    /// A condition did not hold.
    Conflict,
    /// The document or key is not acceptable.
    Model(quire_model::ErrorKind),
    /// Index and log disagree, or a record makes no sense.
    Corrupt,
    /// The partition has no room for another document.
    Full,
    /// A batch that is to be written whole is larger than a group of records may be.
    TooLarge,
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
        /// The document.
        key: Key,
        /// What was required and what is so.
        reason: String,
    },
    /// There is no document to patch.
    #[error("document {key} does not exist, so it can't be patched")]
    NotFound {
        /// The document.
        key: Key,
    },
    /// The partition's index and log disagree.
    #[error("partition {partition}, position {position}: {what}; run `quire verify`")]
    Corrupt {
        /// The partition.
        partition: u32,
        /// The record.
        position: Position,
        /// What is wrong.
        what: String,
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
    /// A batch that is to be written whole has too many bytes.
    #[error("an atomic batch has records of {bytes_max} bytes at most; write it in parts")]
    BatchTooLarge {
        /// The limit.
        bytes_max: usize,
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
            Error::Search(quire_search::Error::ValuesTooLarge { .. })
            | Error::BatchTooLarge { .. } => ErrorKind::TooLarge,
            Error::Corrupt { .. } | Error::Search(_) => ErrorKind::Corrupt,
            Error::DocIdsExhausted { .. } => ErrorKind::Full,
        }
    }
}

impl From<quire_search::Error> for Error {
    fn from(error: quire_search::Error) -> Error {
        match error {
            quire_search::Error::Store(error) => error.into(),
            quire_search::Error::Model(error) => error.into(),
            quire_search::Error::Corrupt {
                partition,
                position,
                what,
            } => Error::Corrupt {
                partition,
                position,
                what,
            },
            error => Error::Search(error),
        }
    }
}

impl From<Error> for quire_search::Error {
    fn from(error: Error) -> quire_search::Error {
        match error {
            Error::Store(error) => error.into(),
            Error::Model(error) => error.into(),
            Error::Search(error) => error,
            Error::Corrupt {
                partition,
                position,
                what,
            } => quire_search::Error::Corrupt {
                partition,
                position,
                what,
            },
            error => quire_search::Error::Index {
                what: error.to_string(),
            },
        }
    }
}
