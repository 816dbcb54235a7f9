//! The life of the server: accepting connections, and letting go of them.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use quiredb::Database;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::memcached::Port;
use crate::net::accept::accept;
use crate::net::client_io::ClientIo;
use crate::options::ServerOptions;
use crate::routes;
use crate::state::Server;
use crate::{Error, Result};

/// Bounds what one connection can make the server hold. A header, the line with the URL included,
/// must fit in the buffer; a longer one gets 431, a longer URL 414.
const BUFFER_BYTES: usize = 64 << 10;
const HEADERS_MAX: usize = 100;
/// HTTP/2: requests at once on one connection, and bytes of a body that may be on their way
/// unasked.
const STREAMS_MAX: u32 = 64;
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Every route as an [`axum::Router`], to be called in process or mounted in a larger service.
/// Bounds of connections and sockets are [`serve()`]'s; all others hold here too.
///
/// # Errors [`Error::InvalidOption`] names an option out of its bounds; [`Error::TokenRequired`] if `options.listen` is
/// no loopback address and no token is set.
pub fn router(database: Database, options: ServerOptions) -> Result<Router> {
    options.check(options.listen)?;
    Ok(routes::router(Arc::new(Server::new(
        database, options, None,
    ))))
}

/// Where a server listens.
#[derive(Debug)]
pub struct Listeners {
    /// For HTTP.
    pub http: TcpListener,
    /// For the memcached protocol, if it is served.
    pub memcached: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    /// HTTP alone.
    fn from(http: TcpListener) -> Listeners {
        Listeners {
            http,
            memcached: None,
        }
    }
}

/// Opens the addresses that the options name.
///
/// # Errors
/// As [`serve()`]; [`Error::Io`] if the system refuses an address.
pub async fn bind(options: &ServerOptions) -> Result<Listeners> {
    options.check(options.listen)?;
    let http = listen(options.listen).await?;
    let memcached = match &options.memcached {
        Some(memcached) => Some(listen(memcached.listen).await?),
        None => None,
    };
    Ok(Listeners { http, memcached })
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|source| Error::Io {
        op: "listen on",
        address,
        source,
    })
}

/// Where a listener listens, if the options allow it.
fn checked_address(listener: &TcpListener, options: &ServerOptions) -> Result<SocketAddr> {
    let address = listener.local_addr().map_err(|source| Error::Io {
        op: "look up",
        address: options.listen,
        source,
    })?;
    options.check(address)?;
    Ok(address)
}

/// Serves the database until `shutdown` is ready, then lets requests in flight end: for
/// `options.shutdown_timeout` at the longest, after which their connections are cut. It takes
/// HTTP/1.1, and HTTP/2 of clients that know beforehand.
///
/// A backup that the server is making is broken off. The database stays open: close it after this
/// returns. A write whose connection was cut may still run; it is acknowledged to nobody, and
/// `Database::close` waits for it or makes it fail.
///
/// # Errors
/// Before anything is served: [`Error::TokenRequired`] if others can reach the listener and no
/// token is set, [`Error::InvalidOption`], [`Error::Io`].
pub async fn serve(
    database: Database,
    listeners: impl Into<Listeners>,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let server = Arc::new(Server::new(database, options.clone(), None));
    serve_with(server, listeners.into(), options, shutdown).await
}

/// [`serve()`], of what `server` has.
pub(crate) async fn serve_with(
    server: Arc<Server>,
    listeners: Listeners,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let Listeners {
        http: listener,
        memcached,
    } = listeners;
    let address = checked_address(&listener, &options)?;
    if let Some(memcached) = &memcached {
        let address = checked_address(memcached, &options)?;
        tracing::info!(%address, "serving the memcached protocol");
    }
    let service = TowerToHyperService::new(routes::router(Arc::clone(&server)));
    let http = protocol(&options);
    let slots = Arc::new(Semaphore::new(
        options.connections_max.min(Semaphore::MAX_PERMITS),
    ));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let port = Port::new(Arc::clone(&server));
    let (stop_port, port_stopped) = oneshot::channel::<()>();
    let accepting = memcached.map(|memcached| {
        let port = port.clone();
        tokio::spawn(async move {
            // A sender that is gone stops it too.
            let stop = async { drop(port_stopped.await) };
            port.accept(memcached, stop).await;
        })
    });
    let mut shutdown = pin!(shutdown);
    tracing::info!(%address, "serving");
    loop {
        let next = async {
            // Where there is no slot the connection waits in the system's queue, unaccepted.
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, accept(&listener).await)
        };
        let (slot, stream) = tokio::select! {
            biased;
            () = &mut shutdown => break,
            next = next => next,
        };
        // Answers are written whole, so waiting for more to send gains nothing.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection went away before it was served");
            continue;
        }
        let open = server.metrics.connections.begin();
        let client = ClientIo::new(stream, Arc::clone(&server.metrics), options.idle_timeout);
        let connection = http
            .serve_connection(TokioIo::new(client), service.clone())
            .into_owned();
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            let _held_while_open = (slot, open);
            if let Err(error) = connection.await {
                tracing::debug!(error, "a connection ended early");
            }
        });
        while connections.try_join_next().is_some() {}
    }
    drop((listener, stop_port));
    server.stopping.store(true, Ordering::Release);
    if let Some(accepting) = accepting {
        // It ends now that the sender is gone.
        let _ = accepting.await;
    }
    tracing::info!(connections = connections.len(), "shutting down");
    let http_done = async {
        let graceful = graceful.shutdown();
        if tokio::time::timeout(options.shutdown_timeout, graceful)
            .await
            .is_err()
        {
            tracing::warn!("requests still running at the end of the shutdown time are cut");
        }
    };
    tokio::join!(http_done, port.stop(options.shutdown_timeout));
    connections.shutdown().await;
    server.backups.stop().await;
    server.verifications.stop().await;
    server.copies.clear();
    Ok(())
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
