//! How a server is run: where it listens, who may call, and the bounds it keeps.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::{Error, Result};

/// The fewest bytes of request buffers a server can work with: one document of the largest size and
/// its envelope, twice.
const BUFFER_BYTES_LEAST: usize = 48 << 20;

/// How a server is run. Each bound has a default that suits a machine of a few cores.
#[derive(Clone)]
pub struct ServerOptions {
    /// Where to listen. Default `127.0.0.1:9200`. Any address that is not a loopback one needs a
    /// `token`.
    pub listen: SocketAddr,
    /// What a caller must send as `Authorization: Bearer <token>`: visible ASCII without spaces.
    /// Default none, which lets in every program of this machine, but no page of a web browser that
    /// it did not serve itself.
    pub token: Option<String>,
    /// The largest request body in bytes, counted after decompression. Default 100 MiB, as
    /// OpenSearch. Only a bulk body can come near it: any other is one document or a list of keys
    /// and ends at 17 MiB.
    pub body_bytes_max: u64,
    /// Bytes of requests and of answers to bulk requests held in memory, all connections together.
    /// Default 64 MiB, at least 48 MiB. A request that finds no room waits up to `request_timeout`;
    /// one that outgrows it is refused with 429.
    pub buffer_bytes_max: usize,
    /// Connections open at once. Default 1,024. More wait to be accepted.
    pub connections_max: usize,
    /// Reads of the database running at once; each holds a thread while it runs. Default 64. More
    /// wait.
    pub reads_max: usize,
    /// Searches, and counts with a query, running at once, beside those reads: each looks at every
    /// document, and holds up to 16 MiB of `buffer_bytes_max`. Default 2. More wait, up to
    /// `request_timeout`.
    pub searches_max: usize,
    /// Writes of the database running at once; each holds a thread until it is durable. Default
    /// 256: writers that wait together share a sync. Reads never wait behind them.
    pub writes_max: usize,
    /// The longest an ordinary request takes to arrive, and the longest the database takes to
    /// answer. Default 60 s. After it the caller gets 503; a write that has begun may still be
    /// applied.
    pub request_timeout: Duration,
    /// The longest wait for a client: for its next request or the rest of a header, for the next
    /// piece of a bulk body, and for it to read more of an answer. Default 60 s. After it the
    /// connection is closed.
    pub idle_timeout: Duration,
    /// The directory below which callers may have backups made. Default none: they may not.
    pub backup_dir: Option<PathBuf>,
    /// How long requests in flight may go on after shutdown began. Default 30 s.
    pub shutdown_timeout: Duration,
    /// The memcached protocol. Default none: it is not served.
    pub memcached: Option<MemcachedOptions>,
}

/// How the memcached protocol is served. Bounds, and the token, are those of [`ServerOptions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemcachedOptions {
    /// Where to listen. Default `127.0.0.1:11211`. Any address that is not a loopback one needs a
    /// token.
    pub listen: SocketAddr,
    /// The collection that every key is one of, whole, whatever colons it has. Default none: then a
    /// key is `collection:key`.
    pub collection: Option<String>,
    /// The field whose text is the value. Default none: the value is the document, as JSON.
    pub field: Option<String>,
}

impl Default for MemcachedOptions {
    fn default() -> Self {
        MemcachedOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 11211)),
            collection: None,
            field: None,
        }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9200)),
            token: None,
            body_bytes_max: 100 << 20,
            buffer_bytes_max: 64 << 20,
            connections_max: 1024,
            reads_max: 64,
            searches_max: 2,
            writes_max: 256,
            request_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            backup_dir: None,
            shutdown_timeout: Duration::from_secs(30),
            memcached: None,
        }
    }
}

/// Never shows the token.
impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("listen", &self.listen)
            .field("token", &self.token.as_ref().map(|_| "(hidden)"))
            .field("body_bytes_max", &self.body_bytes_max)
            .field("buffer_bytes_max", &self.buffer_bytes_max)
            .field("connections_max", &self.connections_max)
            .field("reads_max", &self.reads_max)
            .field("searches_max", &self.searches_max)
            .field("writes_max", &self.writes_max)
            .field("request_timeout", &self.request_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("backup_dir", &self.backup_dir)
            .field("shutdown_timeout", &self.shutdown_timeout)
            .field("memcached", &self.memcached)
            .finish()
    }
}

