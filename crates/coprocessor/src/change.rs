//! What a trigger is about: the change of a row.

use quire_model::{Document, Key};

/// A change of a row, as a trigger sees it before it is done.
#[derive(Debug, Clone, Copy)]
pub struct Change<'c> {
    /// The key.
    pub key: &'c Key,
    /// The document before the change; `None` if there is none.
    pub before: Option<&'c Document>,
    /// The document as it is to be; `None` if it is removed.
    pub after: Option<&'c Document>,
    /// The time of the write: microseconds since 1970 UTC.
    pub time_micros: i64,
    /// What the trigger was attached with.
    pub argument: Option<&'c Document>,
}
