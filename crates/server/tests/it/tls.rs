//! TLS on both ports: what clients must trust and have, and certificates that change.
#![allow(
    clippy::disallowed_methods,
    reason = "files of certificates belong to the test, not to the engine"
)]

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use quire_server::{
    Audit, ClientTlsFiles, LogFileOptions, MemcachedOptions, Remote, ServerOptions, Tls, TlsFiles,
};
use quiredb::{Env, OsEnv};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::site::{Listening, read_all};

const LONG: Duration = Duration::from_secs(120);

/// An authority, and the files of those whose certificates it signs.
pub(crate) struct Authority {
    dir: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        Authority { dir, issuer }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// A certificate for this machine.
    pub(crate) fn sign(&self, name: &str) -> Pair {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let pair = Pair {
            certificate: self.dir.path().join(format!("{name}.pem")),
            key: self.dir.path().join(format!("{name}.key")),
        };
        std::fs::write(&pair.certificate, certificate.pem()).unwrap();
        std::fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }
}

fn env() -> Arc<dyn Env> {
    OsEnv::new().unwrap()
}

fn tls(pair: &Pair, client_ca: Option<PathBuf>) -> Tls {
    let files = TlsFiles {
        certificate: pair.certificate.clone(),
        key: pair.key.clone(),
        client_ca,
    };
    Tls::open(env(), files).unwrap()
}

fn with_tls(tls: &Tls) -> ServerOptions {
    ServerOptions {
        tls: Some(tls.clone()),
        ..ServerOptions::default()
    }
}

fn trusting(ca: &Path, own: Option<&Pair>) -> ClientTlsFiles {
    ClientTlsFiles {
        ca: Some(ca.to_path_buf()),
        certificate: own.map(|own| own.certificate.clone()),
        key: own.map(|own| own.key.clone()),
    }
}

