//! What the server counts, in the text format of Prometheus.

pub(crate) mod requests;
