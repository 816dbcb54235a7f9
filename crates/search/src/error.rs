//! What can go wrong in a search index.

use quire_model::Position;

/// Result of a call of a search index.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a search index, or of the documents behind it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store.
    #[error("{0}")]
    Store(#[from] quire_store::Error),
    /// A document or key.
    #[error("{0}")]
    Model(#[from] quire_model::Error),
    /// The documents of the partition make no sense.
    #[error("partition {partition}, position {position}: {what}; run `quire verify`")]
    Corrupt {
        /// The partition.
        partition: u32,
        /// The record.
        position: Position,
        /// What is wrong.
        what: String,
    },
    /// The index is damaged: queries read documents until it is built anew.
    #[error("search index: {what}")]
    Index {
        /// What is wrong.
        what: String,
    },
    /// A query by the index would hold too many values of documents at once.
    #[error("the values of some documents take more than {bytes_max} bytes of memory")]
    ValuesTooLarge {
        /// The limit.
        bytes_max: usize,
    },
}
