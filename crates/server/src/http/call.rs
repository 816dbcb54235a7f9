//! One request as a handler sees it.

use std::sync::Arc;

use crate::http::answer::Look;
use crate::http::body::{BodyReader, Whole};
use crate::http::failure::Outcome;
use crate::http::params::Params;
use crate::state::Server;

/// One request as a handler sees it.
pub(crate) struct Call {
    pub(crate) server: Arc<Server>,
    /// What stands in the places of the route's pattern, decoded.
    pub(crate) places: Vec<(String, String)>,
    pub(crate) params: Params,
    pub(crate) body: BodyReader,
    pub(crate) look: Look,
}

impl Call {
    /// What stands in a place of the route's pattern, if it has that place.
    pub(crate) fn place(&self, name: &str) -> Option<&str> {
        self.places
            .iter()
            .find(|(place, _)| place == name)
            .map(|(_, text)| text.as_str())
    }

    /// The collection named in the path; routes without one say so themselves.
    pub(crate) fn collection(&self) -> String {
        self.place("collection").unwrap_or_default().to_owned()
    }

    /// The document named in the path.
    pub(crate) fn id(&self) -> String {
        self.place("id").unwrap_or_default().to_owned()
    }

    /// The whole body.
    pub(crate) async fn take_body(self) -> Outcome<Whole> {
        let timeout = self.server.options.request_timeout;
        self.body.whole(&self.server.buffers, timeout).await
    }

    /// The whole body, of a request that is parsed into a tree.
    pub(crate) async fn take_small_body(self) -> Outcome<Whole> {
        let timeout = self.server.options.request_timeout;
        self.body.small(&self.server.buffers, timeout).await
    }
}
