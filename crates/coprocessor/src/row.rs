//! What a call is about: a row, or a change of one.

use quire_model::{Document, Key};

/// What a call is about.
#[derive(Debug, Clone, Copy)]
pub struct Row<'r> {
    /// The key.
    pub key: &'r Key,
    /// The document; of a trigger the one that is to be written.
    pub document: &'r Document,
    /// Of a trigger: the document before the change, if there was one.
    pub before: Option<&'r Document>,
    /// What the run was started with.
    pub argument: Option<&'r Document>,
}

impl<'r> Row<'r> {
    /// A row as it is read.
    pub fn new(key: &'r Key, document: &'r Document) -> Row<'r> {
        Row {
            key,
            document,
            before: None,
            argument: None,
        }
    }

    /// The change from `before` to `document`.
    pub fn change(key: &'r Key, before: Option<&'r Document>, document: &'r Document) -> Row<'r> {
        Row {
            before,
            ..Row::new(key, document)
        }
    }
}
