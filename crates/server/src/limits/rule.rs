//! A limit, as the operator sets it.

use serde::{Deserialize, Serialize};

/// What one client address, or one token, may take. Default: anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limit {
    /// Requests a second. As many may come at once after a second of rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Bytes a second, of requests and answers together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Requests over HTTP that run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// Searches over HTTP that run, or wait for their turn, at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searches: Option<u64>,
    /// Connections that are open at once. Of addresses alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
}

impl Limit {
    /// Whether each bound that is set can be kept: none is zero.
    pub(crate) fn is_possible(&self) -> bool {
        let bounds = [
            self.requests,
            self.bytes,
            self.running,
            self.searches,
            self.connections,
        ];
        !bounds.contains(&Some(0))
    }
}
