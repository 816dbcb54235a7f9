//! What searches use of the server.

use std::time::Duration;

use super::contexts::Contexts;
use crate::engine::Engine;
use crate::http::buffers::Buffers;

/// What searches use of the server.
#[derive(Clone)]
pub(crate) struct SearchState {
    pub(crate) engine: Engine,
    pub(crate) buffers: Buffers,
    pub(crate) contexts: Contexts,
    /// The longest wait for memory.
    pub(crate) memory_timeout: Duration,
    /// Slow requests are logged, with how they were executed.
    pub(crate) notes_plans: bool,
}
