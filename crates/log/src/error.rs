//! What can go wrong with a log.

use quire_model::Position;
use std::path::{Path, PathBuf};

/// Result of a call on a log.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No record has this position yet.
    NotFound,
    /// The record was there and has been dropped.
    Dropped,
    /// The record was superseded by a later one, and compaction has removed it.
    Superseded,
    /// Bytes on disk are not what was written, or a file is missing.
    Corrupt,
    /// The caller's mistake.
    InvalidArgument,
    /// A record or group over the limit.
    TooLarge,
    /// The disk is full: nothing was accepted; try again when there is room.
    NoSpace,
    /// An earlier write failed: reopen to recover.
    Poisoned,
    /// The directory holds another log's segments.
    Foreign,
    /// Written by a newer version.
    Unsupported,
    /// The log was closed.
    Closed,
    /// Anything else the machine reports.
    Io,
}

/// An error of the log, with the file and offset or the position it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine failed.
    #[error(transparent)]
    Env(#[from] quire_env::Error),
    /// Bytes on disk are not what was written.
    #[error("{path}: {what} at byte {offset}{}", about(*.positions))]
    Corrupt {
        /// The segment file.
        path: PathBuf,
        /// Byte offset in the file.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
        /// The first and last position that it affects, where that is known.
        positions: Option<(Position, Position)>,
    },
    /// No record has this position yet.
    #[error("no record at position {position}: the last is {last}")]
    NotFound {
        /// The requested position.
        position: Position,
        /// The last position that the log holds.
        last: Position,
    },
    /// The record has been dropped.
    #[error("the record at position {position} has been dropped: the first kept is {first}")]
    Dropped {
        /// The requested position.
        position: Position,
        /// The first position that the log holds.
        first: Position,
    },
    /// The record was superseded by a later one, and compaction has removed it.
    #[error(
        "the record at position {position} was superseded by a later one, \
         and its bytes have been reclaimed"
    )]
    Superseded {
        /// The requested position.
        position: Position,
    },
    /// A record or group over the limit.
    #[error("{what} of {found} is over the limit of {limit}")]
    TooLarge {
        /// What is too large, with its unit.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// The size that was given.
        found: u64,
    },
    /// The caller's mistake.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// An earlier write failed, so it is unknown which bytes are on the disk.
    #[error("the log takes no more writes after a failed write or sync; reopen it to recover")]
    Poisoned,
    /// Blocks that an earlier opening wrote, and may have failed to sync, could not be made
    /// durable. Nothing has changed.
    #[error("what was written before this opening is not safe from a power cut yet: {0}")]
    NotSecured(#[source] Box<Error>),
    /// A segment of another log.
    #[error(
        "{path} belongs to another log (its identity is {found}, expected {expected}); \
         was it copied here from another database?"
    )]
    Foreign {
        /// The segment file.
        path: PathBuf,
        /// This log's identity, in hexadecimal.
        expected: String,
        /// The file's.
        found: String,
    },
    /// Written by a newer version.
    #[error(
        "{path} has log format {found}, and this version reads up to {supported}; \
         use a newer version"
    )]
    UnsupportedVersion {
        /// The segment file.
        path: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest that this code reads.
        supported: u32,
    },
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
}

fn about(positions: Option<(Position, Position)>) -> String {
    match positions {
        None => String::new(),
        Some((first, last)) if first == last => format!(" (position {first})"),
        Some((first, last)) => format!(" (positions {first} to {last})"),
    }
}

impl Error {
    /// Damage at an offset of a file.
    pub(crate) fn corrupt(
        path: &Path,
        offset: u64,
        what: &'static str,
        positions: Option<(Position, Position)>,
    ) -> Error {
        Error::Corrupt {
            path: path.to_path_buf(),
            offset,
            what,
            positions,
        }
    }

    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Env(error) => match error.kind() {
                quire_env::ErrorKind::NoSpace => ErrorKind::NoSpace,
                _ => ErrorKind::Io,
            },
            Error::Corrupt { .. } => ErrorKind::Corrupt,
            Error::NotFound { .. } => ErrorKind::NotFound,
            Error::Dropped { .. } => ErrorKind::Dropped,
            Error::Superseded { .. } => ErrorKind::Superseded,
            Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::InvalidArgument(_) => ErrorKind::InvalidArgument,
            Error::Poisoned => ErrorKind::Poisoned,
            Error::NotSecured(cause) => cause.kind(),
            Error::Foreign { .. } => ErrorKind::Foreign,
            Error::UnsupportedVersion { .. } => ErrorKind::Unsupported,
            Error::Closed => ErrorKind::Closed,
        }
    }
}
