//! One connection of HTTP, from its first byte to its end.
//!
//! # Invariants
//! 1. A connection of HTTP/1 that waits for its next request holds its socket and nothing else: no
//!    buffers, no state of the protocol. That is made anew when the client sends something. What
//!    serves requests is boxed by functions that return the box: an `async` block keeps room for
//!    each future that it makes itself.
//! 2. A connection of HTTP/2 keeps the buffers and the state of the protocol while it waits, about
//!    twice of what a place stands for. So it holds two places.
//! 3. What a client has sent or is to be sent is never lost by that: it is done between two
//!    requests, after the last answer has been sent, and what was read is read again.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, Response, StatusCode};
use futures_util::future::BoxFuture;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::audit::Peer;
use crate::dispatch::Routes;
use crate::net::again::again;
use crate::net::client_io::{ClientIo, Outflow};
use crate::net::idle::{InService, Presence};
use crate::net::lingering::Lingering;
use crate::net::places::Places;

/// The read buffer of a connection. A header, the line with the URL included, must fit in it: a
/// longer header gets 431, a longer URL 414.
const BUFFER_BYTES: usize = 64 << 10;

/// Header fields of a request.
const HEADERS_MAX: usize = 100;

/// What a field of a header has beside its name and its value, at the most.
const FIELD_BYTES: usize = 16;

/// HTTP/2: the bytes of a header, each field with 32 more. Few bytes may stand for many fields.
const HTTP2_HEADER_BYTES: u32 = 32 << 10;

/// HTTP/2: requests at once on one connection.
const STREAMS_MAX: u32 = 64;

/// HTTP/2: bytes of bodies that a client may send before the server takes them.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// A client that sends nothing for this long after an answer waits for nothing: what is held for
/// its next request is given up.
const QUIET_AFTER: Duration = Duration::from_millis(100);

/// An answer up to this long is taken by the connection at once.
const PIECE_BYTES: u64 = 64 << 10;

/// The longest time that the end of a connection may take whose client waits for nothing.
const END_TIME: Duration = Duration::from_secs(1);

/// How connections are served.
pub(super) struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    idle_timeout: Duration,
}

impl Protocols {
    pub(super) fn new(idle_timeout: Duration) -> Protocols {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(idle_timeout)
            .max_buf_size(BUFFER_BYTES)
            .max_headers(HEADERS_MAX);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(idle_timeout)
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(BUFFER_BYTES)
            .max_header_list_size(HTTP2_HEADER_BYTES);
        Protocols {
            http1,
            http2,
            idle_timeout,
        }
    }

    /// How long a client may send nothing.
    pub(super) fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }
}

/// Answers the requests of a connection.
#[derive(Clone)]
pub(super) struct Requests {
    pub(super) routes: Routes,
    pub(super) lingering: Lingering,
    pub(super) peer: Peer,
    pub(super) presence: Arc<Presence>,
}

impl hyper::service::Service<Request<Incoming>> for Requests {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        // HTTP/2 has no bound of its own on their number.
        if request.headers().len() > HEADERS_MAX {
            let mut refused = Response::new(Body::empty());
            *refused.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            return Box::pin(async { Ok(refused) });
        }
        let in_service = Arc::new(self.presence.serve(head_bytes(&request)));
        let extensions = request.extensions_mut();
        extensions.insert(self.lingering.clone());
        extensions.insert(self.peer.clone());
        extensions.insert(Arc::clone(&in_service));
        let presence = Arc::clone(&self.presence);
        let request = request.map(|body| Taken {
            body,
            presence: Arc::clone(&presence),
            bytes: 0,
        });
        let answered = self.routes.clone().answer(request.map(Body::new));
        Box::pin(async move {
            let turn = presence.turn().await;
            let answer = answered.await?;
            drop(turn);
            Ok(answer.map(|body| until_taken(body, in_service)))
        })
    }
}

/// About how many bytes the head of a request has.
fn head_bytes(request: &Request<Incoming>) -> usize {
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + FIELD_BYTES);
    let path = request.uri().path_and_query();
    fields.sum::<usize>() + path.map_or(0, |path| path.as_str().len()) + FIELD_BYTES
}

/// The body of a request. A piece of it counts as taken when the next one is wanted.
struct Taken {
    body: Incoming,
    presence: Arc<Presence>,
    /// Of the last piece.
    bytes: usize,
}

impl Taken {
    fn take(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes > 0 {
            self.presence.taken(bytes);
        }
    }
}

impl http_body::Body for Taken {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        this.take();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            this.bytes = frame.data_ref().map_or(0, Bytes::len);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.take();
    }
}

/// The same body. Its request is under way until the connection has taken all of it.
fn until_taken(body: Body, in_service: Arc<InService>) -> Body {
    let bytes = body.size_hint().exact();
    match bytes.is_some_and(|bytes| bytes <= PIECE_BYTES) {
        true => body,
        false => Body::new(UntilTaken {
            body,
            _in_service: in_service,
        }),
    }
}

struct UntilTaken {
    body: Body,
    _in_service: Arc<InService>,
}

impl http_body::Body for UntilTaken {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that is served.
pub(super) struct HttpConnection {
    pub(super) client: ClientIo,
    pub(super) requests: Requests,
    pub(super) protocols: Arc<Protocols>,
    pub(super) places: Places,
    /// True once the port is closed: the connection ends with its present request.
    pub(super) is_closing: watch::Receiver<bool>,
}

impl HttpConnection {
    /// Serves it to its end.
    pub(super) async fn serve(mut self: Box<Self>) {
        match self.begins().await {
            Some(true) => return ended(self.http2().await),
            Some(false) => {}
            None => return self.end().await,
        }
        loop {
            match self.http1().await {
                Ok(Some(connection)) => self = connection,
                other => return ended(other.map(|_| ())),
            }
            if !self.waits().await {
                return self.end().await;
            }
        }
    }

