//! What the server counts, in the text format of Prometheus.

pub(crate) mod database;
pub(crate) mod exposition;
pub(crate) mod port;
pub(crate) mod requests;
mod tiers;
mod volumes;
