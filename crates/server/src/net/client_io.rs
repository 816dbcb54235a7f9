//! A client's socket: counts its bytes, and fails if the client neither sends nor reads for too
//! long.
//!
//! hyper bounds the time for a header and for an idle connection. It bounds neither the time until
//! a new connection has sent enough to tell HTTP/1 from HTTP/2, nor the time during which a client
//! reads none of its answer, or little. This socket bounds both.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::connections::Connections;
use super::idle::Presence;
use super::lingering::{LINGER_BYTES, LINGER_TIME, Lingering};
use super::stream::Stream;

/// Length of the HTTP/2 connection preface: hyper needs these bytes to tell HTTP/2 from HTTP/1.
const PREFACE_BYTES: u64 = 24;

/// The bytes a second that a client must read in the end, if it keeps the server waiting: its
/// answer takes memory.
const RATE_BYTES_MIN: u64 = 16 << 10;

/// A client's socket.
pub(crate) struct ClientIo {
    stream: Stream,
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
            connections,
            opening: Some(Box::pin(sleep(timeout))),
            received_bytes: 0,
            stalled: Box::pin(sleep(timeout)),
            is_stalled: false,
            patience: Patience::new(timeout),
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
        match Pin::new(&mut this.stream).poll_read(cx, buf) {
            Poll::Ready(result) => {
                let bytes = buf.filled().len().saturating_sub(before);
                this.connections.received(bytes as u64);
                this.received_bytes = this.received_bytes.saturating_add(bytes as u64);
                if this.received_bytes >= PREFACE_BYTES {
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
        this.unstalled(result, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
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
