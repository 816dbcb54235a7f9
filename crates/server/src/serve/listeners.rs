//! The sockets that a server accepts connections on.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::error::{Error, Result};
use crate::net;
use crate::options::ServerOptions;

/// The sockets that a server accepts connections on, as [`bind`] opens them.
#[derive(Debug)]
pub struct Listeners {
    /// For HTTP.
    pub http: TcpListener,
    /// For the memcached protocol, if it is served.
    pub memcached: Option<TcpListener>,
    /// For metrics and health without a token, if they have a port of their own.
    pub metrics: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    /// HTTP alone.
    fn from(http: TcpListener) -> Listeners {
        Listeners {
            http,
            memcached: None,
            metrics: None,
        }
    }
}

/// Opens the addresses that the options name.
///
/// # Errors
/// As [`serve()`](crate::serve()); [`Error::Io`] if the operating system refuses an address.
pub async fn bind(options: &ServerOptions) -> Result<Listeners> {
    options.check(options.listen)?;
    let http = listen(options.listen)?;
    let memcached = match &options.memcached {
        Some(memcached) => Some(listen(memcached.listen)?),
        None => None,
    };
    let metrics = match options.metrics_listen {
        Some(address) => Some(listen(address)?),
        None => None,
    };
    Ok(Listeners {
        http,
        memcached,
        metrics,
    })
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    net::listen::listen(address).map_err(|source| Error::Io {
        op: "listen on",
        address,
        source,
    })
}

/// The address of a listener.
///
/// # Errors
/// [`Error::TokenRequired`] or [`Error::InvalidOption`] if the options do not allow that address.
pub(super) fn checked_address(
    listener: &TcpListener,
    options: &ServerOptions,
) -> Result<SocketAddr> {
    let address = listener.local_addr().map_err(|source| Error::Io {
        op: "look up",
        address: options.listen,
        source,
    })?;
    options.check(address)?;
    Ok(address)
}
