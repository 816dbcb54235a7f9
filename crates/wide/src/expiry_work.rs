//! What a partition keeps in memory about cells that expire. A crash may forget it.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// What a partition keeps in memory about cells that expire.
#[derive(Debug, Default)]
pub(crate) struct ExpiryWork {
    /// Whether a cell was written that does.
    pub(crate) is_expected: AtomicBool,
    /// Cells that were removed.
    pub(crate) removed: AtomicU64,
}
