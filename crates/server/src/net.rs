//! What the ports of both protocols share: accepting connections, counting them, TLS, stopping.

pub(crate) mod accept;
pub(crate) mod again;
pub(crate) mod client_io;
pub(crate) mod connections;
pub(crate) mod descriptors;
pub(crate) mod gate;
pub(crate) mod idle;
pub(crate) mod lingering;
pub(crate) mod listen;
pub(crate) mod pem;
pub(crate) mod places;
pub(crate) mod stop;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod unread;
