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
use crate::slow::SlowLog;
use crate::tasks::registry::Tasks;

/// Clients that are served at once, each by a thread with its buffers.
const ACTIVE_MAX: usize = 64;

/// How long clients that do not read may make others wait for a thread, all of them together.
const UNREAD_DELAY_MAX: Duration = Duration::from_millis(100);

/// The shortest time that a client has to read something.
const UNREAD_LEAST: Duration = Duration::from_millis(5);

/// What the memcached port uses of the server, shared by its connections.
pub(crate) struct PortState {
    pub(crate) engine: Engine,
    pub(crate) buffers: Buffers,
    pub(crate) counters: Counters,
    pub(crate) options: MemcachedOptions,
    pub(crate) access: Arc<Access>,
    pub(crate) audit: Option<Audit>,
    pub(crate) slow_log: Option<SlowLog>,
    /// What is running on all ports.
    pub(crate) tasks: Arc<Tasks>,
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
        tasks: Arc<Tasks>,
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
            slow_log: options.slow_log.clone(),
            tasks,
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

    /// How long a client may read nothing of an answer before its thread checks whether others wait
    /// for one: then it is ended. The longer they queue, the shorter. So a queue of clients that
    /// do not read is over within [`UNREAD_DELAY_MAX`], or [`UNREAD_LEAST`] a round.
    pub(crate) fn unread_for(&self) -> Duration {
        let waiting = u32::try_from(self.waiting.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        let rounds = 1 + waiting / ACTIVE_MAX as u32;
        let patience = UNREAD_DELAY_MAX / rounds;
        patience.max(UNREAD_LEAST).min(self.idle_timeout)
    }

    /// Whether clients wait for a thread: one that keeps its thread waiting is to give it up.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}
