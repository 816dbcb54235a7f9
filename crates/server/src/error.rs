//! Why a server can't be started or run. Errors of requests are in `http/failure.rs`.

use std::net::SocketAddr;

/// Why a server can't be started or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Other machines can connect to the address, and no token is set.
    #[error(
        "refusing to listen on {address} without a token: other machines can connect to it; set a \
         token or listen on 127.0.0.1"
    )]
    TokenRequired {
        /// The address.
        address: SocketAddr,
    },
    /// An option is out of its bounds.
    #[error("server option {option}: {reason}")]
    InvalidOption {
        /// Its name.
        option: &'static str,
        /// What it must be.
        reason: &'static str,
    },
    /// The operating system refused.
    #[error("cannot {op} {address}: {source}")]
    Io {
        /// What was tried.
        op: &'static str,
        /// On which address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
}

/// What callers of this crate act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The options must be changed.
    Invalid,
    /// The operating system refused: the address is in use, or may not be used.
    Io,
}

impl Error {
    /// The coarse kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::TokenRequired { .. } | Error::InvalidOption { .. } => ErrorKind::Invalid,
            Error::Io { .. } => ErrorKind::Io,
        }
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
