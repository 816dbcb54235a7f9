//! A memcached client's socket, which blocks: plain, or with TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::{ServerConfig, ServerConnection};

/// A client's socket. A clone is another handle to the same.
#[derive(Clone)]
pub(super) struct Socket {
    pub(super) tcp: Arc<TcpStream>,
    /// The lock is held while a read or write blocks: one thread alone uses a socket.
    tls: Option<Arc<Mutex<ServerConnection>>>,
}

impl Socket {
    /// With TLS, the handshake is a part of the first read. It counts as a part of the first
    /// request for how long it may take.
    ///
    /// # Errors
    /// If the state of TLS can't be made.
    pub(super) fn new(tcp: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<Socket> {
        let tls = tls.map(ServerConnection::new).transpose();
        let tls = tls.map_err(io::Error::other)?;
        Ok(Socket {
            tcp: Arc::new(tcp),
            tls: tls.map(|tls| Arc::new(Mutex::new(tls))),
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
        match &self.tls {
            Some(tls) => rustls::Stream::new(&mut *tls.lock(), &mut &*self.tcp).read(buffer),
            None => (&*self.tcp).read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.tls {
            Some(tls) => {
                let (tls, tcp) = (&mut *tls.lock(), &mut &*self.tcp);
                let mut stream = rustls::Stream::new(tls, tcp);
                // Without the flush, bytes that the client does not take would count as sent.
                let written = stream.write(bytes)?;
                stream.flush()?;
                Ok(written)
            }
            None => (&*self.tcp).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &self.tls {
            Some(tls) => rustls::Stream::new(&mut *tls.lock(), &mut &*self.tcp).flush(),
            None => (&*self.tcp).flush(),
        }
    }
}
