//! [`ClusterState`].

use std::net::SocketAddr;
use std::sync::Arc;

use super::transient::ClusterSettings;
use crate::compat::Compat;
use crate::engine::Engine;
use crate::http::buffers::Buffers;
use crate::metrics::requests::RequestMetrics;
use crate::net::connections::Connections;
use crate::search::contexts::Contexts;
use crate::tasks::registry::Tasks;

/// What requests about the server as a whole use of it.
pub(crate) struct ClusterState {
    pub(crate) engine: Engine,
    pub(crate) compat: Compat,
    /// The address that was given to listen on.
    pub(crate) listen: SocketAddr,
    pub(crate) settings: Arc<ClusterSettings>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) requests: Arc<RequestMetrics>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) buffers: Buffers,
    pub(crate) contexts: Contexts,
    /// Kinds of requests, and how many of each are done at once.
    pub(crate) pools: [(&'static str, usize); 3],
}
