//! TLS of the server's ports: the certificate, its key, and who signs the certificates of clients.
//!
//! # Invariants
//! 1. A connection keeps the files that it began with. Those read again hold for new connections.
//! 2. Files that can't be used change nothing: what was read before stays.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use quire_env::FileStamp;
use quiredb::Env;
use rustls::ServerConfig;
use rustls::server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier};
use tokio_rustls::TlsAcceptor;

use super::pem::{self, TlsError};

/// What clients of HTTP may choose: the newest first.
const HTTP_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Encrypted bytes that a connection holds until its client takes them: less than a record of the
/// longest kind, of which a part is then sent at a time.
pub(crate) const TLS_BUFFER_BYTES: usize = 8 << 10;

/// The files of a server that speaks TLS, all in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, then those of its issuers up to a root that clients know.
    pub certificate: PathBuf,
    /// The private key of the certificate, not encrypted.
    pub key: PathBuf,
    /// The certificates of those who sign certificates of clients. Then every client must have one
    /// (mutual TLS). None: clients need no certificate.
    pub client_ca: Option<PathBuf>,
}

/// TLS of a server. A clone is another handle to the same.
#[derive(Clone)]
pub struct Tls {
    env: Arc<dyn Env>,
    files: Arc<TlsFiles>,
    configs: Arc<RwLock<Configs>>,
    seen: Arc<Mutex<Seen>>,
}

/// What tells whether the files have changed: of each file, none if there is none.
type Stamps = Vec<Option<FileStamp>>;

/// The files as they were.
struct Seen {
    /// When they were read last, whether or not they could be used.
    read: Stamps,
    /// When they were looked at last.
    last: Stamps,
}

/// What is made of the files, for each protocol.
struct Configs {
    http: Arc<ServerConfig>,
    memcached: Arc<ServerConfig>,
}

/// Never shows the key.
impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the file that can't be used, and says what to do.
    pub fn open(env: Arc<dyn Env>, files: TlsFiles) -> Result<Tls, TlsError> {
        let stamps = stamps(&*env, &files);
        let configs = read(&*env, &files)?;
        let seen = Seen {
            read: stamps.clone(),
            last: stamps,
        };
        Ok(Tls {
            seen: Arc::new(Mutex::new(seen)),
            env,
            files: Arc::new(files),
            configs: Arc::new(RwLock::new(configs)),
        })
    }

    /// Reads the files again. Connections that begin from now on use what is in them.
    ///
    /// # Errors
    /// As [`Tls::open`]; nothing changes then.
    pub fn reload(&self) -> Result<(), TlsError> {
        let configs = read(&*self.env, &self.files)?;
        *self.configs.write() = configs;
        Ok(())
    }

    /// Reads the files again if they have changed. It is called from time to time: files that have
    /// changed since the last call are still being written, and are left for the next one.
    ///
    /// Returns whether they were read.
    ///
    /// # Errors
    /// As [`Tls::open`]; nothing changes then, and these files are not read again.
    pub(crate) fn look(&self) -> Result<bool, TlsError> {
        let now = stamps(&*self.env, &self.files);
        let mut seen = self.seen.lock();
        let is_settled = seen.last == now;
        seen.last.clone_from(&now);
        if !is_settled || seen.read == now {
            return Ok(false);
        }
        seen.read = now;
        self.reload().map(|()| true)
    }

    /// Whether clients need a certificate.
    pub(crate) fn is_mutual(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// Accepts connections of HTTP with the files read last.
    pub(crate) fn http_acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.configs.read().http))
    }

    /// What a connection of memcached uses.
    pub(crate) fn memcached(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.configs.read().memcached)
    }
}

fn stamps(env: &dyn Env, files: &TlsFiles) -> Stamps {
    let all = [
        Some(&files.certificate),
        Some(&files.key),
        files.client_ca.as_ref(),
    ];
    let all = all.into_iter().flatten();
    all.map(|path| env.stamp(path).ok()).collect()
}

fn read(env: &dyn Env, files: &TlsFiles) -> Result<Configs, TlsError> {
    let certificates = pem::certificates(env, &files.certificate)?;
    let key = pem::key(env, &files.key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let clients: Arc<dyn ClientCertVerifier> = match &files.client_ca {
        None => Arc::new(NoClientAuth),
        Some(path) => {
            let roots = Arc::new(pem::roots(env, path)?);
            WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
                .build()
                .map_err(|error| TlsError::new(path, error.to_string()))?
        }
    };
    let memcached = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::new(&files.certificate, error.to_string()))?
        .with_client_cert_verifier(clients)
        .with_single_cert(certificates, key)
        .map_err(|error| pem::unusable_pair(&files.certificate, &files.key, &error))?;
    let mut http = memcached.clone();
    http.alpn_protocols = HTTP_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Configs {
        http: Arc::new(http),
        memcached: Arc::new(memcached),
    })
}
