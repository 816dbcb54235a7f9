//! The port: accepting clients, a thread for each, and letting go of them.

use std::collections::HashMap;
use std::future::Future;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore};

use super::connection::Connection;
use crate::net::accept::accept;
use crate::state::Server;

/// How long a client that was cut off may take to read why.
const LINGER: Duration = Duration::from_secs(1);

/// The port and its clients.
#[derive(Clone)]
pub(crate) struct Port {
    server: Arc<Server>,
    clients: Arc<Clients>,
    slots: Arc<Semaphore>,
}

/// Clients that are connected.
#[derive(Default)]
struct Clients {
    state: Mutex<State>,
    is_stopping: AtomicBool,
    /// A client waits for the place of an idle one.
    is_waiting: AtomicBool,
    /// Told when the last one has gone.
    gone: Notify,
}

#[derive(Default)]
struct State {
    sockets: HashMap<u64, TcpStream>,
    next: u64,
}

impl Port {
    pub(crate) fn new(server: Arc<Server>) -> Port {
        let slots = server.options.connections_max;
        Port {
            server,
            clients: Arc::default(),
            slots: Arc::new(Semaphore::new(slots.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// Accepts clients until `stop` is ready.
    pub(crate) async fn accept(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            let next = async {
                let stream = accept(&listener).await;
                (stream, self.slot().await)
            };
            let (stream, slot) = tokio::select! {
                biased;
                () = &mut stop => return,
                next = next => next,
            };
            let begun = slot
                .map_err(std::io::Error::other)
                .and_then(|slot| self.begin(stream, slot));
            if let Err(error) = begun {
                tracing::warn!(%error, "a memcached connection can't be served");
            }
        }
    }

    /// A place for a client: an idle one gives up its own if there is none free.
    async fn slot(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(slot);
        }
        self.clients.is_waiting.store(true, Ordering::Release);
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        self.clients.is_waiting.store(false, Ordering::Release);
        slot
    }

    /// Starts a client's thread.
    fn begin(
        &self,
        stream: tokio::net::TcpStream,
        slot: OwnedSemaphorePermit,
    ) -> std::io::Result<()> {
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        let timeout = Some(self.server.options.idle_timeout);
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(timeout)?;
        let id = self.clients.add(stream.try_clone()?);
        let leaving = Leaving {
            clients: Arc::clone(&self.clients),
            id,
        };
        let port = self.clone();
        let run = move || {
            let open = port.server.memcached.connections.begin();
            port.serve(&stream);
            // In this order: who waits for the last client to leave finds all else done.
            drop((stream, open, slot, port));
            drop(leaving);
        };
        std::thread::Builder::new()
            .name("memcached".to_owned())
            .spawn(run)?;
        Ok(())
    }

    /// Serves one client to its end.
    fn serve(&self, stream: &TcpStream) {
        let mut connection = Connection::new(Arc::clone(&self.server), stream, stream);
        // An idle client stays as long as no other waits for its place; one goes for one that
        // waits.
        let is_wanted = |is_idle: bool| {
            let is_place_wanted =
                || is_idle && self.clients.is_waiting.swap(false, Ordering::AcqRel);
            !self.clients.is_stopping.load(Ordering::Acquire) && !is_place_wanted()
        };
        match connection.run(&is_wanted) {
            Ok(false) => {}
            Ok(true) => {
                // What fails here is of no interest: the connection is over.
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.set_read_timeout(Some(LINGER));
                connection.linger();
            }
            Err(error) => tracing::debug!(%error, "a memcached connection ended early"),
        }
    }

    /// Lets what has been read be answered, then ends all connections: after `timeout` also those
    /// that are not done.
    pub(crate) async fn stop(&self, timeout: Duration) {
        self.clients.is_stopping.store(true, Ordering::Release);
        self.clients.shut(Shutdown::Read);
        if tokio::time::timeout(timeout, self.clients.all_gone())
            .await
            .is_err()
        {
            tracing::warn!(
                "memcached requests still running at the end of the shutdown time are cut"
            );
            self.clients.shut(Shutdown::Both);
        }
    }
}

impl Clients {
    fn add(&self, socket: TcpStream) -> u64 {
        let mut state = self.state.lock();
        let id = state.next;
        state.next += 1;
        state.sockets.insert(id, socket);
        id
    }

    fn shut(&self, how: Shutdown) {
        for socket in self.state.lock().sockets.values() {
            // One that has gone already needs no shutting.
            let _ = socket.shutdown(how);
        }
    }

    async fn all_gone(&self) {
        loop {
            let gone = self.gone.notified();
            if self.state.lock().sockets.is_empty() {
                return;
            }
            gone.await;
        }
    }
}

/// Takes a client off the list when it ends.
struct Leaving {
    clients: Arc<Clients>,
    id: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut state = self.clients.state.lock();
        state.sockets.remove(&self.id);
        if state.sockets.is_empty() {
            self.clients.gone.notify_one();
        }
    }
}
