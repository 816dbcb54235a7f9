//! The memcached port: accepts clients, serves each on a thread of its own while it is active, and
//! ends them.
//!
//! # Invariants
//! 1. An idle client has no thread and no buffers: the system tells when it has sent something.
//! 2. A client has one thread at most, and there is a bound on threads. While others wait for one,
//!    a client that keeps its thread waiting gives it up: it is idle, or ended if it does not read.

use std::collections::HashMap;
use std::future::Future;
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::TcpListener;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};

use super::connection::{Connection, Run};
use super::port_state::PortState;
use super::socket::Socket;
use crate::limits::Connected;
use crate::net::accept::accept;
use crate::net::connections::OpenConnection;
use crate::net::idle::{IdleConnections, Presence};
use crate::net::places::{Place, Places};
use crate::net::tls::Tls;
use crate::options::is_loopback;

/// How long a client whose connection is closed may take to read the reason.
const LINGER: Duration = Duration::from_secs(1);

/// How much is read and discarded of such a client.
const LINGER_BYTES: usize = 4 << 20;

/// The stack of a client's thread. A document has at most 128 levels.
const STACK_BYTES: usize = 512 << 10;

/// The port and its clients.
#[derive(Clone)]
pub(crate) struct Port {
    state: Arc<PortState>,
    clients: Arc<Clients>,
    places: Places,
}

/// Clients that are connected.
#[derive(Default)]
struct Clients {
    sockets: Mutex<Sockets>,
    is_stopping: AtomicBool,
    idle: Arc<IdleConnections>,
    /// Notified when the last client has ended.
    gone: Notify,
}

/// A connected client. Its parts are released in this order: all else before it counts as ended.
struct Client {
    connection: Connection<Socket, Socket>,
    socket: Socket,
    /// The server has ended it: what it still sends is discarded.
    lingers: bool,
    _open: OpenConnection,
    _place: (Place, Connected),
    presence: Arc<Presence>,
    leaving: Leaving,
}

#[derive(Default)]
struct Sockets {
    by_id: HashMap<u64, Arc<TcpStream>>,
    next_id: u64,
}

impl Port {
    pub(crate) fn new(state: Arc<PortState>) -> Port {
        let clients: Arc<Clients> = Arc::default();
        state.buffers.watch(&clients.idle);
        Port {
            places: Places::new(state.connections_max, &clients.idle),
            state,
            clients,
        }
    }

    /// Accepts clients until `stop` is ready.
    pub(crate) async fn accept(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        loop {
            let next = async {
                let (stream, connected) =
                    accept(&listener, &self.state.limits, &self.clients.idle).await;
                (stream, (self.places.take().await, connected))
            };
            let (stream, place) = tokio::select! {
                biased;
                () = &mut stop => return,
                next = next => next,
            };
            if let Err(error) = self.begin(stream, place) {
                tracing::warn!(%error, "a memcached connection can't be served");
            }
        }
    }

