//! The server as a whole: what it is, how it is, what it holds.

pub(crate) mod cat;
pub(crate) mod cat_nodes;
pub(crate) mod cat_shards;
pub(crate) mod cluster;
pub(crate) mod cluster_settings;
pub(crate) mod cluster_state;
pub(crate) mod cluster_stats;
pub(crate) mod health;
mod machine;
pub(crate) mod node_stats;
pub(crate) mod nodes;
mod placement;
pub(crate) mod routing;
pub(crate) mod search_shards;
pub(crate) mod shards;
pub(crate) mod state;
pub(crate) mod stats;
pub(crate) mod tokens;
pub(crate) mod transient;
