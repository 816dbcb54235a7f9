//! What can go wrong with keys and values.

use quire_store::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// An error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller's mistake.
    #[error("{0}")]
    Invalid(String),
    /// Larger than a limit.
    #[error("a {what} of {found} bytes: at most {limit} are allowed")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// The limit, in bytes.
        limit: usize,
        /// What was given, in bytes.
        found: usize,
    },
    /// The merger refused an operand, or what it made is too large. Nothing was written.
    #[error("the merger {merger} refuses an operand for the key {key}: {reason}")]
    Merge {
        /// Its name.
        merger: String,
        /// The key, as text as far as it is.
        key: String,
        /// Why.
        reason: String,
    },
    /// A view or an iterator was kept for longer than the options allow.
    #[error(
        "the view or iterator was kept for longer than view_age_max, {age_max:?}: make a new one"
    )]
    Expired {
        /// The limit.
        age_max: Duration,
    },
    /// The directory holds something else.
    #[error("{path}: {what}; give a new or an empty directory, or one that holds keys and values")]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// What it holds.
        what: &'static str,
    },
    /// The file that says what the directory is can't be read.
    #[error("{path}: {what}")]
    Marker {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The store below.
    #[error(transparent)]
    Store(#[from] quire_store::Error),
}

impl Error {
    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Invalid(_) | Error::Merge { .. } | Error::Foreign { .. } => ErrorKind::Invalid,
            Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::Expired { .. } => ErrorKind::Gone,
            Error::Marker { .. } => ErrorKind::Corrupt,
            Error::Store(error) => error.kind(),
        }
    }
}

impl From<quire_env::Error> for Error {
    fn from(error: quire_env::Error) -> Error {
        quire_store::Error::from(error).into()
    }
}

impl From<quire_lsm::Error> for Error {
    fn from(error: quire_lsm::Error) -> Error {
        quire_store::Error::from(error).into()
    }
}
