//! What can go wrong, and what a caller can do about it.

use std::path::PathBuf;
use std::sync::Arc;

/// Result of a call to Quire.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can act on; the text of an error is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such database, collection, document or position.
    NotFound,
    /// There is such a collection already.
    AlreadyExists,
    /// A condition (`if_version`, `if_absent`) did not hold.
    Conflict,
    /// The caller's input can't be taken: malformed JSON, a bad key, an unknown setting.
    Invalid,
    /// Larger than a limit.
    TooLarge,
    /// Damaged bytes on disk, or files that do not belong together.
    Corrupt,
    /// The database is open elsewhere.
    Locked,
    /// The disk is full, or writes wait for memory that can't be freed. Nothing was written.
    Full,
    /// Read-only after a failed sync; reopen the database to recover.
    ReadOnly,
    /// The log no longer holds the position asked for.
    Gone,
    /// The operating system refused.
    Io,
    /// The database or collection was closed or dropped.
    Closed,
}

/// An error. Cheap to clone.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no database in the directory.
    #[error("{path}: no database here; make one by loading documents into it, or check the path")]
    NoDatabase {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds something else.
    #[error(
        "{path}: not a Quire database (it has files but no CATALOG); give an empty or a new directory"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
    /// The catalog is damaged or of another version.
    #[error("{path}: {what}")]
    Catalog {
        /// The catalog.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// There is no such collection.
    #[error("no collection {name:?} in this database ({existing})")]
    NoCollection {
        /// The name asked for.
        name: String,
        /// What there is, in words.
        existing: String,
    },
    /// There is such a collection already.
    #[error("collection {name:?} exists already")]
    CollectionExists {
        /// The name.
        name: String,
    },
    /// The caller's input can't be taken.
    #[error("{0}")]
    Invalid(String),
    /// The database was closed.
    #[error("the database is closed")]
    Closed,
    /// A document, a key or a write.
    #[error(transparent)]
    Partition(Arc<quire_collection::Error>),
    /// The machine.
    #[error(transparent)]
    Env(Arc<quire_env::Error>),
}

impl Error {
    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NoDatabase { .. } | Error::NoCollection { .. } => ErrorKind::NotFound,
            Error::CollectionExists { .. } => ErrorKind::AlreadyExists,
            Error::Foreign { .. } | Error::Invalid(_) => ErrorKind::Invalid,
            Error::Catalog { .. } => ErrorKind::Corrupt,
            Error::Closed => ErrorKind::Closed,
            Error::Partition(error) => partition_kind(error.kind()),
            Error::Env(error) => env_kind(error.kind()),
        }
    }
}

impl From<quire_collection::Error> for Error {
    fn from(error: quire_collection::Error) -> Error {
        Error::Partition(Arc::new(error))
    }
}

impl From<quire_model::Error> for Error {
    fn from(error: quire_model::Error) -> Error {
        quire_collection::Error::from(error).into()
    }
}

impl From<quire_env::Error> for Error {
    fn from(error: quire_env::Error) -> Error {
        Error::Env(Arc::new(error))
    }
}

fn partition_kind(kind: quire_collection::ErrorKind) -> ErrorKind {
    use quire_collection::ErrorKind as From;
    match kind {
        From::NotFound => ErrorKind::NotFound,
        From::Conflict => ErrorKind::Conflict,
        From::Corrupt | From::Model(quire_model::ErrorKind::Corrupt) => ErrorKind::Corrupt,
        From::Full => ErrorKind::Full,
        From::Model(quire_model::ErrorKind::TooLarge) => ErrorKind::TooLarge,
        From::Model(_) => ErrorKind::Invalid,
        From::Store(kind) => store_kind(kind),
        _ => ErrorKind::Io,
    }
}

fn store_kind(kind: quire_store::ErrorKind) -> ErrorKind {
    use quire_store::ErrorKind as From;
    match kind {
        // A file that a manifest names and that is not there is damage, not a question with the answer no.
        From::Corrupt | From::NotFound | From::AlreadyExists => ErrorKind::Corrupt,
        From::Gone => ErrorKind::Gone,
        From::Full => ErrorKind::Full,
        From::ReadOnly => ErrorKind::ReadOnly,
        From::Locked => ErrorKind::Locked,
        From::TooLarge => ErrorKind::TooLarge,
        From::Invalid => ErrorKind::Invalid,
        From::Closed => ErrorKind::Closed,
        _ => ErrorKind::Io,
    }
}

fn env_kind(kind: quire_env::ErrorKind) -> ErrorKind {
    use quire_env::ErrorKind as From;
    match kind {
        From::NotFound => ErrorKind::NotFound,
        From::AlreadyExists => ErrorKind::AlreadyExists,
        From::Locked => ErrorKind::Locked,
        From::NoSpace => ErrorKind::Full,
        From::UnexpectedEnd | From::TooLarge => ErrorKind::Corrupt,
        From::InvalidArgument => ErrorKind::Invalid,
        _ => ErrorKind::Io,
    }
}