    /// Whether the client begins with HTTP/2; none if the connection is to end.
    async fn begins(&mut self) -> Option<bool> {
        let presence = Arc::clone(&self.requests.presence);
        tokio::select! {
            biased;
            begun = timeout(self.protocols.idle_timeout, self.client.is_http2()) =>
                begun.ok()?.ok(),
            () = presence.evicted() => None,
            () = closing(&mut self.is_closing) => None,
        }
    }

    /// Waits for the next request. False if the connection is to end.
    async fn waits(&mut self) -> bool {
        let presence = Arc::clone(&self.requests.presence);
        tokio::select! {
            biased;
            sent = timeout(self.protocols.idle_timeout, self.client.readable()) =>
                matches!(sent, Ok(Ok(()))),
            () = presence.evicted() => false,
            () = closing(&mut self.is_closing) => false,
        }
    }

    /// Ends it between two requests.
    async fn end(mut self: Box<Self>) {
        // An error says that it has ended already.
        let _ = timeout(END_TIME, self.client.shutdown()).await;
    }

    /// Serves requests of HTTP/1 until the client is quiet; none if the connection has ended.
    fn http1(self: Box<Self>) -> BoxFuture<'static, hyper::Result<Option<Box<HttpConnection>>>> {
        Box::pin(self.requests_of_http1())
    }

    async fn requests_of_http1(self: Box<Self>) -> hyper::Result<Option<Box<HttpConnection>>> {
        let HttpConnection {
            client,
            requests,
            protocols,
            places,
            mut is_closing,
        } = *self;
        let presence = Arc::clone(&requests.presence);
        let outflow = Arc::clone(client.outflow());
        let served = presence.resting();
        let io = TokioIo::new(client);
        let mut connection = protocols.http1.serve_connection(io, requests);
        tokio::select! {
            biased;
            ended = again(&mut connection) => return ended.map(|()| None),
            () = quiet(&presence, &outflow, served) => {}
            () = presence.evicted() => {
                Pin::new(&mut connection).graceful_shutdown();
                return ends(&mut connection, &presence).await.map(|()| None);
            }
            () = closing(&mut is_closing) => {
                Pin::new(&mut connection).graceful_shutdown();
                return closes(&mut connection, &presence).await.map(|()| None);
            }
        }
        let parts = connection.into_parts();
        let mut client = parts.io.into_inner();
        client.read_again(parts.read_buf);
        Ok(Some(Box::new(HttpConnection {
            client,
            requests: parts.service,
            protocols,
            places,
            is_closing,
        })))
    }

    /// Serves requests of HTTP/2 to the end of the connection.
    fn http2(self: Box<Self>) -> BoxFuture<'static, hyper::Result<()>> {
        Box::pin(self.requests_of_http2())
    }

    async fn requests_of_http2(mut self: Box<Self>) -> hyper::Result<()> {
        let presence = Arc::clone(&self.requests.presence);
        let second = tokio::select! {
            biased;
            place = self.places.take_second(&presence) => Some(place),
            () = presence.evicted() => None,
            () = closing(&mut self.is_closing) => None,
        };
        let Some(_held_while_served) = second else {
            self.end().await;
            return Ok(());
        };
        let io = TokioIo::new(self.client);
        let mut connection = self.protocols.http2.serve_connection(io, self.requests);
        tokio::select! {
            biased;
            ended = &mut connection => ended,
            () = presence.evicted() => {
                Pin::new(&mut connection).graceful_shutdown();
                ends(&mut connection, &presence).await
            }
            () = closing(&mut self.is_closing) => {
                Pin::new(&mut connection).graceful_shutdown();
                closes(&mut connection, &presence).await
            }
        }
    }
}

/// Returns once a connection has been between two requests for a while, and all was sent. `served`
/// requests were so before: it serves one at least, so that its times for a header keep on.
async fn quiet(presence: &Presence, outflow: &Outflow, served: Option<u64>) {
    let mut before = None;
    loop {
        sleep(QUIET_AFTER).await;
        let resting = presence.resting();
        let has_served = resting.is_some() && resting != served;
        if has_served && resting == before && outflow.is_at_rest() {
            return;
        }
        before = resting;
    }
}

/// Waits for the end of a connection that is to give up its place, for as long as it may take.
async fn ends(
    connection: impl Future<Output = hyper::Result<()>> + Unpin,
    presence: &Presence,
) -> hyper::Result<()> {
    match presence.time_to_end() {
        Some(time) => timeout(time, connection).await.unwrap_or(Ok(())),
        // A client of HTTP/2 is to answer that it has read that this is the end.
        None => closes(connection, presence).await,
    }
}

/// Waits for the end of a connection that begins no more requests: for that of a request under
/// way, or a moment for its client.
async fn closes(
    mut connection: impl Future<Output = hyper::Result<()>> + Unpin,
    presence: &Presence,
) -> hyper::Result<()> {
    loop {
        match timeout(END_TIME, &mut connection).await {
            Ok(ended) => return ended,
            Err(_) if presence.resting().is_some() => return Ok(()),
            Err(_) => {}
        }
    }
}

fn ended(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Returns when the port is closed.
pub(super) async fn closing(is_closing: &mut watch::Receiver<bool>) {
    // An error says that the port is gone: it is closed too.
    drop(is_closing.wait_for(|is_closing| *is_closing).await);
}
