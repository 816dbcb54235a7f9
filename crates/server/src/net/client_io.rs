//! A client's socket: counts its bytes, and gives up on a client that does not move.
//!
//! hyper bounds the time for a header and for an idle connection, but not the time it takes to tell
//! HTTP/1 from HTTP/2, nor that in which a client reads none of its answer. Both end here.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use crate::metrics::requests::Metrics;

/// HTTP/2 is told from HTTP/1 by the first this many bytes.
const PREFACE_BYTES: u64 = 24;

/// A client's socket.
pub(crate) struct ClientIo {
    stream: TcpStream,
    metrics: Arc<Metrics>,
    timeout: Duration,
    /// Runs until the preface has been read or anything was written.
    opening: Option<Pin<Box<Sleep>>>,
    received_bytes: u64,
    /// Runs while a write waits for the client.
    stalled: Pin<Box<Sleep>>,
    is_stalled: bool,
}

impl ClientIo {
    pub(crate) fn new(stream: TcpStream, metrics: Arc<Metrics>, timeout: Duration) -> ClientIo {
        ClientIo {
            stream,
            metrics,
            timeout,
            opening: Some(Box::pin(sleep(timeout))),
            received_bytes: 0,
            stalled: Box::pin(sleep(timeout)),
            is_stalled: false,
        }
    }

    /// Judges the result of a write: counts what was taken, or lets the clock of a stalled client
    /// run.
    fn written(
        &mut self,
        result: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(result) => {
                self.is_stalled = false;
                self.opening = None;
                if let Ok(bytes) = &result {
                    self.metrics.sent(*bytes);
                }
                Poll::Ready(result)
            }
            Poll::Pending => {
                if !self.is_stalled {
                    self.is_stalled = true;
                    self.stalled.as_mut().reset(Instant::now() + self.timeout);
                }
                ready!(self.stalled.as_mut().poll(cx));
                Poll::Ready(Err(too_slow("the client reads none of its answer")))
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
                this.metrics.received(bytes);
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
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

fn too_slow(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}
