//! A client's socket: counts its bytes, and fails if the client neither sends nor reads for too
//! long. It outlives what a protocol holds of a connection between two requests.
//!
//! hyper bounds the time for a header and for an idle connection. It bounds neither the time until
//! a new connection has sent enough to tell HTTP/1 from HTTP/2, nor the time during which a client
//! reads none of its answer, or little. This socket bounds both.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::connections::Connections;
use super::idle::Presence;
use super::lingering::{LINGER_BYTES, LINGER_TIME, Lingering};
use super::stream::Stream;

/// What a client of HTTP/2 sends first.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The bytes a second that a client must read in the end, if it keeps the server waiting: its
/// answer takes memory.
const RATE_BYTES_MIN: u64 = 16 << 10;

/// A client sends at most one byte for this many bytes of an answer, to say that it has read them.
const READ_BYTES_A_FRAME_BYTE: usize = 256;

/// A client's socket.
pub(crate) struct ClientIo {
    stream: Stream,
    /// What was read, and is to be read again.
    unread: Bytes,
    outflow: Arc<Outflow>,
    connections: Arc<Connections>,
    /// The timer of a new connection; none once the preface was read or anything was written.
    opening: Option<Pin<Box<Sleep>>>,
    received_bytes: u64,
    /// The timer of a write that waits for the client; it counts only while `is_stalled`.
    stalled: Pin<Box<Sleep>>,
    is_stalled: bool,
    /// How long the client may still keep the server waiting: each wait takes of it, and what it
    /// reads adds to it, up to the timeout.
    patience: Patience,
    lingering: Lingering,
    presence: Arc<Presence>,
    /// How long, and how many bytes, are still discarded of a connection that is being closed.
    linger: Option<(Pin<Box<Sleep>>, usize)>,
}

impl ClientIo {
    pub(crate) fn new(
        stream: Stream,
        connections: Arc<Connections>,
        timeout: Duration,
        lingering: Lingering,
        presence: Arc<Presence>,
    ) -> ClientIo {
        ClientIo {
            lingering,
            presence,
            linger: None,
            stream,
            unread: Bytes::new(),
            outflow: Arc::default(),
            connections,
            opening: Some(Box::pin(sleep(timeout))),
            received_bytes: 0,
            stalled: Box::pin(sleep(timeout)),
            is_stalled: false,
            patience: Patience::new(timeout),
        }
    }

    /// What is still to be sent.
    pub(crate) fn outflow(&self) -> &Arc<Outflow> {
        &self.outflow
    }

    /// Whether the client begins with HTTP/2. What it took to know is read again.
    ///
    /// # Errors
    /// Of the connection.
    pub(crate) async fn is_http2(&mut self) -> io::Result<bool> {
        let (mut begun, mut count) = ([0; PREFACE.len()], 0);
        let is_http2 = loop {
            let (known, free) = begun.split_at_mut(count);
            match PREFACE.strip_prefix(known) {
                Some([]) => break true,
                None => break false,
                Some(_) => {}
            }
            match self.read(free).await? {
                0 => break false,
                bytes => count += bytes,
            }
        };
        self.read_again(Bytes::copy_from_slice(
            begun.get(..count).unwrap_or_default(),
        ));
        Ok(is_http2)
    }

    /// Has bytes read again that were read last.
    pub(crate) fn read_again(&mut self, bytes: Bytes) {
        debug_assert!(self.unread.is_empty(), "what is read again is read first");
        // Even without bytes it may hold a buffer.
        if !bytes.is_empty() {
            self.unread = bytes;
        }
    }

