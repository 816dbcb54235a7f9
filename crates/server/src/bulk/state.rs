//! What bulk requests use of the server.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::http::buffers::Buffers;
use crate::metrics::requests::RequestMetrics;

/// What bulk requests use of the server.
pub(crate) struct BulkState {
    pub(crate) engine: Engine,
    pub(crate) buffers: Buffers,
    /// The longest wait for memory.
    pub(crate) memory_timeout: Duration,
    pub(crate) requests: Arc<RequestMetrics>,
}
