//! A server on a free port, in the background of the demonstration.

use crate::error::{Error, Result, causes};
use crate::http::{self, Answer};
use quire_server::{Remote, ServerOptions};
use quiredb::Database;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server. If it is dropped without [`Server::stop`], requests in flight are cut.
pub(super) struct Server {
    runtime: Runtime,
    task: JoinHandle<quire_server::Result<()>>,
    stop: oneshot::Sender<()>,
    /// Its address.
    pub(super) address: SocketAddr,
}

impl Server {
    /// Starts to serve `database`.
    pub(super) fn start(database: Database) -> Result<Server> {
        let failed = |error| Error::Failed(format!("cannot start a server: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = runtime
            .block_on(TcpListener::bind(any_port))
            .map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let options = ServerOptions {
            listen: address,
            ..ServerOptions::default()
        };
        let task = runtime.spawn(quire_server::serve(
            database,
            listener,
            options,
            async move {
                // An error means that the sender was dropped: stop too.
                let _ = stopped.await;
            },
        ));
        Ok(Server {
            runtime,
            task,
            stop,
            address,
        })
    }

    /// Sends a request over HTTP.
    ///
    /// # Errors
    /// If there is no answer, or its status is an error.
    pub(super) fn request(&self, method: &str, path: &str, json: &str) -> Result<String> {
        let Answer { status, body } =
            http::request(&Remote::plain(self.address), method, path, json).map_err(|error| {
                Error::Failed(format!(
                    "the server does not answer {method} {path}: {error}"
                ))
            })?;
        if !(200..300).contains(&status) {
            return Err(Error::Failed(format!(
                "the server answers {method} {path} with status {status}: {body}"
            )));
        }
        Ok(body)
    }

    /// Finishes the requests in flight, then stops.
    pub(super) fn stop(self) -> Result<()> {
        // An error means that it has stopped already; the task has the reason.
        let _ = self.stop.send(());
        match self.runtime.block_on(self.task) {
            Ok(served) => served.map_err(|error| Error::Failed(causes(&error))),
            Err(error) => Err(Error::Failed(format!("the server's task failed: {error}"))),
        }
    }
}
