//! What can go wrong with a query.

use std::sync::Arc;

/// Result of a query.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text or the query makes no sense, or exceeds the limits of a query.
    Invalid,
    /// A field that nothing has, where that was to be an error.
    UnknownField,
    /// A field is not indexed for this use.
    Unsupported,
    /// The query would hold more memory than it may.
    TooLarge,
    /// A shard could not be read; see the source.
    Shard,
    /// The caller stopped the query.
    Stopped,
}

/// An error of a query.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is no filter or order.
    #[error("line {line}, column {column}: {what}")]
    Syntax {
        /// The line, from 1.
        line: u64,
        /// The character in it, from 1.
        column: u64,
        /// What is wrong there.
        what: String,
    },
    /// The query makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// No shard knows the field.
    #[error(
        "no document has a value in a field {path:?}; check its name (of an object, name a field \
         in it), or let unknown fields match nothing"
    )]
    UnknownField {
        /// The field.
        path: String,
    },
    /// A shard has the field, but no index of it that filters.
    #[error("field {path:?} can't be filtered by: it was not made filterable")]
    NotFilterable {
        /// The field.
        path: String,
    },
    /// A shard has the field, but no column of it.
    #[error("field {path:?} can't be sorted by or aggregated: it was not made sortable")]
    NotSortable {
        /// The field.
        path: String,
    },
    /// The query would hold too much.
    #[error(
        "{what} would take more than the {bytes_max} bytes of memory that a query may hold; \
         request less, narrow the filter, or raise the limit of its memory (--memory)"
    )]
    TooLarge {
        /// What grew too large.
        what: &'static str,
        /// The limit.
        bytes_max: usize,
    },
    /// The caller stopped the query: see [`Options::stop`](crate::Options::stop).
    #[error("the query was stopped")]
    Stopped,
    /// A shard could not be read.
    #[error("{0}")]
    Shard(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// A shard's own error.
    pub fn shard(error: impl std::error::Error + Send + Sync + 'static) -> Error {
        Error::Shard(Arc::new(error))
    }

    /// The coarse kind, which callers act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Syntax { .. } | Error::Invalid(_) => ErrorKind::Invalid,
            Error::UnknownField { .. } => ErrorKind::UnknownField,
            Error::NotFilterable { .. } | Error::NotSortable { .. } => ErrorKind::Unsupported,
            Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::Shard(_) => ErrorKind::Shard,
            Error::Stopped => ErrorKind::Stopped,
        }
    }
}
