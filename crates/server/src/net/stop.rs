//! Whether the server is stopping.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the server is stopping. Once set it stays set. A clone is another handle to the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
