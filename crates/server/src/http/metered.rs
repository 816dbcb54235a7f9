//! A body that counts what passes of it for the limits of its client, and tells when its client is
//! waited for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::{Body as _, Frame, SizeHint};

use crate::limits::Share;
use crate::net::idle::{InService, Stalled};

pub(crate) struct Metered {
    body: Body,
    share: Arc<Share>,
    in_service: Option<Arc<InService>>,
    /// The client is waited for.
    stalled: Option<Stalled>,
}

impl Metered {
    /// The same body, whose bytes are counted. For as long as it is kept its request counts as
    /// running. `in_service` is that of a request, which is told when the client is waited for.
    pub(crate) fn body(body: Body, share: Arc<Share>, in_service: Option<Arc<InService>>) -> Body {
        let is_watched = share.is_limited() || in_service.is_some();
        match !body.is_end_stream() && is_watched {
            true => Body::new(Metered {
                body,
                share,
                in_service,
                stalled: None,
            }),
            false => body,
        }
    }
}

impl http_body::Body for Metered {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        match (&this.in_service, frame.is_pending()) {
            (Some(in_service), true) if this.stalled.is_none() => {
                this.stalled = Some(in_service.stall());
            }
            (_, true) => {}
            (_, false) => this.stalled = None,
        }
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(bytes) = frame.data_ref()
        {
            this.share.passed(bytes.len() as u64);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
