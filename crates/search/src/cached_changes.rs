//! [`CachedChanges`]: what queries know of the documents that changed.

use super::changed::Changed;
use quire_model::Position;
use std::sync::Arc;

/// What the documents are like that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Form {
    /// Whether they have their keys in a field.
    pub(crate) with_keys: bool,
    /// Of which columns they are.
    pub(crate) columns_hash: u64,
}

/// The documents that changed after one position, up to another.
#[derive(Debug, Clone)]
pub(crate) struct CachedChanges {
    pub(crate) to: Position,
    pub(crate) form: Form,
    pub(crate) changed: Arc<Changed>,
}

impl CachedChanges {
    /// The position that they are after.
    pub(crate) fn after(&self) -> Position {
        self.changed.after()
    }
}
