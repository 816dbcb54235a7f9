//! A limit, as the operator sets it.

/// What one client address, or one token, may take. Default: anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// Requests a second. As many may come at once after a second of rest.
    pub requests: Option<u64>,
    /// Bytes a second, of requests and answers together.
    pub bytes: Option<u64>,
    /// Requests over HTTP that run at once.
    pub running: Option<u64>,
    /// Connections that are open at once. Of addresses alone.
    pub connections: Option<u64>,
}
