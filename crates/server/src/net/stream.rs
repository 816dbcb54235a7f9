//! A client's connection of HTTP: a socket, or TLS over one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::gate::Gate;
use super::tls::TLS_BUFFER_BYTES;

/// A client's connection.
pub(crate) enum Stream {
    Plain(Gate),
    Tls(Box<TlsStream<Gate>>),
}

impl Stream {
    /// Begins to serve a client: with TLS, the handshake, which may take up to `timeout`.
    ///
    /// # Errors
    /// Of the connection; `TimedOut`; `InvalidData` if the client does not speak TLS, or has no
    /// certificate where it must have one.
    pub(crate) async fn accept(
        stream: Gate,
        tls: Option<TlsAcceptor>,
        timeout: Duration,
    ) -> io::Result<Stream> {
        let Some(tls) = tls else {
            return Ok(Stream::Plain(stream));
        };
        let accepted = tls.accept_with(stream, |tls| tls.set_buffer_limit(Some(TLS_BUFFER_BYTES)));
        // The state of a handshake is large, and not needed afterwards.
        let stream = tokio::time::timeout(timeout, Box::pin(accepted)).await??;
        Ok(Stream::Tls(Box::new(stream)))
    }

    /// Returns when the client has sent something, or is gone. Called after a read that found
    /// nothing: TLS then holds nothing either.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.readable().await,
            Stream::Tls(stream) => stream.get_ref().0.readable().await,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
