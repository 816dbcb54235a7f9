//! What is counted of a port's connections: how many there are and were, and their bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the connections of a port.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: AtomicU64,
    opened: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

/// A connection that counts as open until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<Connections>);

impl Connections {
    /// Counts one more.
    pub(crate) fn begin(self: &Arc<Self>) -> OpenConnection {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.opened.fetch_add(1, Ordering::Relaxed);
        OpenConnection(Arc::clone(self))
    }

    /// Counts bytes read from clients.
    pub(crate) fn received(&self, bytes: u64) {
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes written to clients.
    pub(crate) fn sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Connections open now.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections opened since the server started.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Bytes read from clients since the server started.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    /// Bytes written to clients since the server started.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let before = self.0.open.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(
            before > 0,
            "each connection is counted as open exactly once"
        );
    }
}
