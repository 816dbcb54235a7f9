//! The HTTP port: accepts connections, serves each in a task of its own, and ends them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::http_connection::{HttpConnection, Protocols, Requests, closing};
use crate::audit::{Audit, Event, Peer};
use crate::limits::{Connected, Limits};
use crate::net::accept::accept;
use crate::net::client_io::ClientIo;
use crate::net::connections::Connections;
use crate::net::gate::Gate;
use crate::net::idle::{IdleConnections, KEPT_PART};
use crate::net::lingering::Lingering;
use crate::net::stream::Stream;
use crate::net::tls::Tls;
use crate::options::is_loopback;
use crate::state::Server;

/// The longest time for a handshake of TLS.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How often a place is looked for while none is free.
const PLACE_EVERY: Duration = Duration::from_millis(100);

/// The HTTP port and its connections.
pub(super) struct HttpPort {
    router: Router,
    protocols: Arc<Protocols>,
    tls: Option<Tls>,
    idle_timeout: Duration,
    counts: Arc<Connections>,
    limits: Arc<Limits>,
    /// Where it is noted who has no certificate, if clients need one.
    audit: Option<Audit>,
    idle: Arc<IdleConnections>,
    slots: Arc<Semaphore>,
    /// Places of these that strangers do not hold for long.
    kept: usize,
    /// True once the port is closed: connections end with their present request.
    is_closing: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl HttpPort {
    /// A port with places for `connections_max` connections at once.
    pub(super) fn new(router: Router, server: &Server, connections_max: usize) -> Self {
        let options = &server.options;
        let slots = connections_max.min(Semaphore::MAX_PERMITS);
        let idle = Arc::default();
        server.buffers.watch(&idle);
        HttpPort {
            router,
            protocols: Arc::new(Protocols::new(options.idle_timeout)),
            tls: options.tls.clone(),
            idle_timeout: options.idle_timeout,
            counts: Arc::clone(&server.connections),
            limits: Arc::clone(&server.limits),
            audit: options
                .audit
                .clone()
                .filter(|_| options.tls.as_ref().is_some_and(Tls::is_mutual)),
            idle,
            slots: Arc::new(Semaphore::new(slots)),
            kept: slots / KEPT_PART,
            is_closing: watch::Sender::new(false),
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
            let next = async {
                let (stream, connected) = accept(&listener, &self.limits, &self.idle).await;
                (
                    slot(&self.slots, self.kept, &self.idle).await,
                    stream,
                    connected,
                )
            };
            let (slot, stream, connected) = tokio::select! {
                biased;
                () = &mut shutdown => return,
                next = next => next,
            };
            // The semaphore is never closed, so there is always a slot.
            if let Ok(slot) = slot {
                self.begin(stream, (slot, connected));
            }
            while self.tasks.try_join_next().is_some() {}
        }
    }

    /// Begins to serve a connection.
    fn begin(&mut self, stream: TcpStream, place: (OwnedSemaphorePermit, Connected)) {
        // Answers are written whole, so waiting for more bytes to send gains nothing.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection closed before it was served");
            return;
        }
        let (open, counts) = (self.counts.begin(), Arc::clone(&self.counts));
        let (router, protocols) = (self.router.clone(), Arc::clone(&self.protocols));
        let address = stream.peer_addr().ok();
        let presence = self.idle.begin(address.is_some_and(is_loopback));
        let idle_timeout = self.idle_timeout;
        let acceptor = self.tls.as_ref().map(Tls::http_acceptor);
        let audit = self.audit.clone();
        let mut is_closing = self.is_closing.subscribe();
        self.tasks.spawn(async move {
            let _held_while_open = (place, open);
            let requests = Requests {
                router,
                lingering: Lingering::default(),
                peer: Peer::new(address),
                presence,
            };
            let stream = Gate::new(stream, Arc::clone(&requests.presence));
            let accepted = tokio::select! {
                biased;
                accepted = Stream::accept(stream, acceptor, HANDSHAKE_TIME.min(idle_timeout)) =>
                    accepted,
                () = requests.presence.evicted() => return,
                () = closing(&mut is_closing) => return,
            };
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) => {
                    tracing::debug!(%error, "a TLS handshake failed");
                    if let Some(audit) = audit {
                        audit.note(&Event::no_handshake("http", requests.peer.address));
                    }
                    return;
                }
            };
            let client = ClientIo::new(
                stream,
                counts,
                idle_timeout,
                requests.lingering.clone(),
                Arc::clone(&requests.presence),
            );
            let connection = HttpConnection {
                client,
                requests,
                protocols,
                is_closing,
            };
            connection.serve().await;
        });
    }

    /// Connections that are served now.
    pub(super) fn connection_count(&self) -> usize {
        self.tasks.len()
    }

    /// Waits up to `timeout` for requests in flight. Returns the connections, which the caller
    /// cuts.
    pub(super) async fn drain(mut self, limit: Duration) -> JoinSet<()> {
        self.is_closing.send_replace(true);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(limit, all).await.is_err() {
            tracing::warn!("requests still running at the end of the shutdown time are cut");
        }
        self.tasks
    }
}

/// A place for a connection. If none is free, another connection is closed for it. While few are,
/// a stranger is: the last places are kept for admitted clients.
async fn slot(
    slots: &Arc<Semaphore>,
    kept: usize,
    idle: &IdleConnections,
) -> Result<OwnedSemaphorePermit, AcquireError> {
    if let Ok(slot) = Arc::clone(slots).try_acquire_owned() {
        idle.keep_places(slots.available_permits(), kept);
        return Ok(slot);
    }
    loop {
        idle.evict_oldest();
        let free = Arc::clone(slots).acquire_owned();
        if let Ok(slot) = timeout(PLACE_EVERY, free).await {
            return slot;
        }
    }
}
