//! One request as a handler sees it.

use std::sync::Arc;
use std::time::Duration;

use super::answer::AnswerFormat;
use super::body::{BodyReader, Whole};
use super::buffers::Buffers;
use super::failure::Outcome;
use super::params::Params;
use crate::audit::AuditedGrant;
use crate::tasks::registry::Running;
use crate::tasks::task::Sent;

/// One request as a handler sees it. `S` is what the handler's part of the API uses of the server.
pub(crate) struct Call<S> {
    pub(crate) state: S,
    /// What the caller may do.
    pub(crate) grant: Arc<AuditedGrant>,
    /// Names and decoded texts of the path's parameters, such as `collection` and `id`.
    pub(crate) path_params: Vec<(String, String)>,
    pub(crate) params: Params,
    pub(crate) body: BodyReader,
    pub(crate) format: AnswerFormat,
    /// Where the memory of a whole body is reserved.
    pub(crate) buffers: Buffers,
    /// The longest time that a whole body may take to arrive.
    pub(crate) body_timeout: Duration,
    /// The request on the list of what is running. Held by work that goes on without its caller.
    pub(crate) running: Arc<Running>,
}

impl Call<()> {
    /// The same request, with what its handler uses of the server.
    pub(crate) fn with_state<S>(self, state: S) -> Call<S> {
        let Call {
            state: (),
            grant,
            path_params,
            params,
            body,
            format,
            buffers,
            body_timeout,
            running,
        } = self;
        Call {
            state,
            grant,
            path_params,
            params,
            body,
            format,
            buffers,
            body_timeout,
            running,
        }
    }
}

impl<S> Call<S> {
    /// The path of the request.
    pub(crate) fn path(&self) -> &str {
        match &self.running.request.sent {
            Sent::Http(_, uri) => uri.path(),
            Sent::Memcached { .. } => "",
        }
    }

    /// The text of a parameter of the path, if the route has one of this name.
    pub(crate) fn path_param(&self, name: &str) -> Option<&str> {
        self.path_params
            .iter()
            .find(|(param, _)| param == name)
            .map(|(_, text)| text.as_str())
    }

    /// The collection named in the path; empty if the route has none.
    pub(crate) fn collection(&self) -> String {
        self.path_param("collection").unwrap_or_default().to_owned()
    }

    /// The document named in the path; empty if the route has none.
    pub(crate) fn id(&self) -> String {
        self.path_param("id").unwrap_or_default().to_owned()
    }

    /// The whole body.
    ///
    /// # Errors
    /// As [`BodyReader::whole`].
    pub(crate) async fn take_body(self) -> Outcome<Whole> {
        self.body.whole(&self.buffers, self.body_timeout).await
    }

    /// The whole body of a request that is parsed into a tree of values.
    ///
    /// # Errors
    /// As [`BodyReader::small`].
    pub(crate) async fn take_small_body(self) -> Outcome<Whole> {
        let running = self.running;
        let body = self.body.small(&self.buffers, self.body_timeout).await?;
        running.set_body(&body.bytes);
        Ok(body)
    }
}
