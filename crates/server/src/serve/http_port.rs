//! The HTTP port: accepts connections, serves each in a task of its own, and ends them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::net::accept::accept;
use crate::net::client_io::ClientIo;
use crate::net::connections::Connections;
use crate::options::ServerOptions;

/// The read buffer of a connection. A header, the line with the URL included, must fit in it: a
/// longer header gets 431, a longer URL 414.
const BUFFER_BYTES: usize = 64 << 10;

/// Header fields of a request.
const HEADERS_MAX: usize = 100;

/// HTTP/2: requests at once on one connection.
const STREAMS_MAX: u32 = 64;

/// HTTP/2: bytes of bodies that a client may send before the server takes them.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// The HTTP port and its connections.
pub(super) struct HttpPort {
    service: TowerToHyperService<Router>,
    protocol: Builder<TokioExecutor>,
    idle_timeout: Duration,
    counts: Arc<Connections>,
    slots: Arc<Semaphore>,
    graceful: GracefulShutdown,
    tasks: JoinSet<()>,
}

impl HttpPort {
    pub(super) fn new(router: Router, counts: Arc<Connections>, options: &ServerOptions) -> Self {
        let slots = options.connections_max.min(Semaphore::MAX_PERMITS);
        HttpPort {
            service: TowerToHyperService::new(router),
            protocol: protocol(options),
            idle_timeout: options.idle_timeout,
            counts,
            slots: Arc::new(Semaphore::new(slots)),
            graceful: GracefulShutdown::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Accepts connections until `shutdown` is ready.
    pub(super) async fn accept(
        &mut self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) {
        let mut shutdown = pin!(shutdown);
        loop {
            let slots = Arc::clone(&self.slots);
            let next = async {
                // While no slot is free, connections wait in the queue of the operating system.
                let slot = slots.acquire_owned().await;
                (slot, accept(&listener).await)
            };
            let (slot, stream) = tokio::select! {
                biased;
                () = &mut shutdown => return,
                next = next => next,
            };
            // The semaphore is never closed, so there is always a slot.
            if let Ok(slot) = slot {
                self.begin(stream, slot);
            }
            while self.tasks.try_join_next().is_some() {}
        }
    }

    /// Begins to serve a connection.
    fn begin(&mut self, stream: TcpStream, slot: OwnedSemaphorePermit) {
        // Answers are written whole, so waiting for more bytes to send gains nothing.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection closed before it was served");
            return;
        }
        let open = self.counts.begin();
        let client = ClientIo::new(stream, Arc::clone(&self.counts), self.idle_timeout);
        let connection = self
            .protocol
            .serve_connection(TokioIo::new(client), self.service.clone())
            .into_owned();
        let connection = self.graceful.watch(connection);
        self.tasks.spawn(async move {
            let _held_while_open = (slot, open);
            if let Err(error) = connection.await {
                tracing::debug!(error, "a connection ended early");
            }
        });
    }

    /// Connections that are served now.
    pub(super) fn connection_count(&self) -> usize {
        self.tasks.len()
    }

    /// Waits up to `timeout` for requests in flight. Returns the connections, which the caller
    /// cuts.
    pub(super) async fn drain(self, timeout: Duration) -> JoinSet<()> {
        let graceful = self.graceful.shutdown();
        if tokio::time::timeout(timeout, graceful).await.is_err() {
            tracing::warn!("requests still running at the end of the shutdown time are cut");
        }
        self.tasks
    }
}

fn protocol(options: &ServerOptions) -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(options.idle_timeout)
        .max_buf_size(BUFFER_BYTES)
        .max_headers(HEADERS_MAX);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(options.idle_timeout)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(BUFFER_BYTES)
        .max_header_list_size(BUFFER_BYTES as u32);
    http
}
