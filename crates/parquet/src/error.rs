//! Why a file or a row can't be read.

use parquet::errors::ParquetError;

/// Why rows can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is none of Parquet, is cut, or is damaged. No row can be read after it.
    #[error("{0}")]
    File(String),
    /// One row can't be JSON; the next one can be read.
    #[error("{0}")]
    Row(String),
}

impl Error {
    /// Of a library's error, behind the rows that were read before.
    pub(crate) fn damaged(rows: u64, error: &ParquetError) -> Error {
        Error::File(format!(
            "the Parquet file is damaged, or of a kind that can't be read, behind row {rows}: \
             {error}"
        ))
    }

    /// As [`damaged`](Error::damaged), where the file contradicts itself.
    pub(crate) fn contradiction(rows: u64, what: &str) -> Error {
        Error::File(format!(
            "the Parquet file is damaged behind row {rows}: {what}"
        ))
    }
}
