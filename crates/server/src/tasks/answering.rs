//! An answer that is made while the client reads it: its request stays listed, and can be
//! cancelled, until it is sent.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::Response;
use http_body::{Body as _, Frame, SizeHint};

use super::registry::Running;

/// The body of such an answer.
struct Answering {
    body: Body,
    /// Listed until the body is dropped.
    running: Arc<Running>,
    cancelled: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Keeps the request listed until its answer is sent, if the answer is made meanwhile.
pub(crate) fn until_sent(response: Response, running: Arc<Running>) -> Response {
    // What has a length is made already.
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let task = Arc::clone(&running);
    response.map(|body| {
        Body::new(Answering {
            body,
            running,
            cancelled: Box::pin(async move { task.cancelled().await }),
        })
    })
}

impl http_body::Body for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        // It is too late for a status. The connection is cut, and the client sees that the answer
        // is not whole.
        if this.cancelled.as_mut().poll(cx).is_ready() {
            this.cancelled = Box::pin(std::future::ready(()));
            let cause = this.running.failure().cause().to_string();
            return Poll::Ready(Some(Err(axum::Error::new(std::io::Error::other(cause)))));
        }
        Pin::new(&mut this.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
