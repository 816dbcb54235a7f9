//! TLS of a client that calls a server of Quire: whom it trusts, and its own certificate.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use quire_env::FileStamp;
use quiredb::Env;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::net::pem::{self, TlsError};

/// The files of a client that calls a server over TLS, all in PEM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientTlsFiles {
    /// The certificates of those who sign servers' certificates. Needed for https.
    pub ca: Option<PathBuf>,
    /// The client's certificate, for a server that wants one; with its key.
    pub certificate: Option<PathBuf>,
    /// The private key of the client's certificate.
    pub key: Option<PathBuf>,
}

impl ClientTlsFiles {
    /// Whether none is given.
    pub(super) fn is_empty(&self) -> bool {
        *self == ClientTlsFiles::default()
    }
}

/// Why a server can't be called at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// It is no URL of a server.
    #[error("`{0}` is not the address of a server: give http://HOST:PORT or https://HOST:PORT")]
    Url(String),
    /// Files for TLS are given, and the URL is of http.
    #[error(
        "{0} is without TLS, so a certificate of an authority or a client has no use; give \
         https://HOST:PORT"
    )]
    NotTls(String),
    /// Nothing says which certificate of the server to trust.
    #[error(
        "{0} needs the certificates to trust: name the file of the authority that signed the \
         server's certificate (a PEM file; /etc/ssl/certs/ca-certificates.crt has the public ones)"
    )]
    NoAuthority(String),
    /// A certificate without its key, or a key without its certificate.
    #[error("a client certificate and its key are given together")]
    HalfCertificate,
    /// The host can't be in a certificate.
    #[error("`{0}` is no name of a host")]
    Host(String),
    /// A file can't be used.
    #[error(transparent)]
    File(#[from] TlsError),
}

/// TLS to one server. A clone is another handle to the same.
#[derive(Clone)]
pub(super) struct ClientTls {
    env: Arc<dyn Env>,
    files: Arc<ClientTlsFiles>,
    read: Arc<Mutex<Loaded>>,
    /// Must be in the server's certificate.
    host: ServerName<'static>,
}

/// The files as they were read last.
struct Loaded {
    config: Arc<ClientConfig>,
    /// Of each file when it was read last, whether or not it could be used; none if there was none.
    stamps: Vec<Option<FileStamp>>,
}

/// A connection to a server.
#[derive(Debug)]
pub(super) enum RemoteStream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl ClientTls {
    /// TLS to the server at `address`, which is `HOST:PORT`.
    pub(super) fn new(
        env: &Arc<dyn Env>,
        url: &str,
        address: &str,
        files: &ClientTlsFiles,
    ) -> Result<ClientTls, RemoteError> {
        if files.ca.is_none() {
            return Err(RemoteError::NoAuthority(url.to_owned()));
        }
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = ServerName::try_from(host.to_owned())
            .map_err(|_| RemoteError::Host(host.to_owned()))?;
        let loaded = Loaded {
            stamps: stamps(&**env, files),
            config: load(&**env, url, files)?,
        };
        Ok(ClientTls {
            env: Arc::clone(env),
            files: Arc::new(files.clone()),
            read: Arc::new(Mutex::new(loaded)),
            host,
        })
    }

    /// Speaks TLS over a connected socket. The handshake is a part of the first write. Files that
    /// have changed since the last connection are read again; if they can't be used, what was read
    /// before is.
    pub(super) fn begin(&self, stream: TcpStream) -> io::Result<RemoteStream> {
        let connection = ClientConnection::new(self.config(), self.host.clone());
        let connection = connection.map_err(io::Error::other)?;
        let stream = StreamOwned::new(connection, stream);
        Ok(RemoteStream::Tls(Box::new(stream)))
    }

    fn config(&self) -> Arc<ClientConfig> {
        let mut read = self.read.lock();
        let stamps = stamps(&*self.env, &self.files);
        if stamps != read.stamps {
            read.stamps = stamps;
            match load(&*self.env, "", &self.files) {
                Ok(config) => read.config = config,
                Err(error) => {
                    tracing::warn!("{error}; the certificates that were read before stay in use");
                }
            }
        }
        Arc::clone(&read.config)
    }
}

/// Reads the files. `url` is that of the server.
fn load(
    env: &dyn Env,
    url: &str,
    files: &ClientTlsFiles,
) -> Result<Arc<ClientConfig>, RemoteError> {
    let ca = files.ca.as_deref();
    let ca = ca.ok_or_else(|| RemoteError::NoAuthority(url.to_owned()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::new(ca, error.to_string()))?
        .with_root_certificates(pem::roots(env, ca)?);
    let config = match (&files.certificate, &files.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let pair = (pem::certificates(env, certificate)?, pem::key(env, key)?);
            builder
                .with_client_auth_cert(pair.0, pair.1)
                .map_err(|error| pem::unusable_pair(certificate, key, &error))?
        }
        _ => return Err(RemoteError::HalfCertificate),
    };
    Ok(Arc::new(config))
}

fn stamps(env: &dyn Env, files: &ClientTlsFiles) -> Vec<Option<FileStamp>> {
    let all = [&files.ca, &files.certificate, &files.key];
    let all = all.into_iter().flatten();
    all.map(|path| env.stamp(path).ok()).collect()
}

impl RemoteStream {
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            RemoteStream::Plain(stream) => stream,
            RemoteStream::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for RemoteStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            RemoteStream::Plain(stream) => stream.read(buf),
            RemoteStream::Tls(stream) => stream.read(buf),
        }
    }
}

impl Write for RemoteStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            RemoteStream::Plain(stream) => stream.write(bytes),
            RemoteStream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            RemoteStream::Plain(stream) => stream.flush(),
            RemoteStream::Tls(stream) => stream.flush(),
        }
    }
}