impl ServerOptions {
    /// Whether these options can be served on `address`.
    ///
    /// # Errors
    /// [`Error::TokenRequired`] if others could reach the address and no token is set;
    /// [`Error::InvalidOption`] names an option that is out of its bounds.
    pub(crate) fn check(&self, address: SocketAddr) -> Result<()> {
        match &self.token {
            None if !is_loopback(address) => return Err(Error::TokenRequired { address }),
            Some(token)
                if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) =>
            {
                return Err(Error::InvalidOption {
                    option: "token",
                    reason: "it must be visible ASCII characters without spaces, at least one",
                });
            }
            _ => {}
        }
        let positive = [
            ("body_bytes_max", self.body_bytes_max > 0),
            ("connections_max", self.connections_max > 0),
            ("reads_max", self.reads_max > 0),
            ("searches_max", self.searches_max > 0),
            ("writes_max", self.writes_max > 0),
            ("request_timeout", !self.request_timeout.is_zero()),
            ("idle_timeout", !self.idle_timeout.is_zero()),
        ];
        if let Some((option, _)) = positive.iter().find(|(_, holds)| !holds) {
            return Err(Error::InvalidOption {
                option,
                reason: "it must be more than zero",
            });
        }
        if let Some(memcached) = &self.memcached {
            let is_token_missing = self.token.is_none() && !is_loopback(memcached.listen);
            if is_token_missing {
                return Err(Error::TokenRequired {
                    address: memcached.listen,
                });
            }
            if memcached.field.as_deref() == Some("") {
                return Err(Error::InvalidOption {
                    option: "memcached.field",
                    reason: "it must be the name of a field",
                });
            }
        }
        if self.buffer_bytes_max < BUFFER_BYTES_LEAST {
            return Err(Error::InvalidOption {
                option: "buffer_bytes_max",
                reason: "it must be at least 48 MiB",
            });
        }
        Ok(())
    }
}

/// Whether only this machine can reach the address; an IPv4 address written as an IPv6 one counts
/// as what it is.
pub(crate) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_served_without_a_token() {
        let open = ServerOptions::default();
        let guarded = ServerOptions {
            token: Some("s3cret".into()),
            ..ServerOptions::default()
        };
        let cases = [
            ("127.0.0.1:0", true),
            ("127.8.9.1:80", true),
            ("[::1]:9200", true),
            ("[::ffff:127.0.0.1]:9200", true),
            ("0.0.0.0:9200", false),
            ("[::]:9200", false),
            ("192.168.1.4:9200", false),
        ];
        for (address, loopback) in cases {
            let address: SocketAddr = address.parse().unwrap();
            assert_eq!(open.check(address).is_ok(), loopback, "{address}");
            assert!(guarded.check(address).is_ok(), "{address}");
        }
        let error = open.check("0.0.0.0:9200".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("token"), "{error}");
    }

    #[test]
    fn options_out_of_bounds_are_refused_by_name() {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        for token in ["", "two words", "line\n", "schlüssel"] {
            let options = ServerOptions {
                token: Some(token.into()),
                ..ServerOptions::default()
            };
            assert!(
                options
                    .check(address)
                    .unwrap_err()
                    .to_string()
                    .contains("token")
            );
        }
        let options = ServerOptions {
            connections_max: 0,
            ..ServerOptions::default()
        };
        assert!(
            options
                .check(address)
                .unwrap_err()
                .to_string()
                .contains("connections_max")
        );
    }

    #[test]
    fn debug_output_hides_the_token() {
        let options = ServerOptions {
            token: Some("s3cret".into()),
            ..ServerOptions::default()
        };
        assert!(!format!("{options:?}").contains("s3cret"));
    }
}
