//! TLS, as `sslmode` says.

use quire_ship::Fault;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Which connections are made.
#[derive(Debug, Clone)]
pub(crate) enum Tls {
    Disable,
    /// TLS if the server has it.
    Prefer,
    Require,
    /// TLS, with a certificate that one of these signed.
    VerifyCa(Arc<RootCertStore>),
    /// And the certificate has the server's name.
    VerifyFull(Arc<RootCertStore>),
}

/// Reads the certificates to trust.
///
/// # Errors
/// If there are none: a sentence.
pub(crate) fn roots(pem: &[u8]) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    match roots.is_empty() {
        true => Err("it has no certificates".to_owned()),
        false => Ok(Arc::new(roots)),
    }
}

impl Tls {
    /// Makes a connection that was agreed upon one with TLS.
    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Fault> {
        let wrong = |error: String| Fault::Stop(format!("TLS: {error}"));
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?;
        let config = match self {
            Tls::VerifyFull(roots) => config.with_root_certificates(Arc::clone(roots)),
            Tls::VerifyCa(roots) => {
                let built = WebPkiServerVerifier::builder_with_provider(
                    Arc::clone(roots),
                    Arc::clone(&provider),
                )
                .build();
                let chain = Some(built.map_err(|error| wrong(error.to_string()))?);
                let verifier = Verifier { chain, provider };
                let config = config.dangerous();
                config.with_custom_certificate_verifier(Arc::new(verifier))
            }
            Tls::Disable | Tls::Prefer | Tls::Require => {
                let verifier = Verifier {
                    chain: None,
                    provider,
                };
                let config = config.dangerous();
                config.with_custom_certificate_verifier(Arc::new(verifier))
            }
        };
        let config = config.with_no_client_auth();
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| wrong(error.to_string()))?;
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        connecting.await.map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => wrong(error.to_string()),
            _ => Fault::Away(error.to_string()),
        })
    }
}

/// What `sslmode` has without `verify-full`: any certificate, or one of a chain whatever its name.
#[derive(Debug)]
struct Verifier {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        match chain.verify_server_cert(certificate, between, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
