//! Serving a database that takes writes.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use quiredb::Database;

use super::listeners::Listeners;
use super::run::run;
use crate::dispatch::Routes;
use crate::error::Result;
use crate::options::ServerOptions;
use crate::state::Server;

/// Every route as an [`axum::Router`], to be called in process or mounted in a larger service. The
/// bounds on connections and sockets are [`serve()`]'s and do not hold here; all others do.
///
/// # Errors
/// [`Error::InvalidOption`](crate::Error) names an option out of its bounds;
/// [`Error::TokenRequired`](crate::Error) if `options.listen` is no loopback address and no token
/// is set.
pub fn router(database: Database, options: ServerOptions) -> Result<Router> {
    options.check(options.listen)?;
    let server = Server::new(database, options, None);
    Ok(Routes::all(Arc::new(server)).into_router())
}

/// Serves the database until `shutdown` is ready. Then requests in flight may end, for up to
/// `options.shutdown_timeout`; after it their connections are cut. It speaks HTTP/1.1, and HTTP/2
/// with clients that begin with it (prior knowledge).
///
/// A backup that the server is making is stopped. The database stays open: close it after this
/// returns. A write whose connection was cut may still run. It is not acknowledged, and
/// `Database::close` waits for it or makes it fail.
///
/// # Errors
/// Before anything is served: [`Error::TokenRequired`](crate::Error) if other machines can connect
/// to a listener and no token is set, [`Error::InvalidOption`](crate::Error),
/// [`Error::Io`](crate::Error).
pub async fn serve(
    database: Database,
    listeners: impl Into<Listeners>,
    options: ServerOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let server = Arc::new(Server::new(database, options, None));
    run(server, listeners.into(), shutdown).await
}
