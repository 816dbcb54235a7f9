//! TLS with clients of others, unchanged: curl, openssl, opensearch-py, pymemcache; and a follower.

use crate::follow::wait_until_level;
use crate::python::{OPENSEARCH, PYMEMCACHE, check};
use crate::quire::{Server, binary, ok, run, signal};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs a program that must be there and succeed; returns what it printed.
#[track_caller]
fn tool(name: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(name)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("this test needs {name}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{name} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A certificate of this machine that signs itself, and its key.
pub(crate) struct Certificate {
    cert: PathBuf,
    key: PathBuf,
}

impl Certificate {
    pub(crate) fn new(dir: &Path, name: &str) -> Certificate {
        let certificate = Certificate {
            cert: dir.join(format!("{name}.pem")),
            key: dir.join(format!("{name}.key")),
        };
        let mut arguments = vec!["req", "-x509", "-newkey", "ec", "-nodes", "-days", "36500"];
        arguments.extend(["-pkeyopt", "ec_paramgen_curve:prime256v1"]);
        arguments.extend(["-subj", "/CN=localhost"]);
        arguments.extend(["-addext", "basicConstraints=critical,CA:FALSE"]);
        arguments.extend(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]);
        arguments.extend(["-keyout", certificate.key(), "-out", certificate.cert()]);
        tool("openssl", &arguments, "");
        certificate
    }

    pub(crate) fn cert(&self) -> &str {
        self.cert.to_str().unwrap()
    }

    pub(crate) fn key(&self) -> &str {
        self.key.to_str().unwrap()
    }

    fn serve(&self, database: &Path, more: &[&str]) -> Server {
        let mut arguments = vec!["--tls-cert", self.cert(), "--tls-key", self.key()];
        arguments.extend(["--memcached", "127.0.0.1:0"]);
        arguments.extend(["--memcached-collection", "docs", "--memcached-field", "v"]);
        arguments.extend(more);
        Server::start(database, &arguments)
    }
}

#[test]
fn curl_and_openssl_are_served_over_every_version_of_tls_that_is_safe() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(dir.path(), "server");
    let server = certificate.serve(&dir.path().join("db"), &[]);
    let url = format!("https://localhost:{}/", server.address.port());
    for version in [
        ["--tlsv1.2", "--tls-max", "1.2"],
        ["--tlsv1.3", "--tls-max", "1.3"],
    ] {
        for http in ["--http1.1", "--http2"] {
            let mut arguments = vec!["-sS", "--fail", "--cacert", certificate.cert(), http];
            arguments.extend(version);
            arguments.extend(["-w", "%{http_version}", "-o", "/dev/null", &url]);
            let spoken = tool("curl", &arguments, "");
            assert_eq!(spoken.starts_with('2'), http == "--http2", "{spoken}");
        }
    }
    let address = format!("localhost:{}", server.memcached().port());
    let mut arguments = vec!["s_client", "-quiet", "-verify_return_error"];
    arguments.extend(["-CAfile", certificate.cert(), "-connect", &address]);
    let answer = tool(
        "openssl",
        &arguments,
        "set a 0 0 2\r\nhi\r\nget a\r\nquit\r\n",
    );
    assert_eq!(answer, "STORED\r\nVALUE a 0 2\r\nhi\r\nEND\r\n");
    server.stop();
}

#[test]
fn a_scan_with_curl_and_openssl_finds_nothing_but_401_and_the_port_of_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(dir.path(), "server");
    let token = dir.path().join("token");
    std::fs::write(&token, "a-token-of-more-than-22-characters").unwrap();
    let more = ["--token-file", token.to_str().unwrap()];
    let more = [&more[..], &["--listen-metrics", "127.0.0.1:0"]].concat();
    let server = certificate.serve(&dir.path().join("db"), &more);
    let status = |port: u16, method: &str, path: &str| {
        let url = format!("https://localhost:{port}{path}");
        let mut arguments = vec!["-sS", "-X", method, "--cacert", certificate.cert()];
        arguments.extend(["-w", "%{http_code}", "-o", "/dev/null", &url]);
        tool("curl", &arguments, "")
    };
    let http = server.address.port();
    let paths = [
        "/",
        "/_cat/indices",
        "/_bulk",
        "/docs/_doc/1",
        "/_follow",
        "/_backup/x",
    ];
    for path in paths
        .iter()
        .chain(&["/metrics", "/_cluster/health", "/none"])
    {
        for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS"] {
            assert_eq!(status(http, method, path), "401", "{method} {path}");
        }
    }
    let metrics = server.metrics().port();
    for path in ["/metrics", "/_cluster/health"] {
        assert_eq!(status(metrics, "GET", path), "200", "{path}");
    }
    for path in paths {
        assert_eq!(status(metrics, "GET", path), "400", "{path}");
    }
    let address = format!("localhost:{}", server.memcached().port());
    for command in ["stats", "get 1", "version", "set 1 0 0 1\r\nx"] {
        let mut arguments = vec!["s_client", "-quiet", "-verify_return_error"];
        arguments.extend(["-CAfile", certificate.cert(), "-connect", &address]);
        let answer = tool("openssl", &arguments, &format!("{command}\r\n"));
        assert!(answer.starts_with("CLIENT_ERROR "), "{command}: {answer}");
    }
    server.stop();
}

