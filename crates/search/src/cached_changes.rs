//! [`CachedChanges`]: what queries know of the documents that changed.

use super::changed::Changed;
use quire_model::Position;
use std::sync::Arc;

/// The documents that changed after one position, up to another.
#[derive(Debug, Clone)]
pub(crate) struct CachedChanges {
    pub(crate) to: Position,
    /// Whether the documents have their keys in a field.
    pub(crate) with_keys: bool,
    pub(crate) changed: Arc<Changed>,
}

impl CachedChanges {
    /// The position that they are after.
    pub(crate) fn after(&self) -> Position {
        self.changed.after()
    }
}
