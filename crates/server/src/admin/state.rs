//! [`ClusterState`].

use std::net::SocketAddr;
use std::sync::Arc;

use super::transient::ClusterSettings;
use crate::compat::Compat;
use crate::engine::Engine;

/// What requests about the server as a whole use of it.
pub(crate) struct ClusterState {
    pub(crate) engine: Engine,
    pub(crate) compat: Compat,
    /// The address that was given to listen on.
    pub(crate) listen: SocketAddr,
    pub(crate) settings: Arc<ClusterSettings>,
}