#[test]
fn clients_in_python_are_served_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(dir.path(), "server");
    let server = certificate.serve(&dir.path().join("db"), &[]);
    let port = server.address.port().to_string();
    check(
        &OPENSEARCH,
        "opensearch_py.py",
        &[&port, certificate.cert()],
    );
    let port = server.memcached().port().to_string();
    check(
        &PYMEMCACHE,
        "pymemcache_client.py",
        &[&port, certificate.cert()],
    );
    server.stop();
}

#[test]
fn a_follower_and_commands_call_a_server_that_wants_their_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let own = Certificate::new(dir.path(), "server");
    let client = Certificate::new(dir.path(), "client");
    let leader = own.serve(&dir.path().join("db"), &["--tls-client-ca", client.cert()]);
    let url = format!("https://localhost:{}", leader.address.port());
    let put = format!("{url}/cars/_doc/1");
    let with = ["--client-cert", client.cert(), "--client-key", client.key()];
    let mut curl = vec!["-sS", "--fail", "--cacert", own.cert()];
    curl.extend(["--cert", client.cert(), "--key", client.key(), "-X", "PUT"]);
    curl.extend([
        "-H",
        "Content-Type: application/json",
        "-d",
        "{\"n\":1}",
        &put,
    ]);
    tool("curl", &curl, "");

    let mut stats = vec!["stats", &url, "--ca", own.cert()];
    let refused = run(&stats);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    stats.extend(with);
    assert!(ok(&stats).contains("cars"));

    let mut follow = Command::new(binary());
    follow
        .arg("follow")
        .arg(dir.path().join("copy"))
        .args([
            "--from",
            &url,
            "--listen",
            "127.0.0.1:0",
            "--ca",
            own.cert(),
        ])
        .args(with);
    let follower = Server::launch(follow);
    wait_until_level(&follower);
    let (status, found) = follower.request("GET", "/cars/_doc/1", "");
    assert_eq!((status, &found["_source"]["n"]), (200, &1.into()));
    follower.stop();
    leader.stop();
}

#[test]
fn a_hangup_makes_the_server_read_its_certificate_again() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(dir.path(), "server");
    let server = certificate.serve(&dir.path().join("db"), &[]);
    let url = format!("https://localhost:{}/", server.address.port());
    let old = dir.path().join("old.pem");
    std::fs::copy(&certificate.cert, &old).unwrap();
    let fresh = Certificate::new(dir.path(), "server");
    signal(server.pid(), "HUP");
    let trusts = |ca: &str| {
        let output = Command::new("curl")
            .args(["-sS", "--fail", "--cacert", ca, &url])
            .output();
        output.unwrap().status.success()
    };
    let begun = Instant::now();
    while !trusts(fresh.cert()) {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "still the old one"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!trusts(old.to_str().unwrap()));
    server.stop();
}

/// Places for connections, nearly all of which idle ones take that have sent a request.
const PLACES: u64 = 2_200;

const IDLE_PLACES: u64 = 2_000;

const PLACE_BYTES_MAX: u64 = 16 << 10;

/// `--memory`, what the process takes beside it, and what each place may.
const RESIDENT_BYTES_MAX: u64 = (32 << 20) + (64 << 20) + IDLE_PLACES * PLACE_BYTES_MAX;

/// Holds idle clients to the bound. Each takes this number of `places`.
fn idle_clients_are_within_the_bound(version: &str, places: u64) {
    crate::quire::use_all_descriptors();
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(dir.path(), "server");
    let more = ["--memory", "32MiB", "--connections", &PLACES.to_string()];
    let server = certificate.serve(&dir.path().join("db"), &more);
    let port = server.address.port().to_string();
    let process = server.pid().to_string();
    let numbers = [
        IDLE_PLACES / places,
        RESIDENT_BYTES_MAX,
        PLACE_BYTES_MAX * places,
    ];
    let [idle, bytes, each] = numbers.map(|number| number.to_string());
    let server_of = [&*port, certificate.cert(), &process];
    let arguments = [&server_of[..], &[version, &idle, &bytes, &each]].concat();
    check(&OPENSEARCH, "idle_tls.py", &arguments);
    server.stop();
}

#[test]
fn thousands_of_idle_clients_over_tls_are_within_the_bound() {
    idle_clients_are_within_the_bound("1", 1);
}

#[test]
fn a_thousand_idle_clients_of_http2_over_tls_are_within_the_bound() {
    idle_clients_are_within_the_bound("2", 2);
}
