//! Runs a server on its ports until it is told to stop.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::certificates::watch;
use super::held_views::HeldViews;
use super::http_port::HttpPort;
use super::listeners::{Listeners, checked_address};
use super::pressure::Pressure;
use crate::dispatch::Routes;
use crate::error::Result;
use crate::frozen;
use crate::jobs::due_partitions::DuePartitions;
use crate::memcached::port::Port;
use crate::state::Server;

/// Connections of the port of metrics at once.
const METRICS_CONNECTIONS_MAX: usize = 64;

/// Serves until `shutdown` is ready, then ends what is in flight. See [`serve`](crate::serve()).
pub(super) async fn run(
    server: Arc<Server>,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let options = &server.options;
    let timeout = options.shutdown_timeout;
    let Listeners {
        http,
        memcached,
        metrics,
    } = listeners;
    let address = checked_address(&http, options)?;
    if let Some(memcached) = &memcached {
        let address = checked_address(memcached, options)?;
        tracing::info!(%address, "serving the memcached protocol");
    }
    let routes = Routes::all(Arc::clone(&server));
    let mut http_port = HttpPort::new(routes, &server, options.connections_max);
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
    let (stop_metrics, metrics_stopped) = oneshot::channel::<()>();
    let metrics_served = metrics.map(|listener| {
        let routes = Routes::of_metrics(Arc::clone(&server));
        let mut port = HttpPort::new(routes, &server, METRICS_CONNECTIONS_MAX);
        tokio::spawn(async move {
            port.accept(listener, async { drop(metrics_stopped.await) })
                .await;
            port.drain(timeout).await.shutdown().await;
        })
    });
    let watched = options.tls.clone().map(|tls| tokio::spawn(watch(tls)));
    let frozen = tokio::spawn(frozen::watch(server.engine.downgrade()));
    let ports = [&server.connections, &server.memcached.counters.connections].map(Arc::clone);
    let pressure = Pressure::new(server.engine.clone(), server.buffers.clone(), ports);
    let pressure = tokio::spawn(pressure.watch());
    let held_views = HeldViews::new(
        server.engine.clone(),
        server.contexts.clone(),
        Arc::clone(&server.tasks),
    );
    let held_views = tokio::spawn(held_views.watch());
    // A follower has the partitions of its leader.
    let due_partitions = DuePartitions {
        engine: server.engine.clone(),
        repartitions: Arc::clone(&server.repartitions),
        tasks: Arc::clone(&server.tasks),
        stopping: server.stopping.clone(),
    };
    let is_leader = server.check_writable().is_ok();
    let due_partitions = is_leader.then(|| tokio::spawn(due_partitions.watch()));
    tracing::info!(%address, "serving");
    http_port.accept(http, shutdown).await;

    // From here on no connection is accepted.
    drop((stop_memcached, stop_metrics));
    pressure.abort();
    held_views.abort();
    if let Some(due_partitions) = due_partitions {
        due_partitions.abort();
    }
    frozen.abort();
    if let Some(watched) = watched {
        watched.abort();
    }
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
    if let Some(served) = metrics_served {
        // An error says that the task panicked: it has stopped too.
        let _ = served.await;
    }
    assert!(
        server.connections.open() == 0,
        "a connection's task releases its count when it ends"
    );
    server.backups.stop().await;
    server.repartitions.stop().await;
    server.verifications.stop().await;
    server.copies.clear();
    Ok(())
}
