//! What a call is about: a row.

use quire_model::{Document, Key};

/// A row, as filters, maps and aggregates see it.
#[derive(Debug, Clone, Copy)]
pub struct Row<'r> {
    /// The key.
    pub key: &'r Key,
    /// The document.
    pub document: &'r Document,
    /// What the run was started with.
    pub argument: Option<&'r Document>,
}

impl<'r> Row<'r> {
    /// A row as it is read.
    pub fn new(key: &'r Key, document: &'r Document) -> Row<'r> {
        Row {
            key,
            document,
            argument: None,
        }
    }
}
