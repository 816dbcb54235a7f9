//! Errors of this crate: what is wrong, at which byte, and what to do about it.

/// What a caller may act on; see [`Error::kind`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not one JSON object in UTF-8.
    InvalidJson,
    /// The document is over the size limit.
    TooLarge,
    /// Arrays and objects are nested too deep.
    TooDeep,
    /// One object has a field twice.
    DuplicateField,
    /// A number can't be kept without changing it.
    NumberOutOfRange,
    /// The value can't be a primary key.
    InvalidKey,
    /// Encoded bytes are damaged, or of a newer format.
    Corrupt,
}

/// Why a document, a key or an encoding was refused. Offsets are in bytes from the start of the
/// input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text breaks the rules of JSON (RFC 8259).
    #[error("invalid JSON at byte {offset}: {what}")]
    InvalidJson {
        /// Where it was noticed.
        offset: usize,
        /// What was found or missing.
        what: &'static str,
    },
    /// The text is not UTF-8.
    #[error("invalid UTF-8 at byte {offset}: documents are UTF-8; convert the input")]
    InvalidUtf8 {
        /// The first byte that is not UTF-8.
        offset: usize,
    },
    /// The text is JSON but not an object.
    #[error(
        "a document must be a JSON object, found {found} at byte {offset}; \
         wrap it: {{\"value\": ...}}"
    )]
    NotAnObject {
        /// Where the value starts.
        offset: usize,
        /// What it is.
        found: &'static str,
    },
    /// The document is over the size limit.
    #[error(
        "document of {bytes} bytes is over the limit of {bytes_max}; \
         split it, or keep large values elsewhere"
    )]
    TooLarge {
        /// Its size, as JSON text or encoded.
        bytes: usize,
        /// The limit on that.
        bytes_max: usize,
    },
    /// Arrays and objects are nested too deep.
    #[error("nesting deeper than {depth_max} levels at byte {offset}; flatten the document")]
    TooDeep {
        /// Where the first level too many starts.
        offset: usize,
        /// The limit, counting the document itself.
        depth_max: usize,
    },
    /// One object has a field twice.
    #[error("field {name:?} appears more than once in the object at byte {offset}; keep one")]
    DuplicateField {
        /// The field's name, cut if it is long.
        name: String,
        /// Where the object starts.
        offset: usize,
    },
    /// A number can't be kept without changing it.
    #[error("number {text} at byte {offset} is {what}")]
    NumberOutOfRange {
        /// The number as written, cut if it is long.
        text: String,
        /// Where it starts.
        offset: usize,
        /// Which range it leaves and what to do.
        what: &'static str,
    },
    /// NaN equals nothing, so it has no place in an order.
    #[error("NaN has no place in an order and can't be part of a key; use null")]
    NaN,
    /// The value can't be a primary key.
    #[error("{found} can't be a key: a key is an integer or a string of 1 to {bytes_max} bytes")]
    InvalidKey {
        /// What was found.
        found: String,
        /// The limit on a string key.
        bytes_max: usize,
    },
    /// Encoded bytes are damaged, or of a newer format.
    #[error("damaged encoding at byte {offset}: {what}")]
    Corrupt {
        /// Where it was noticed.
        offset: usize,
        /// Which rule the bytes break.
        what: &'static str,
    },
}

impl Error {
    /// The coarse kind, which callers act on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::InvalidJson { .. } | Error::InvalidUtf8 { .. } | Error::NotAnObject { .. } => {
                ErrorKind::InvalidJson
            }
            Error::TooLarge { .. } => ErrorKind::TooLarge,
            Error::TooDeep { .. } => ErrorKind::TooDeep,
            Error::DuplicateField { .. } => ErrorKind::DuplicateField,
            Error::NumberOutOfRange { .. } | Error::NaN => ErrorKind::NumberOutOfRange,
            Error::InvalidKey { .. } => ErrorKind::InvalidKey,
            Error::Corrupt { .. } => ErrorKind::Corrupt,
        }
    }
}

/// `text` for use in a message: its first 64 characters, and dots if there is more.
pub(crate) fn excerpt(text: &[u8]) -> String {
    const CHARS_MAX: usize = 64;
    let head = text.get(..4 * CHARS_MAX).unwrap_or(text);
    let shown: String = String::from_utf8_lossy(head)
        .chars()
        .take(CHARS_MAX)
        .collect();
    if shown.len() < text.len() {
        shown + "…"
    } else {
        shown
    }
}
