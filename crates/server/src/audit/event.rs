//! What is in a line of the audit log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

/// One line. What is not known is left out.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Event<'a> {
    /// `authentication`, `refused` or `admin`.
    pub(crate) event: &'static str,
    /// `http` or `memcached`.
    pub(crate) protocol: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<SocketAddr>,
    /// The name of the token; empty for that of `--token-file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<&'a str>,
    /// What an item of the request names, or what its first write created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collection: Option<&'a str>,
    /// The status of HTTP, or what is like it: 200 admitted, 401 not.
    pub(crate) status: u16,
}

impl Event<'_> {
    /// A client that has no certificate, where each needs one, or failed otherwise to begin TLS.
    pub(crate) fn no_handshake(protocol: &'static str, address: Option<SocketAddr>) -> Self {
        Event {
            event: "authentication",
            protocol,
            address,
            status: 401,
            ..Event::default()
        }
    }
}

/// The client of a connection. In the extensions of each of its requests.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: Option<SocketAddr>,
    /// The token that was admitted last.
    admitted: Arc<Mutex<Option<String>>>,
    /// Whether a request of it was over a limit.
    was_limited: Arc<AtomicBool>,
}

impl Peer {
    pub(crate) fn new(address: Option<SocketAddr>) -> Peer {
        Peer {
            address,
            admitted: Arc::default(),
            was_limited: Arc::default(),
        }
    }

    /// Whether a request of this connection is over a limit for the first time.
    pub(crate) fn is_newly_limited(&self) -> bool {
        !self.was_limited.swap(true, Ordering::Relaxed)
    }

    /// Whether this token is admitted for the first time on this connection.
    pub(crate) fn is_new(&self, token: &str) -> bool {
        let mut admitted = self.admitted.lock();
        let is_new = admitted.as_deref() != Some(token);
        if is_new {
            *admitted = Some(token.to_owned());
        }
        is_new
    }
}