    /// Begins to serve a client, which is idle until it sends something.
    fn begin(
        &self,
        stream: tokio::net::TcpStream,
        place: (Place, Connected),
    ) -> std::io::Result<()> {
        let stream = stream.into_std()?;
        stream.set_nodelay(true)?;
        let tls = self.state.tls.as_ref().map(Tls::memcached);
        let socket = Socket::new(stream, tls, Arc::clone(&self.state))?;
        let address = socket.tcp.peer_addr().ok();
        let id = self.clients.add(Arc::clone(&socket.tcp));
        let client = Client {
            connection: Connection::new(
                Arc::clone(&self.state),
                address,
                socket.clone(),
                socket.clone(),
            ),
            socket,
            lingers: false,
            _open: self.state.counters.connections.begin(),
            _place: place,
            presence: self.clients.idle.begin(address.is_some_and(is_loopback)),
            leaving: Leaving {
                clients: Arc::clone(&self.clients),
                id,
            },
        };
        tokio::spawn(client.attend());
        Ok(())
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
    fn add(&self, socket: Arc<TcpStream>) -> u64 {
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

impl Client {
    /// Serves the client to its end: on a thread while it is active, and on none while it is idle.
    async fn attend(mut self) {
        loop {
            // One that rests may have sent something already.
            let is_ready = match self.connection.take_rest() {
                Duration::ZERO => self.is_ready().await,
                rest => self.rest(rest).await,
            };
            if !is_ready {
                return;
            }
            let Some(active) = self.active().await else {
                return;
            };
            let (done, ended) = oneshot::channel();
            let run = move || {
                let _active = active;
                // If nothing receives it, the server has stopped.
                let _ = done.send(self.serve());
            };
            let thread = std::thread::Builder::new().name("memcached".to_owned());
            if let Err(error) = thread.stack_size(STACK_BYTES).spawn(run) {
                tracing::warn!(%error, "a memcached connection can't be served");
                return;
            }
            match ended.await {
                Ok(Some(client)) => self = client,
                _ => return,
            }
            if self.lingers {
                return self.linger().await;
            }
        }
    }

    /// Rests without a thread. False if its place is wanted before the end.
    async fn rest(&self, rest: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(rest) => true,
            () = self.presence.evicted() => false,
        }
    }

    /// A permit to be served, once there is one.
    async fn active(&self) -> Option<OwnedSemaphorePermit> {
        let state = &self.socket.state;
        let active = Arc::clone(&state.active);
        if let Ok(permit) = Arc::clone(&active).try_acquire_owned() {
            return Some(permit);
        }
        state.waiting.fetch_add(1, Ordering::Relaxed);
        let permit = active.acquire_owned().await;
        state.waiting.fetch_sub(1, Ordering::Relaxed);
        permit.ok()
    }

    /// Waits until the client has sent something. False if its place is wanted before that, or if
    /// the rest of a request does not arrive in time.
    async fn is_ready(&self) -> bool {
        let socket = &self.socket.tcp;
        let Ok(waiting) = self.waiting() else {
            return false;
        };
        let is_in_request = self.connection.is_in_request();
        let is_readable = tokio::select! {
            ready = waiting.readable() => ready.is_ok(),
            () = self.presence.evicted() => false,
            () = tokio::time::sleep(self.socket.state.idle_timeout), if is_in_request => false,
        };
        drop(waiting);
        is_readable
            && socket.set_nonblocking(false).is_ok()
            && !self.leaving.clients.is_stopping.load(Ordering::Acquire)
    }

    /// Serves the client until it ends, or waits for something: then it is returned. Blocks.
    fn serve(mut self) -> Option<Client> {
        let in_service = self.presence.serve(0);
        if self.connection.is_admitted() {
            self.presence.admit();
        }
        let clients = &self.leaving.clients;
        let goes_on = || !clients.is_stopping.load(Ordering::Acquire);
        match self.connection.run(&goes_on) {
            Ok(Run::Idle | Run::Rests) => {
                if self.connection.is_admitted() {
                    self.presence.admit();
                }
                let has_room = self.connection.release();
                drop(in_service);
                return has_room.then_some(self);
            }
            Ok(Run::Ended) => self.socket.finish(),
            Ok(Run::Lingers) => {
                self.socket.finish();
                // An error says that it is closed already.
                let _ = self.socket.tcp.shutdown(Shutdown::Write);
                self.lingers = true;
                drop(in_service);
                return Some(self);
            }
            Err(error) => tracing::debug!(%error, "a memcached connection ended early"),
        }
        None
    }

    /// Reads and discards what the client still sends, for a while and up to a bound, without a
    /// thread. If a socket is closed with unread bytes, the client may lose the last answer (TCP
    /// reset).
    async fn linger(&self) {
        let Ok(socket) = self.waiting() else { return };
        let discard = async {
            let (mut left, mut buffer) = (LINGER_BYTES, [0; 4 << 10]);
            while left > 0
                && let Ok(mut ready) = socket.readable().await
            {
                match ready.try_io(|socket| (&**socket.get_ref()).read(&mut buffer)) {
                    Ok(Ok(0) | Err(_)) => return,
                    Ok(Ok(bytes)) => left = left.saturating_sub(bytes),
                    // There was nothing to read yet.
                    Err(_) => {}
                }
            }
        };
        tokio::select! {
            _ = tokio::time::timeout(LINGER, discard) => {}
            () = self.presence.evicted() => {}
        }
    }

    /// The socket, to wait for what the client sends. It stays the same file descriptor, which is
    /// open for as long as anything has the socket.
    #[expect(
        deprecated,
        reason = "a socket that is shared names one descriptor for all its life; the function that \
                  tokio has instead is unsafe, because not every type does"
    )]
    fn waiting(&self) -> std::io::Result<AsyncFd<Arc<TcpStream>>> {
        let socket = &self.socket.tcp;
        socket.set_nonblocking(true)?;
        AsyncFd::with_interest(Arc::clone(socket), Interest::READABLE)
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