/// The status of a request, or why there is none.
async fn call(
    address: SocketAddr,
    files: ClientTlsFiles,
    method: &'static str,
    path: &'static str,
    body: &'static str,
) -> Result<(u16, String), String> {
    let url = format!("https://localhost:{}", address.port());
    let remote = Remote::new(&env(), &url, None, &files).map_err(|error| error.to_string())?;
    let calling = tokio::task::spawn_blocking(move || {
        let response = remote.request(method, path, body.as_bytes(), LONG)?;
        Ok((response.status, response.text(8 << 20)?))
    });
    let answer: std::io::Result<_> = calling.await.unwrap();
    answer.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tls_only_tls_is_served_and_only_to_clients_that_trust_it() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let site = Listening::new(with_tls(&tls(&authority.sign("server"), None))).await;
    let trust = || trusting(&authority.ca(), None);
    let put = call(site.address, trust(), "PUT", "/a/_doc/1", "{\"x\":1}").await;
    assert_eq!(put.unwrap().0, 201);
    let got = call(site.address, trust(), "GET", "/a/_source/1", "").await;
    assert_eq!(got.unwrap(), (200, "{\"x\":1}".to_owned()));
    let wrong = call(site.address, trusting(&stranger.ca(), None), "GET", "/", "").await;
    assert!(wrong.unwrap_err().contains("certificate"));
    // Without TLS there is neither an answer nor a redirect.
    let plain = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let reply = timeout(LONG, site.exchange(plain)).await.unwrap();
    assert!(!reply.contains("HTTP/"), "{reply}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_and_a_long_body_pass_through_tls_whole() {
    let authority = Authority::new();
    let site = Listening::new(with_tls(&tls(&authority.sign("server"), None))).await;
    let text = "x".repeat(3 << 20);
    let body: &'static str = format!("{{\"text\":\"{text}\"}}").leak();
    let trust = || trusting(&authority.ca(), None);
    let put = call(site.address, trust(), "PUT", "/a/_doc/1", body).await;
    assert_eq!(put.unwrap().0, 201);
    let (status, got) = call(site.address, trust(), "GET", "/a/_source/1", "")
        .await
        .unwrap();
    assert_eq!((status, got.len()), (200, body.len()));
    assert!(got == body);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_client_authority_clients_need_its_certificate() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let tls = tls(&authority.sign("server"), Some(clients.ca()));
    let site = Listening::new(with_tls(&tls)).await;
    let own = clients.sign("client");
    let files = trusting(&authority.ca(), Some(&own));
    let answer = call(site.address, files, "GET", "/_cluster/health", "").await;
    assert_eq!(answer.unwrap().0, 200);
    for own in [None, Some(&authority.sign("of another authority"))] {
        let files = trusting(&authority.ca(), own);
        let answer = call(site.address, files, "GET", "/", "").await;
        assert!(answer.is_err(), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_read_again_while_the_server_runs() {
    let (before, after) = (Authority::new(), Authority::new());
    let pair = before.sign("server");
    let tls = tls(&pair, None);
    let site = Listening::new(with_tls(&tls)).await;
    let new = after.sign("server");

    // A key that does not belong to the certificate changes nothing.
    std::fs::copy(&new.certificate, &pair.certificate).unwrap();
    let error = tls.reload().unwrap_err().to_string();
    assert!(error.contains("server.key"), "{error}");
    let health = async |authority: &Authority| {
        let trusted = trusting(&authority.ca(), None);
        call(site.address, trusted, "GET", "/_cluster/health", "").await
    };
    assert_eq!(health(&before).await.unwrap().0, 200);

    std::fs::copy(&new.key, &pair.key).unwrap();
    tls.reload().unwrap();
    assert!(health(&before).await.is_err());
    assert_eq!(health(&after).await.unwrap().0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_are_replaced_are_used_without_a_signal() {
    let (before, after) = (Authority::new(), Authority::new());
    let pair = before.sign("server");
    let site = Listening::new(with_tls(&tls(&pair, None))).await;
    let health = async |authority: &Authority| {
        let trusted = trusting(&authority.ca(), None);
        let answer = call(site.address, trusted, "GET", "/_cluster/health", "").await;
        answer.is_ok_and(|(status, _)| status == 200)
    };
    assert!(health(&before).await);
    // What can't be used is left alone, however often it is looked at.
    let new = after.sign("server");
    std::fs::write(&pair.key, "no key").unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(health(&before).await);

    std::fs::copy(&new.certificate, &pair.certificate).unwrap();
    std::fs::copy(&new.key, &pair.key).unwrap();
    let replaced = async {
        while !health(&after).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LONG, replaced).await.unwrap();
    assert!(!health(&before).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_finish_its_handshake_is_disconnected() {
    let authority = Authority::new();
    let options = ServerOptions {
        idle_timeout: Duration::from_millis(100),
        ..with_tls(&tls(&authority.sign("server"), None))
    };
    let site = Listening::new(options).await;
    for sent in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
        let mut stream = site.connect().await;
        stream.write_all(sent).await.unwrap();
        timeout(LONG, read_all(&mut stream)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memcached_is_served_over_tls() {
    let authority = Authority::new();
    let options = ServerOptions {
        memcached: Some(MemcachedOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            collection: Some("cache".to_owned()),
            field: Some("value".to_owned()),
        }),
        ..with_tls(&tls(&authority.sign("server"), None))
    };
    let site = Listening::new(options).await;
    let (address, ca) = (site.memcached.unwrap(), authority.ca());
    let value = "v".repeat(200 << 10);
    let length = value.len();
    let lines = format!("set a 0 0 {length}\r\n{value}\r\nget a\r\nquit\r\n");
    let answer = memcached(address, trusting(&ca, None), lines)
        .await
        .unwrap();
    assert!(answer == format!("STORED\r\nVALUE a 0 {length}\r\n{value}\r\nEND\r\n"));
}

/// Sends lines to the memcached port over TLS; the answer up to the end of the connection.
async fn memcached(
    address: SocketAddr,
    files: ClientTlsFiles,
    lines: String,
) -> std::io::Result<String> {
    let talk = tokio::task::spawn_blocking(move || {
        let mut roots = rustls::RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(files.ca.unwrap()).unwrap();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match (files.certificate, files.key) {
            (Some(certificate), Some(key)) => {
                let chain = vec![CertificateDer::from_pem_file(certificate).unwrap()];
                let key = PrivateKeyDer::from_pem_file(key).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
            _ => config.with_no_client_auth(),
        };
        let name = ServerName::try_from("localhost").unwrap();
        let client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = std::net::TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        let mut stream = rustls::StreamOwned::new(client, socket);
        stream.write_all(lines.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    });
    timeout(LONG, talk).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_client_authority_every_port_needs_a_certificate_and_notes_who_has_none() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let path = authority.ca().with_file_name("audit.log");
    let audit = Audit::open(env(), LogFileOptions::new(&path)).unwrap();
    let options = ServerOptions {
        memcached: Some(MemcachedOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..MemcachedOptions::default()
        }),
        metrics_listen: Some("127.0.0.1:0".parse().unwrap()),
        audit: Some(audit.clone()),
        ..with_tls(&tls(&authority.sign("server"), Some(clients.ca())))
    };
    let site = Listening::new(options).await;
    let (metrics, port) = (site.metrics.unwrap(), site.memcached.unwrap());
    let own = clients.sign("client");
    let trust = |own| trusting(&authority.ca(), own);
    let answer = call(metrics, trust(Some(&own)), "GET", "/metrics", "").await;
    assert_eq!(answer.unwrap().0, 200);
    let version = || "version\r\nquit\r\n".to_owned();
    let answer = memcached(port, trust(Some(&own)), version()).await.unwrap();
    assert!(answer.starts_with("VERSION"), "{answer}");
    let text = || {
        audit.flush();
        std::fs::read_to_string(&path).unwrap()
    };
    assert!(!text().contains("401"), "{}", text());

    for address in [site.address, metrics] {
        let answer = call(address, trust(None), "GET", "/metrics", "").await;
        assert!(answer.is_err(), "{answer:?}");
    }
    let answer = memcached(port, trust(None), version()).await;
    assert!(!answer.is_ok_and(|answer| answer.contains("VERSION")));
    let noted = |protocol: &str| {
        let text = text();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let refused = lines.filter(|line: &serde_json::Value| {
            line["event"] == "authentication" && line["status"] == 401
        });
        let refused = refused.filter(|line| line["protocol"] == protocol);
        refused.filter(|line| line["address"].is_string()).count()
    };
    let all = async {
        while (noted("http"), noted("memcached")) != (2, 1) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, all)
        .await
        .unwrap_or_else(|_| panic!("{}", text()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_reads_its_certificate_again_when_it_has_changed() {
    let (authority, before, after) = (Authority::new(), Authority::new(), Authority::new());
    let tls = tls(&authority.sign("server"), Some(after.ca()));
    let site = Listening::new(with_tls(&tls)).await;
    let own = before.sign("client");
    let url = format!("https://localhost:{}", site.address.port());
    let files = trusting(&authority.ca(), Some(&own));
    let remote = Remote::new(&env(), &url, None, &files).unwrap();
    let is_answered = async || {
        let remote = remote.clone();
        let calling = move || remote.request("GET", "/", b"", LONG).is_ok();
        tokio::task::spawn_blocking(calling).await.unwrap()
    };
    assert!(!is_answered().await);
    let new = after.sign("client");
    // A certificate without its key can't be used; that is no reason to end.
    std::fs::copy(&new.certificate, &own.certificate).unwrap();
    assert!(!is_answered().await);
    std::fs::copy(&new.key, &own.key).unwrap();
    assert!(is_answered().await);
}

#[test]
fn files_that_cannot_be_used_are_named_with_what_to_do() {
    let authority = Authority::new();
    let pair = authority.sign("server");
    let other = authority.sign("other");
    let path = |name: &str| authority.ca().with_file_name(name);
    std::fs::write(path("empty"), "").unwrap();
    std::fs::write(
        path("locked"),
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    let cases = [
        (path("absent"), pair.key.clone(), None, "absent"),
        (path("empty"), pair.key.clone(), None, "no certificate"),
        (pair.key.clone(), pair.key.clone(), None, "no certificate"),
        (
            pair.certificate.clone(),
            path("empty"),
            None,
            "no private key",
        ),
        (
            pair.certificate.clone(),
            path("locked"),
            None,
            "openssl pkey",
        ),
        (
            pair.certificate.clone(),
            other.key.clone(),
            None,
            "other.key",
        ),
        (
            pair.certificate.clone(),
            pair.key.clone(),
            Some(path("empty")),
            "no certificate",
        ),
    ];
    for (certificate, key, client_ca, expected) in cases {
        let files = TlsFiles {
            certificate,
            key,
            client_ca,
        };
        let error = Tls::open(env(), files).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_server_with_https_is_called_only_with_certificates_to_trust() {
    let none = ClientTlsFiles::default();
    let new = |url: &str, files: &ClientTlsFiles| {
        let remote = Remote::new(&env(), url, None, files);
        remote.map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(new("https://db:9200", &none).unwrap_err().contains("trust"));
    assert!(
        new("ftp://db:9200", &none)
            .unwrap_err()
            .contains("https://")
    );
    assert!(new("http://db:9200", &none).is_ok());
    let authority = Authority::new();
    let files = trusting(&authority.ca(), None);
    assert!(new("http://db:9200", &files).unwrap_err().contains("https"));
    assert!(new("https://db:9200/", &files).is_ok());
    let half = ClientTlsFiles {
        key: Some(authority.ca()),
        ..files
    };
    assert!(
        new("https://db:9200", &half)
            .unwrap_err()
            .contains("together")
    );
}
