//! The HTTP port: accepts connections, serves each in a task of its own, and ends them.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::http_connection::{HttpConnection, Protocols, Requests, closing};
use crate::audit::{Audit, Event, Peer};
use crate::dispatch::Routes;
use crate::limits::{Connected, Limits};
use crate::net::accept::accept;
use crate::net::client_io::ClientIo;
use crate::net::connections::Connections;
use crate::net::gate::Gate;
use crate::net::idle::IdleConnections;
use crate::net::lingering::Lingering;
use crate::net::places::{Place, Places};
use crate::net::stream::Stream;
use crate::net::tls::Tls;
use crate::options::is_loopback;
use crate::state::Server;

/// The longest time for a handshake of TLS.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The HTTP port and its connections.
pub(super) struct HttpPort {
    routes: Routes,
    protocols: Arc<Protocols>,
    tls: Option<Tls>,
    counts: Arc<Connections>,
    limits: Arc<Limits>,
    /// Where it is noted who has no certificate, if clients need one.
    audit: Option<Audit>,
    idle: Arc<IdleConnections>,
    places: Places,
    /// True once the port is closed: connections end with their present request.
    is_closing: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl HttpPort {
    /// A port with places for `connections_max` connections at once.
    pub(super) fn new(routes: Routes, server: &Server, connections_max: usize) -> Self {
        let options = &server.options;
        let idle = Arc::default();
        server.buffers.watch(&idle);
        HttpPort {
            routes,
            protocols: Arc::new(Protocols::new(options.idle_timeout)),
            tls: options.tls.clone(),
            counts: Arc::clone(&server.connections),
            limits: Arc::clone(&server.limits),
            audit: options
                .audit
                .clone()
                .filter(|_| options.tls.as_ref().is_some_and(Tls::is_mutual)),
            places: Places::new(connections_max, &idle),
            idle,
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
                (stream, (self.places.take().await, connected))
            };
            let (stream, place) = tokio::select! {
                biased;
                () = &mut shutdown => return,
                next = next => next,
            };
            self.begin(stream, place);
            while self.tasks.try_join_next().is_some() {}
        }
    }

    /// Begins to serve a connection.
    fn begin(&mut self, stream: TcpStream, place: (Place, Connected)) {
        // Answers are written whole, so waiting for more bytes to send gains nothing.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection closed before it was served");
            return;
        }
        let address = stream.peer_addr().ok();
        let presence = self.idle.begin(address.is_some_and(is_loopback));
        let newcomer = Newcomer {
            stream: Gate::new(stream, Arc::clone(&presence)),
            acceptor: self.tls.as_ref().map(Tls::http_acceptor),
            audit: self.audit.clone(),
            counts: Arc::clone(&self.counts),
            requests: Requests {
                routes: self.routes.clone(),
                lingering: Lingering::default(),
                peer: Peer::new(address),
                presence,
            },
            protocols: Arc::clone(&self.protocols),
            places: self.places.clone(),
            is_closing: self.is_closing.subscribe(),
        };
        let held_while_open = (place, self.counts.begin());
        self.tasks.spawn(async move {
            let _held_while_open = held_while_open;
            // An idle connection keeps nothing of its beginning.
            if let Some(connection) = newcomer.accepted().await {
                connection.serve().await;
            }
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

/// A connection before its handshake.
struct Newcomer {
    stream: Gate,
    acceptor: Option<TlsAcceptor>,
    audit: Option<Audit>,
    counts: Arc<Connections>,
    requests: Requests,
    protocols: Arc<Protocols>,
    places: Places,
    is_closing: watch::Receiver<bool>,
}

impl Newcomer {
    /// The connection after its handshake; none if it has ended.
    fn accepted(self) -> BoxFuture<'static, Option<Box<HttpConnection>>> {
        Box::pin(self.begins())
    }

    async fn begins(mut self) -> Option<Box<HttpConnection>> {
        let requests = self.requests;
        let idle_timeout = self.protocols.idle_timeout();
        let handshake_time = HANDSHAKE_TIME.min(idle_timeout);
        let accepted = tokio::select! {
            biased;
            accepted = Stream::accept(self.stream, self.acceptor, handshake_time) => accepted,
            () = requests.presence.evicted() => return None,
            () = closing(&mut self.is_closing) => return None,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "a TLS handshake failed");
                if let Some(audit) = self.audit {
                    audit.note(&Event::no_handshake("http", requests.peer.address));
                }
                return None;
            }
        };
        let client = ClientIo::new(
            stream,
            self.counts,
            idle_timeout,
            requests.lingering.clone(),
            Arc::clone(&requests.presence),
        );
        Some(Box::new(HttpConnection {
            client,
            requests,
            protocols: self.protocols,
            places: self.places,
            is_closing: self.is_closing,
        }))
    }
}
