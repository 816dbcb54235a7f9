//! A memcached client's socket, which blocks: plain, or with TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::{ServerConfig, ServerConnection};

use super::connection::is_early;
use super::port_state::PortState;
use crate::audit::Event;
use crate::net::tls::{TLS_BUFFER_BYTES, Tls};

/// A client that sends nothing for this long gives up its thread and its buffers: as a rule, and
/// while others wait for a thread.
const IDLE_AFTER: Duration = Duration::from_millis(100);
const IDLE_AFTER_CROWDED: Duration = Duration::from_millis(1);

/// A client's socket. A clone is another handle to the same.
#[derive(Clone)]
pub(super) struct Socket {
    pub(super) tcp: Arc<TcpStream>,
    /// The lock is held while a read or write blocks: one thread alone uses a socket.
    tls: Option<Arc<Mutex<ServerConnection>>>,
    pub(super) state: Arc<PortState>,
    /// How long a read waits, and a write.
    patience: Duration,
    unread_for: Duration,
}

impl Socket {
    /// With TLS, the handshake is a part of the first read. It counts as a part of the first
    /// request for how long it may take.
    ///
    /// # Errors
    /// If the state of TLS can't be made, or the connection is gone.
    pub(super) fn new(
        tcp: TcpStream,
        tls: Option<Arc<ServerConfig>>,
        state: Arc<PortState>,
    ) -> io::Result<Socket> {
        let tls = tls.map(ServerConnection::new).transpose();
        let mut tls = tls.map_err(io::Error::other)?;
        if let Some(tls) = &mut tls {
            tls.set_buffer_limit(Some(TLS_BUFFER_BYTES));
        }
        let unread_for = state.unread_for();
        tcp.set_write_timeout(Some(unread_for))?;
        Ok(Socket {
            tcp: Arc::new(tcp),
            tls: tls.map(|tls| Arc::new(Mutex::new(tls))),
            state,
            patience: Duration::ZERO,
            unread_for,
        })
    }

    /// Tells a client with TLS that nothing follows, so that it knows that no answer was cut off.
    pub(super) fn finish(&self) {
        if let Some(tls) = &self.tls {
            let mut tls = tls.lock();
            tls.send_close_notify();
            // Errors do not matter here: the connection has ended.
            let _ = tls.write_tls(&mut &*self.tcp);
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let patience = match self.state.is_crowded() {
            true => IDLE_AFTER_CROWDED,
            false => IDLE_AFTER.min(self.state.idle_timeout),
        };
        if self.patience != patience {
            self.tcp.set_read_timeout(Some(patience))?;
            self.patience = patience;
        }
        match &self.tls {
            Some(tls) => {
                let tls = &mut *tls.lock();
                let was_new = tls.is_handshaking();
                let read = rustls::Stream::new(tls, &mut &*self.tcp).read(buffer);
                if let Err(error) = &read
                    && was_new
                    && !is_early(error)
                {
                    self.note_no_handshake();
                }
                read
            }
            None => (&*self.tcp).read(buffer),
        }
    }
}

impl Socket {
    /// Notes a client that has no certificate, if clients need one.
    fn note_no_handshake(&self) {
        let is_mutual = self.state.tls.as_ref().is_some_and(Tls::is_mutual);
        if let Some(audit) = self.state.audit.as_ref().filter(|_| is_mutual) {
            audit.note(&Event::no_handshake("memcached", self.tcp.peer_addr().ok()));
        }
    }
}

/// With TLS, what was taken and could not be sent in time is sent by the next write or flush.
impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let unread_for = self.state.unread_for();
        if self.unread_for != unread_for {
            self.tcp.set_write_timeout(Some(unread_for))?;
            self.unread_for = unread_for;
        }
        let Some(tls) = &self.tls else {
            return (&*self.tcp).write(bytes);
        };
        let tls = &mut *tls.lock();
        // What was taken before goes first: so little is taken that is not sent.
        send(tls, &self.tcp)?;
        let taken = tls.writer().write(bytes)?;
        match send(tls, &self.tcp) {
            Err(error) if is_early(&error) => Ok(taken),
            sent => sent.map(|()| taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &self.tls {
            Some(tls) => send(&mut tls.lock(), &self.tcp),
            None => (&*self.tcp).flush(),
        }
    }
}

/// Sends what was taken and encrypted.
fn send(tls: &mut ServerConnection, tcp: &TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut &*tcp)?;
    }
    Ok(())
}
