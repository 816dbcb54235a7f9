//! What can go wrong in a store.

use quire_model::Position;
use std::path::PathBuf;

/// Result of a store's call.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such position, or no store there.
    NotFound,
    /// A store is there already.
    AlreadyExists,
    /// The log no longer holds the position.
    Gone,
    /// Damaged bytes.
    Corrupt,
    /// The disk is full, or memory can't be freed.
    Full,
    /// Read-only after a failed sync.
    ReadOnly,
    /// Another process has it.
    Locked,
    /// Larger than a limit.
    TooLarge,
    /// The caller's mistake.
    Invalid,
    /// Closed.
    Closed,
    /// Anything else the operating system reports.
    Io,
}

/// An error of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine.
    #[error(transparent)]
    Env(#[from] quire_env::Error),
    /// The log.
    #[error("{0}")]
    Log(#[from] quire_log::Error),
    /// A tree.
    #[error("{0}")]
    Tree(#[from] quire_lsm::Error),
    /// The log could not be synced after a write.
    #[error(
        "{path}: what was just written could not be made durable, and may or may not be there \
         after the database is reopened: {source}"
    )]
    NotSynced {
        /// The partition's directory.
        path: PathBuf,
        /// What the log said.
        source: quire_log::Error,
    },
    /// A damaged or foreign manifest.
    #[error("{path}: {what} (at byte {offset})")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// Where.
        offset: u64,
    },
    /// The log ends before what was durable once: acknowledged records are missing.
    #[error(
        "{path}: the log ends at position {last}, but was durable up to {synced}: \
         log files are missing or were cut"
    )]
    LogTooShort {
        /// The partition's directory.
        path: PathBuf,
        /// The log's last position.
        last: Position,
        /// The position up to which the log was durable.
        synced: Position,
    },
    /// A record that the machine can't apply.
    #[error("{path}: the record at position {position} can't be applied: {reason}")]
    Record {
        /// The partition's directory.
        path: PathBuf,
        /// The record.
        position: Position,
        /// What the machine said.
        reason: String,
    },
    /// A derived tree can't be made of what the trees or the log hold.
    #[error("a derived tree can't be made of what is there at position {position}: {reason}")]
    Derived {
        /// The record, or the view's position.
        position: Position,
        /// What is wrong.
        reason: String,
    },
    /// There is a manifest where a new store was to be made.
    #[error("{path} holds a partition already")]
    Exists {
        /// The partition's directory.
        path: PathBuf,
    },
    /// Writers waited for memory that flushes can't free.
    #[error(
        "writes are refused: memory is full and can't be written out ({reason}); \
         free some disk space and try again"
    )]
    MemoryFull {
        /// Why the flush did not succeed.
        reason: String,
    },
    /// A manifest whose write failed half-way: what is on disk is unknown.
    #[error(
        "{path} is read-only after a failed write of its manifest; reopen the database to recover"
    )]
    ReadOnly {
        /// The partition's directory.
        path: PathBuf,
    },
    /// The caller's mistake, in words.
    #[error("{0}")]
    Invalid(String),
    /// The store was closed.
    #[error("the database is closed")]
    Closed,
}

impl Error {
    /// The error of a [`DerivedTrees`](crate::DerivedTrees) that meets what makes no sense.
    pub fn derived(position: Position, reason: String) -> Error {
        Error::Derived { position, reason }
    }

    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Env(error) => env_kind(error.kind()),
            Error::Log(error) => log_kind(error.kind(), error),
            Error::Tree(error) => tree_kind(error.kind()),
            // Whatever the cause, a full disk included, it is not true that nothing was written.
            Error::NotSynced { source, .. } => match source.kind() {
                quire_log::ErrorKind::Poisoned => ErrorKind::ReadOnly,
                quire_log::ErrorKind::Closed => ErrorKind::Closed,
                _ => ErrorKind::Io,
            },
            Error::Manifest { .. } | Error::LogTooShort { .. } => ErrorKind::Corrupt,
            Error::Record { .. } | Error::Derived { .. } => ErrorKind::Corrupt,
            Error::Exists { .. } => ErrorKind::AlreadyExists,
            Error::MemoryFull { .. } => ErrorKind::Full,
            Error::ReadOnly { .. } => ErrorKind::ReadOnly,
            Error::Invalid(_) => ErrorKind::Invalid,
            Error::Closed => ErrorKind::Closed,
        }
    }
}

fn env_kind(kind: quire_env::ErrorKind) -> ErrorKind {
    match kind {
        quire_env::ErrorKind::NotFound => ErrorKind::NotFound,
        quire_env::ErrorKind::Locked => ErrorKind::Locked,
        quire_env::ErrorKind::NoSpace => ErrorKind::Full,
        quire_env::ErrorKind::TooLarge => ErrorKind::TooLarge,
        quire_env::ErrorKind::InvalidArgument => ErrorKind::Invalid,
        quire_env::ErrorKind::UnexpectedEnd => ErrorKind::Corrupt,
        _ => ErrorKind::Io,
    }
}

fn log_kind(kind: quire_log::ErrorKind, error: &quire_log::Error) -> ErrorKind {
    use quire_log::ErrorKind as Log;
    match (kind, error) {
        (_, quire_log::Error::Env(error)) => env_kind(error.kind()),
        (Log::NotFound, _) => ErrorKind::NotFound,
        (Log::Dropped | Log::Superseded, _) => ErrorKind::Gone,
        (Log::Corrupt | Log::Foreign | Log::Unsupported, _) => ErrorKind::Corrupt,
        (Log::InvalidArgument, _) => ErrorKind::Invalid,
        (Log::TooLarge, _) => ErrorKind::TooLarge,
        (Log::NoSpace, _) => ErrorKind::Full,
        (Log::Poisoned, _) => ErrorKind::ReadOnly,
        (Log::Closed, _) => ErrorKind::Closed,
        _ => ErrorKind::Io,
    }
}

fn tree_kind(kind: quire_lsm::ErrorKind) -> ErrorKind {
    use quire_lsm::ErrorKind as Tree;
    match kind {
        Tree::Env(kind) => env_kind(kind),
        Tree::Corrupt | Tree::UnsupportedVersion | Tree::Merge => ErrorKind::Corrupt,
        Tree::InvalidArgument => ErrorKind::Invalid,
        Tree::TooLarge => ErrorKind::TooLarge,
        _ => ErrorKind::Io,
    }
}
