//! Certificates and private keys in PEM files, and errors that say which file is wrong and how.

use std::path::{Path, PathBuf};

use quiredb::Env;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A longer file is no list of certificates. Lists of all public roots have about 220 KB.
const BYTES_MAX: u64 = 4 << 20;

/// A file for TLS that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path} for TLS: {reason}", path = .path.display())]
pub struct TlsError {
    path: PathBuf,
    reason: String,
}

impl TlsError {
    pub(crate) fn new(path: &Path, reason: impl Into<String>) -> TlsError {
        TlsError {
            path: path.to_path_buf(),
            reason: reason.into(),
        }
    }
}

/// The certificates in a file, in their order, at least one.
///
/// # Errors
/// If it can't be read, is malformed, or has none.
pub(crate) fn certificates(
    env: &dyn Env,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(env, path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let all = all.map_err(|error| TlsError::new(path, format!("it is malformed: {error}")))?;
    match all.is_empty() {
        false => Ok(all),
        true => Err(TlsError::new(
            path,
            "it has no certificate; it must be a PEM file with -----BEGIN CERTIFICATE----- \
             (openssl x509 -inform der converts a DER file)",
        )),
    }
}

/// The private key in a file.
///
/// # Errors
/// If it can't be read, or has no key that can be used.
pub(crate) fn key(env: &dyn Env, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(env, path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|_| {
        let is_encrypted = String::from_utf8_lossy(&text).contains("ENCRYPTED");
        let reason = match is_encrypted {
            true => {
                "its key is encrypted; write it without a password (openssl pkey -in FILE -out \
                 NEW), readable by the server alone"
            }
            false => {
                "it has no private key; it must be a PEM file with -----BEGIN PRIVATE KEY-----"
            }
        };
        TlsError::new(path, reason)
    })
}

/// The certificates in a file as those that are trusted.
///
/// # Errors
/// As [`certificates`]; if one is no certificate.
pub(crate) fn roots(env: &dyn Env, path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(env, path)? {
        roots.add(certificate).map_err(|error| {
            TlsError::new(path, format!("one of its certificates is no use: {error}"))
        })?;
    }
    Ok(roots)
}

/// The error of a certificate and a key that do not go together.
pub(crate) fn unusable_pair(certificate: &Path, key: &Path, error: &rustls::Error) -> TlsError {
    let reason = format!(
        "with the key in {}: {error}; the first certificate of the file must be that of this key",
        key.display()
    );
    TlsError::new(certificate, reason)
}

fn read(env: &dyn Env, path: &Path) -> Result<Vec<u8>, TlsError> {
    env.read(path, BYTES_MAX).map_err(|error| {
        let mut reason = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            reason = format!("{reason}: {source}");
        }
        TlsError::new(path, reason)
    })
}
