//! What the memcached port uses of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::counters::Counters;
use crate::access::caller::Access;
use crate::audit::Audit;
use crate::engine::Engine;
use crate::http::buffers::Buffers;
use crate::limits::Limits;
use crate::net::tls::Tls;
use crate::options::{MemcachedOptions, ServerOptions};

/// Clients that are served at once, each by a thread with its buffers.
const ACTIVE_MAX: usize = 64;

/// What the memcached port uses of the server, shared by its connections.
pub(crate) struct PortState {
    pub(crate) engine: Engine,
    pub(crate) buffers: Buffers,
    pub(crate) counters: Counters,
    pub(crate) options: MemcachedOptions,
    pub(crate) access: Arc<Access>,
    pub(crate) audit: Option<Audit>,
    pub(crate) tls: Option<Tls>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) connections_max: usize,
    pub(crate) idle_timeout: Duration,
    pub(crate) request_timeout: Duration,
    /// Why writes are refused; none if they are not.
    pub(crate) write_refusal: Option<String>,
    /// Permits of clients that are served now, each by a thread.
    pub(crate) active: Arc<Semaphore>,
    /// Clients that have sent something and wait for such a permit.
    pub(crate) waiting: AtomicUsize,
    /// When the server began, by the monotonic clock.
    pub(crate) begun: Duration,
}

impl PortState {
    pub(crate) fn new(
        options: &ServerOptions,
        limits: Arc<Limits>,
        access: Arc<Access>,
        engine: Engine,
        buffers: Buffers,
        write_refusal: Option<String>,
    ) -> PortState {
        PortState {
            counters: Counters::default(),
            options: options.memcached.clone().unwrap_or_default(),
            access,
            audit: options.audit.clone(),
            tls: options.tls.clone(),
            limits,
            connections_max: options.connections_max,
            idle_timeout: options.idle_timeout,
            request_timeout: options.request_timeout,
            active: Arc::new(Semaphore::new(ACTIVE_MAX)),
            waiting: AtomicUsize::new(0),
            begun: engine.now(),
            engine,
            buffers,
            write_refusal,
        }
    }

    /// Whether clients wait for a thread: one that keeps its thread waiting is to give it up.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}
