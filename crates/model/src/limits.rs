//! Limits on what a document may be.

/// Longest JSON text of a document, white space included.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// Longest encoding of a document. Most encodings are shorter than their text; arrays of one-digit
/// numbers and the like are at most four times as long.
pub const ENCODED_BYTES_MAX: usize = 4 * DOCUMENT_BYTES_MAX;

/// Most levels of arrays and objects, counting the document itself.
pub const DEPTH_MAX: usize = 128;
