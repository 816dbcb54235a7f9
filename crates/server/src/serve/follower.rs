//! Serving a follower: its own thread copies and follows, and the server serves what it has.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::listeners::Listeners;
use super::run::run;
use crate::follow::follower::Follower;
use crate::options::ServerOptions;
use crate::state::Server;

/// Serves a follower. If it has no copy yet, it first copies the leader; then it serves while it
/// follows. Writes are refused. Otherwise as [`serve`](crate::serve()). The database that was
/// served is closed when this returns.
///
/// # Errors
/// `Diverged` if the follower's database is no copy of its leader: nothing is changed; `Invalid` if
/// the leader refuses; `ReadOnly`, `Corrupt` or `Io` if the machine fails; those of
/// [`serve`](crate::serve()).
pub async fn serve_follower(
    mut follower: Follower,
    listeners: impl Into<Listeners>,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let status = follower.status();
    let (begin, begun) = oneshot::channel::<Arc<Server>>();
    let (end, ended) = oneshot::channel::<()>();
    let server_status = follower.status();
    let following = tokio::task::spawn_blocking(move || {
        // Dropped, and so received, when the follower ends.
        let _end = end;
        let result = follower.run(|database| {
            let server = Server::new(database, options, Some(server_status));
            let engine = server.engine.clone();
            // If nothing receives it, the server was told to stop before it began.
            let _ = begin.send(Arc::new(server));
            engine
        });
        (result, follower.into_database())
    });
    let mut shutdown = pin!(shutdown);
    let server = tokio::select! {
        () = &mut shutdown => None,
        // An error says that the follower ended without a database to serve.
        server = begun => server.ok(),
    };
    let served = match server {
        Some(server) => {
            let over = async {
                tokio::select! {
                    () = &mut shutdown => {}
                    _ = ended => {}
                }
                status.stopping.set();
            };
            run(server, listeners.into(), over).await
        }
        None => Ok(()),
    };
    status.stopping.set();
    let (result, database) = following.await?;
    let close = move || database.map_or(Ok(()), |database| database.close());
    let closed = tokio::task::spawn_blocking(close).await?;
    result.and(closed)?;
    Ok(served?)
}
