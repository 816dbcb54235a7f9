//! What the ports of both protocols share: accepting connections and counting them.

pub(crate) mod accept;
pub(crate) mod client_io;
pub(crate) mod connections;
