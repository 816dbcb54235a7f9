//! The memcached port: accepts clients, serves each on a thread of its own, and ends them.

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
use super::port_state::PortState;
use crate::net::accept::accept;

/// How long a client whose connection is closed may take to read the reason.
const LINGER: Duration = Duration::from_secs(1);

/// The port and its clients.
#[derive(Clone)]
pub(crate) struct Port {
    state: Arc<PortState>,
    clients: Arc<Clients>,
    slots: Arc<Semaphore>,
}

/// Clients that are connected.
#[derive(Default)]
struct Clients {
    sockets: Mutex<Sockets>,
    is_stopping: AtomicBool,
    /// A client waits for the slot of an idle one.
    is_waiting: AtomicBool,
    /// Notified when the last client has ended.
    gone: Notify,
}

#[derive(Default)]
struct Sockets {
    by_id: HashMap<u64, TcpStream>,
    next_id: u64,
}

impl Port {
    pub(crate) fn new(state: Arc<PortState>) -> Port {
        let slots = state.connections_max;
        Port {
            state,
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

    /// A slot for a client. If none is free, an idle client is ended for it.
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
        let timeout = Some(self.state.idle_timeout);
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(timeout)?;
        let id = self.clients.add(stream.try_clone()?);
        let leaving = Leaving {
            clients: Arc::clone(&self.clients),
            id,
        };
        let port = self.clone();
        let run = move || {
            let open = port.state.counters.connections.begin();
            port.serve(&stream);
            // In this order: all else is released before the client counts as ended.
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
        let mut connection = Connection::new(Arc::clone(&self.state), stream, stream);
        // An idle client stays while no other waits for a slot. One idle client ends for each
        // that waits.
        let goes_on = |is_idle: bool| {
            let is_slot_wanted =
                || is_idle && self.clients.is_waiting.swap(false, Ordering::AcqRel);
            !self.clients.is_stopping.load(Ordering::Acquire) && !is_slot_wanted()
        };
        match connection.run(&goes_on) {
            Ok(false) => {}
            Ok(true) => {
                // Errors do not matter here: the connection has ended.
                let _ = stream.shutdown(Shutdown::Write);
                let _ = stream.set_read_timeout(Some(LINGER));
                connection.linger();
            }
            Err(error) => tracing::debug!(%error, "a memcached connection ended early"),
        }
    }

    /// Ends all connections once the requests that were read are answered. Connections that are not
    /// done after `timeout` are cut.
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
        let mut sockets = self.sockets.lock();
        let id = sockets.next_id;
        sockets.next_id += 1;
        sockets.by_id.insert(id, socket);
        id
    }

    fn shut(&self, how: Shutdown) {
        for socket in self.sockets.lock().by_id.values() {
            // An error says that it is closed already.
            let _ = socket.shutdown(how);
        }
    }

    async fn all_gone(&self) {
        loop {
            let gone = self.gone.notified();
            if self.sockets.lock().by_id.is_empty() {
                return;
            }
            gone.await;
        }
    }
}

/// Removes a client from the list when it ends.
struct Leaving {
    clients: Arc<Clients>,
    id: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut sockets = self.clients.sockets.lock();
        let removed = sockets.by_id.remove(&self.id);
        debug_assert!(removed.is_some(), "each client is on the list exactly once");
        if sockets.by_id.is_empty() {
            self.clients.gone.notify_one();
        }
    }
}
