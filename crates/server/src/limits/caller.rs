//! Who the present request comes from, wherever it is worked on.

use std::future::Future;
use std::sync::Arc;

use super::book::{Over, Searching, Share};
use super::client::Client;

tokio::task_local! {
    static OF_REQUEST: Caller;
}

/// Who a request comes from, and what it takes. A clone is of the same request.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) client: Client,
    share: Option<Arc<Share>>,
}

impl Caller {
    pub(crate) fn new(client: Client, share: Arc<Share>) -> Caller {
        Caller {
            client,
            share: Some(share),
        }
    }

    /// One whose searches are not counted.
    pub(crate) fn unlimited(client: Client) -> Caller {
        Caller {
            client,
            share: None,
        }
    }

    /// Does `work` for the request of this caller.
    pub(crate) async fn of<T>(self, work: impl Future<Output = T>) -> T {
        OF_REQUEST.scope(self, work).await
    }

    /// Who the present request comes from; work of the server itself comes from nowhere.
    pub(crate) fn of_request() -> Caller {
        let of_request = OF_REQUEST.try_with(Caller::clone);
        of_request.unwrap_or_else(|_| Caller::unlimited(Client::of("", None)))
    }

    /// Counts a search that begins.
    ///
    /// # Errors
    /// If its client is over its limit of searches.
    pub(crate) fn begin_search(&self) -> Result<Searching, Over> {
        match &self.share {
            Some(share) => share.begin_search(),
            None => Ok(Searching::default()),
        }
    }
}
