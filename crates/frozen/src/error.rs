//! Errors of frozen partitions.

use std::path::{Path, PathBuf};

/// Result of a call on a frozen partition.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The machine refused; its own kind says how.
    Env(quire_env::ErrorKind),
    /// The file holds other bytes than were written to it.
    Corrupt,
    /// The file is something else than a frozen partition.
    Foreign,
    /// The caller's mistake.
    InvalidArgument,
    /// More than fits a partition.
    TooLarge,
    /// A file of a format that this version does not read.
    UnsupportedVersion,
}

/// An error of a frozen partition.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine refused.
    #[error(transparent)]
    Env(#[from] quire_env::Error),
    /// The file holds other bytes than were written to it.
    #[error("{path}: damaged {what} at byte {offset}")]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was being read.
        what: &'static str,
        /// Where, in bytes from the start of the file: for packed rows, where their block begins.
        offset: u64,
    },
    /// The file is something else: no part of it looks like a frozen partition.
    #[error("{path} is not a frozen partition{}", why_foreign(*.bytes))]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
    /// The caller's mistake.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// There is no index of the field that filters.
    #[error("field {path:?} can't be filtered by: it was not made filterable")]
    NotFilterable {
        /// The field.
        path: String,
    },
    /// More than fits a partition.
    #[error("{what} of {found}, over the limit of {limit}")]
    TooLarge {
        /// What is too large, as in "a payload in bytes".
        what: &'static str,
        /// The limit.
        limit: u64,
        /// What was given.
        found: u64,
    },
    /// A file of a format that this version does not read.
    #[error("{path} is of frozen format {found}; {}", advice(*.found, *.oldest, *.newest))]
    UnsupportedVersion {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The oldest format that is read here.
        oldest: u32,
        /// The newest format known here.
        newest: u32,
    },
}

fn why_foreign(bytes: u64) -> &'static str {
    match bytes {
        0 => ": it is empty",
        _ => "",
    }
}

/// What to do about a file of another format.
fn advice(found: u32, oldest: u32, newest: u32) -> String {
    match found < oldest {
        true => format!(
            "this version reads {oldest} and later: freeze the documents anew, or use the version \
             that wrote the file"
        ),
        false => format!("this version reads up to {newest}: use a newer one"),
    }
}

impl Error {
    /// What a caller can act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Env(error) => ErrorKind::Env(error.kind()),
            Error::Corrupt { .. } => ErrorKind::Corrupt,
            Error::Foreign { .. } => ErrorKind::Foreign,
            Error::InvalidArgument(_) | Error::NotFilterable { .. } => ErrorKind::InvalidArgument,
            Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::UnsupportedVersion { .. } => ErrorKind::UnsupportedVersion,
        }
    }

    pub(crate) fn corrupt(path: &Path, what: &'static str, offset: u64) -> Error {
        Error::Corrupt {
            path: path.to_path_buf(),
            what,
            offset,
        }
    }
}

impl From<Error> for quire_query::Error {
    fn from(error: Error) -> quire_query::Error {
        match error {
            Error::NotFilterable { path } => quire_query::Error::NotFilterable { path },
            error => quire_query::Error::shard(error),
        }
    }
}
