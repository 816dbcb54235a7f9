//! How many connections a port has, and has had.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the connections of a port.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: AtomicU64,
    opened: AtomicU64,
}

/// A connection that is open as long as this lives.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<Connections>);

impl Connections {
    /// Counts one more.
    pub(crate) fn begin(self: &Arc<Self>) -> OpenConnection {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.opened.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// Open now.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Opened since the server started.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
