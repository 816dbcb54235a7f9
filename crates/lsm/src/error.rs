//! What can go wrong with a tree.

use crate::MergeError;
use std::path::PathBuf;

/// Result of a call on a tree.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The machine refused; its own kind says how.
    Env(quire_env::ErrorKind),
    /// A file holds other bytes than were written to it.
    Corrupt,
    /// The caller's mistake.
    InvalidArgument,
    /// A key or value past the limit.
    TooLarge,
    /// The tree's merger refused.
    Merge,
    /// A file of a format that this version does not read.
    UnsupportedVersion,
}

/// An error of a tree.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine refused.
    #[error(transparent)]
    Env(#[from] quire_env::Error),
    /// A file holds other bytes than were written to it.
    #[error("{path}: {what} at byte {offset}: expected {expected:#x}, found {found:#x}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was being read.
        what: &'static str,
        /// Where, in bytes from the start of the file.
        offset: u64,
        /// The value, or the bound, that would have made sense.
        expected: u64,
        /// What was there.
        found: u64,
    },
    /// The caller's mistake.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// A key or value past the limit.
    #[error("tree {tree}: a {what} of {found} bytes, over the limit of {limit}")]
    TooLarge {
        /// The tree.
        tree: String,
        /// "key" or "value".
        what: &'static str,
        /// The limit in bytes.
        limit: u64,
        /// Its length in bytes.
        found: u64,
    },
    /// The tree's merger refused.
    #[error("tree {tree}: cannot merge: {source}")]
    Merge {
        /// The tree.
        tree: String,
        /// What the merger said.
        source: MergeError,
    },
    /// A file of a format that this version does not read.
    #[error(
        "{path} is of table format {found}; this version reads up to {newest}: use a newer one"
    )]
    UnsupportedVersion {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format known here.
        newest: u32,
    },
}

impl Error {
    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Env(error) => ErrorKind::Env(error.kind()),
            Error::Corrupt { .. } => ErrorKind::Corrupt,
            Error::InvalidArgument(_) => ErrorKind::InvalidArgument,
            Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::Merge { .. } => ErrorKind::Merge,
            Error::UnsupportedVersion { .. } => ErrorKind::UnsupportedVersion,
        }
    }
}
