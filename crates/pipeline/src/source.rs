//! Source: what a format of documents is to the reader.

use crate::batch::SourceBatch;
use crate::csv_types::CsvColumn;
use std::io;

/// The longest document as text: 16 MiB, the largest document, and 1 MiB for white space.
pub(crate) const TEXT_BYTES_MAX: usize = 17 << 20;

/// Reads documents of one format from one input.
pub(crate) trait Source {
    /// Appends the next document to `batch`, as JSON or as the reason why it is bad, and moves the
    /// batch's end behind it. Returns false at the end of the input.
    ///
    /// # Errors
    /// Of reading; the documents before the error are in `batch`.
    fn read_into(&mut self, batch: &mut SourceBatch) -> io::Result<bool>;

    /// Whether the next document can be read without waiting for the input.
    fn is_buffered(&self) -> bool;

    /// The columns of a table; none of other formats.
    fn columns(&self) -> &[CsvColumn] {
        &[]
    }
}
