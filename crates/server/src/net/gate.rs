//! A client's socket that is read no further while too much is unread: bytes that were read off
//! sockets and that no handler has taken yet, such as a head that does not end, a handshake of TLS,
//! or a body of HTTP/2 whose request waits.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::idle::Presence;

/// How often it is looked whether more may be read.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A socket, and what is unread of it.
pub(crate) struct Gate {
    stream: TcpStream,
    presence: Arc<Presence>,
    /// Runs while nothing may be read.
    look: Option<Pin<Box<Sleep>>>,
}

impl Gate {
    pub(crate) fn new(stream: TcpStream, presence: Arc<Presence>) -> Gate {
        Gate {
            stream,
            presence,
            look: None,
        }
    }

    /// Returns when the client has sent something, or is gone.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.stream.readable().await
    }

    /// The bytes that may be read now, at least one.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        loop {
            let room = self.presence.room();
            if room > 0 {
                self.look = None;
                return Poll::Ready(room);
            }
            let look = self.look.get_or_insert_with(|| Box::pin(sleep(LOOK_EVERY)));
            // What is taken of this connection wakes it at once; the timer is about the others.
            if look.as_mut().poll(cx).is_pending() {
                self.presence.wake_when_taken(cx.waker());
                return Poll::Pending;
            }
            look.as_mut().reset(Instant::now() + LOOK_EVERY);
        }
    }
}

impl AsyncRead for Gate {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Poll::Ready(room) = this.poll_room(cx) else {
            return Poll::Pending;
        };
        let stream = Pin::new(&mut this.stream);
        let before = buf.filled().len();
        let read = if room < buf.remaining() {
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
            let read = stream.poll_read(cx, &mut part);
            let bytes = part.filled().len();
            buf.advance(bytes);
            read
        } else {
            stream.poll_read(cx, buf)
        };
        this.presence.received(buf.filled().len() - before);
        read
    }
}

impl AsyncWrite for Gate {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