    /// Returns when there is something to read, or the client is gone. Called after a read that
    /// found nothing.
    ///
    /// # Errors
    /// Of the connection.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self.unread.is_empty() {
            true => self.stream.readable().await,
            false => Ok(()),
        }
    }

    /// Discards what the client still sends, until its end, or for as long as is due.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some((time, left)) = &mut self.linger else {
            return Poll::Ready(());
        };
        let mut discarded = [0; 8 << 10];
        while *left > 0 {
            let mut buf = ReadBuf::new(&mut discarded);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    *left = left.saturating_sub(buf.filled().len());
                    self.presence.taken(buf.filled().len());
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return time.as_mut().poll(cx),
            }
        }
        Poll::Ready(())
    }

    /// Passes on the result of a write, and counts its bytes.
    fn written(
        &mut self,
        result: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let result = ready!(self.unstalled(result, cx));
        self.opening = None;
        if let Ok(bytes) = &result {
            self.connections.sent(*bytes as u64);
            self.patience.sent(*bytes as u64);
            // A client says in frames of its own what it has read.
            self.presence.taken(*bytes / READ_BYTES_A_FRAME_BYTE);
            self.outflow.set_pending(true);
        }
        Poll::Ready(result)
    }

    /// Passes on the result of sending something, or starts and checks the timer of a stalled
    /// client. TLS sends what it has buffered in a flush, or before the end.
    fn unstalled<T>(
        &mut self,
        result: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        match result {
            Poll::Ready(result) => {
                if std::mem::take(&mut self.is_stalled) {
                    self.patience.waited_until(Instant::now());
                    self.presence.set_reads_nothing(false);
                }
                Poll::Ready(result)
            }
            Poll::Pending => {
                self.outflow.set_pending(true);
                if !self.is_stalled {
                    self.is_stalled = true;
                    self.presence.set_reads_nothing(true);
                    let end = self.patience.wait_from(Instant::now());
                    self.stalled.as_mut().reset(end);
                }
                ready!(self.stalled.as_mut().poll(cx));
                Poll::Ready(Err(too_slow("the client reads too little of its answer")))
            }
        }
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        if !this.unread.is_empty() {
            let count = this.unread.len().min(buf.remaining());
            buf.put_slice(&this.unread.split_to(count));
            return Poll::Ready(Ok(()));
        }
        match Pin::new(&mut this.stream).poll_read(cx, buf) {
            Poll::Ready(result) => {
                let bytes = buf.filled().len().saturating_sub(before);
                this.connections.received(bytes as u64);
                this.received_bytes = this.received_bytes.saturating_add(bytes as u64);
                if this.received_bytes >= PREFACE.len() as u64 {
                    this.opening = None;
                }
                Poll::Ready(result)
            }
            Poll::Pending => {
                if let Some(opening) = &mut this.opening {
                    ready!(opening.as_mut().poll(cx));
                    return Poll::Ready(Err(too_slow("the client sends no request")));
                }
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.written(result, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.written(result, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.stream).poll_flush(cx);
        ready!(this.unstalled(result, cx))?;
        this.outflow.set_pending(false);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.outflow.end();
        if this.linger.is_none() {
            let result = Pin::new(&mut this.stream).poll_shutdown(cx);
            ready!(this.unstalled(result, cx))?;
            if !this.lingering.is_set() {
                return Poll::Ready(Ok(()));
            }
            this.linger = Some((Box::pin(sleep(LINGER_TIME)), LINGER_BYTES));
        }
        ready!(this.poll_linger(cx));
        Poll::Ready(Ok(()))
    }
}

/// Whether all that was written to a client's socket is on its way.
#[derive(Debug, Default)]
pub(crate) struct Outflow {
    is_pending: AtomicBool,
    is_ended: AtomicBool,
}

impl Outflow {
    fn set_pending(&self, is_pending: bool) {
        self.is_pending.store(is_pending, Ordering::Release);
    }

    fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
    }

    /// Nothing is left to be sent, and the connection goes on.
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.is_pending.load(Ordering::Acquire) && !self.is_ended.load(Ordering::Acquire)
    }
}

/// See [`ClientIo::patience`].
#[derive(Debug)]
struct Patience {
    left: Duration,
    most: Duration,
    /// Since when the server waits.
    since: Option<Instant>,
}

impl Patience {
    fn new(most: Duration) -> Patience {
        Patience {
            left: most,
            most,
            since: None,
        }
    }

    /// The server begins to wait. Returns when it has waited long enough.
    fn wait_from(&mut self, now: Instant) -> Instant {
        self.since = Some(now);
        now + self.left
    }

    fn waited_until(&mut self, now: Instant) {
        let since = self.since.take().unwrap_or(now);
        self.left = self
            .left
            .saturating_sub(now.saturating_duration_since(since));
    }

    fn sent(&mut self, bytes: u64) {
        let earned = Duration::from_micros(bytes.saturating_mul(1_000_000) / RATE_BYTES_MIN);
        self.left = self.left.saturating_add(earned).min(self.most);
    }
}

fn too_slow(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_reads_little_is_cut_and_one_that_reads_enough_is_not() {
        let minute = Duration::from_secs(60);
        let waits = |bytes: u64| {
            let (mut patience, mut now) = (Patience::new(minute), Instant::now());
            // A second passes between one piece and the next.
            (0..600).all(|_| {
                let end = patience.wait_from(now);
                now += Duration::from_secs(1);
                patience.waited_until(now);
                patience.sent(bytes);
                now <= end
            })
        };
        assert!(!waits(RATE_BYTES_MIN / 2));
        assert!(waits(RATE_BYTES_MIN));
        // One that has read much may stop for as long as one that has just begun, no longer.
        let (mut patience, now) = (Patience::new(minute), Instant::now());
        patience.sent(1 << 40);
        assert_eq!(patience.wait_from(now), now + minute);
    }
}
