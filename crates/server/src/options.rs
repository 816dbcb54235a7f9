//! The options of a server: where it listens, who may call, and its bounds.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::access::caller::Access;
use crate::access::tokens::Tokens;
use crate::audit::Audit;
use crate::compat::Compat;
use crate::limits::Limit;
use crate::net::descriptors;
use crate::net::tls::Tls;
use crate::slow::SlowLog;
use crate::{Error, Result};

/// The options of a server. The defaults of the bounds suit a machine with a few cores.
#[derive(Clone)]
pub struct ServerOptions {
    /// Where to listen. Default `127.0.0.1:9200`. An address that is no loopback address needs a
    /// `token`.
    pub listen: SocketAddr,
    /// Where `/metrics` and `/_cluster/health` are served too, without a token, to everybody who
    /// can connect. Default none. They show the names of collections.
    pub metrics_listen: Option<SocketAddr>,
    /// What a caller must send as `Authorization: Bearer <token>`: visible ASCII without spaces.
    /// Default none: every program of this machine may call, but no page of another site in a web
    /// browser.
    pub token: Option<String>,
    /// Named tokens with roles, beside `token`, with which everything is allowed. Default none.
    pub tokens: Option<Tokens>,
    /// Where it is noted who was admitted, refused, and changed what. Default none.
    pub audit: Option<Audit>,
    /// Where requests are noted that take long. Default none.
    pub slow_log: Option<SlowLog>,
    /// What each client address may take. Default none: anything.
    pub address_limit: Option<Limit>,
    /// What each token may take, `token` included. Default none: anything.
    pub token_limit: Option<Limit>,
    /// Default none: HTTP and memcached without TLS. With it every port speaks TLS alone.
    pub tls: Option<Tls>,
    /// The largest bulk body in bytes, counted after decompression. Default 100 MiB, as in
    /// OpenSearch. Any other body is one document or a list of keys, and at most 17 MiB.
    pub body_bytes_max: u64,
    /// Connections of each port open at once. Default 1,024, and no more than the process has file
    /// descriptors for. If more come, others are closed for them.
    pub connections_max: usize,
    /// Reads of the database running at once; each holds a thread while it runs. Default 64. More
    /// wait.
    pub reads_max: usize,
    /// Searches, and counts with a query, running at once; they are not counted as reads. Each
    /// holds up to 16 MiB of the database's memory for work. Default one for each core and at least
    /// 2, fewer if there is no memory for them. More wait, up to `request_timeout`. As many more
    /// run for clients that run none, and beside them as many that are expected to be short.
    pub searches_max: usize,
    /// Writes of the database running at once; each holds a thread until it is durable. Default
    /// 256, because writes that wait together share a sync. Reads never wait for writes.
    pub writes_max: usize,
    /// The longest time for an ordinary request to arrive, and for the database to answer. Default
    /// 60 s. After it the caller gets 503; a write that has begun may still be applied.
    pub request_timeout: Duration,
    /// The longest wait for a client to send its next request, the rest of a header or the next
    /// piece of a bulk body, or to read more of an answer. Default 60 s. After it the connection is
    /// closed.
    pub idle_timeout: Duration,
    /// The directory below which callers may make backups. Default none: they may not.
    pub backup_dir: Option<PathBuf>,
    /// How long requests in flight may continue after shutdown has begun. Default 30 s.
    pub shutdown_timeout: Duration,
    /// The memcached protocol. Default none: it is not served.
    pub memcached: Option<MemcachedOptions>,
    /// The product that the server says it is. Default OpenSearch.
    pub compat: Compat,
}

/// The options of the memcached port. Its bounds and its token are those of [`ServerOptions`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemcachedOptions {
    /// Where to listen. Default `127.0.0.1:11211`. An address that is no loopback address needs a
    /// token.
    pub listen: SocketAddr,
    /// The collection of all keys; a colon in a key then has no meaning. Default none: a key is
    /// `collection:key`.
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
            metrics_listen: None,
            token: None,
            tokens: None,
            audit: None,
            slow_log: None,
            tls: None,
            address_limit: None,
            token_limit: None,
            body_bytes_max: 100 << 20,
            connections_max: 1024,
            reads_max: 64,
            searches_max: thread::available_parallelism().map_or(2, |cores| cores.get().max(2)),
            writes_max: 256,
            request_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            backup_dir: None,
            shutdown_timeout: Duration::from_secs(30),
            memcached: None,
            compat: Compat::default(),
        }
    }
}

/// Never shows the token.
impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("listen", &self.listen)
            .field("metrics_listen", &self.metrics_listen)
            .field("token", &self.token.as_ref().map(|_| "(hidden)"))
            .field("tokens", &self.tokens)
            .field("audit", &self.audit)
            .field("slow_log", &self.slow_log)
            .field("tls", &self.tls)
            .field("address_limit", &self.address_limit)
            .field("token_limit", &self.token_limit)
            .field("body_bytes_max", &self.body_bytes_max)
            .field("connections_max", &self.connections_max)
            .field("reads_max", &self.reads_max)
            .field("searches_max", &self.searches_max)
            .field("writes_max", &self.writes_max)
            .field("request_timeout", &self.request_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("backup_dir", &self.backup_dir)
            .field("shutdown_timeout", &self.shutdown_timeout)
            .field("memcached", &self.memcached)
            .field("compat", &self.compat)
            .finish()
    }
}

impl ServerOptions {
    /// Who may call.
    pub(crate) fn access(&self) -> Access {
        Access::new(self.token.clone(), self.tokens.clone())
    }

    /// Bounds the connections by the file descriptors that the process may have.
    pub(crate) fn fit_descriptors(&mut self) {
        let ports = 1 + usize::from(self.memcached.is_some());
        let most = descriptors::connections_max(self.connections_max, ports);
        if most < self.connections_max {
            tracing::warn!(
                wanted = self.connections_max,
                "a port takes {most} connections: the process may have no more file descriptors \
                 (ulimit -n)"
            );
        }
        self.connections_max = most;
    }

    /// Checks that a server with these options may listen on `address`.
    ///
    /// # Errors
    /// [`Error::TokenRequired`] if other machines could connect to it and no token is set;
    /// [`Error::InvalidOption`] names an option that is out of its bounds.
    pub(crate) fn check(&self, address: SocketAddr) -> Result<()> {
        match &self.token {
            None if self.tokens.is_none() && !is_loopback(address) => {
                return Err(Error::TokenRequired { address });
            }
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
        for (option, limit) in [
            ("address_limit", self.address_limit),
            ("token_limit", self.token_limit),
        ] {
            if !limit.unwrap_or_default().is_possible() {
                return Err(Error::InvalidOption {
                    option,
                    reason: "each of its bounds must be more than zero",
                });
            }
        }
        if let Some((option, _)) = positive.iter().find(|(_, holds)| !holds) {
            return Err(Error::InvalidOption {
                option,
                reason: "it must be more than zero",
            });
        }
        if let Some(memcached) = &self.memcached {
            let has_token = self.token.is_some() || self.tokens.is_some();
            let is_token_missing = !has_token && !is_loopback(memcached.listen);
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
        Ok(())
    }
}

/// Whether only this machine can connect to the address. An IPv4 address that is written as an IPv6
/// address is checked as IPv4.
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
