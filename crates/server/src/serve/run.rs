//! Runs a server on its ports until it is told to stop.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::http_port::HttpPort;
use super::listeners::{Listeners, checked_address};
use crate::dispatch;
use crate::error::Result;
use crate::memcached::port::Port;
use crate::state::Server;

/// Serves until `shutdown` is ready, then ends what is in flight. See [`serve`](crate::serve()).
pub(super) async fn run(
    server: Arc<Server>,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let options = &server.options;
    let timeout = options.shutdown_timeout;
    let Listeners { http, memcached } = listeners;
    let address = checked_address(&http, options)?;
    if let Some(memcached) = &memcached {
        let address = checked_address(memcached, options)?;
        tracing::info!(%address, "serving the memcached protocol");
    }
    let router = dispatch::router(Arc::clone(&server));
    let mut http_port = HttpPort::new(router, &server);
    let memcached_port = Port::new(Arc::clone(&server.memcached));
    let (stop_memcached, memcached_stopped) = oneshot::channel::<()>();
    let memcached_accepts = memcached.map(|listener| {
        let port = memcached_port.clone();
        tokio::spawn(async move {
            // Dropping the sender stops the port.
            let stop = async { drop(memcached_stopped.await) };
            port.accept(listener, stop).await;
        })
    });
    tracing::info!(%address, "serving");
    http_port.accept(http, shutdown).await;

    // From here on no connection is accepted.
    drop(stop_memcached);
    server.stopping.set();
    if let Some(accepts) = memcached_accepts {
        // An error says that the task panicked: it has stopped too.
        let _ = accepts.await;
    }
    let connections = http_port.connection_count();
    tracing::info!(connections, "shutting down");
    let (mut connections, ()) =
        tokio::join!(http_port.drain(timeout), memcached_port.stop(timeout));
    connections.shutdown().await;
    assert!(
        server.connections.open() == 0,
        "a connection's task releases its count when it ends"
    );
    server.backups.stop().await;
    server.verifications.stop().await;
    server.copies.clear();
    Ok(())
}
