//! A blocking HTTP client of a server, or of the nodes of a cluster: addresses, credentials, TLS,
//! time-outs.

use crate::sink::Failure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quiredb::Env;
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest answer that is read, and the longest part of one that is quoted.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
const QUOTED_CHARS: usize = 300;

/// The largest file of a secret or of certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How a server is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// `http://HOST:PORT` or `https://HOST:PORT`, with a path before all others if there is one.
    /// Several between commas are nodes of one cluster: if one does not answer, the next is called.
    pub url: String,
    /// The user of basic authentication, with `password_file`.
    pub user: Option<String>,
    /// A file with the user's password.
    pub password_file: Option<PathBuf>,
    /// A file with a bearer token.
    pub token_file: Option<PathBuf>,
    /// For https: the certificates to trust (PEM).
    pub ca: Option<PathBuf>,
    /// The longest wait for an answer.
    pub timeout: Duration,
}

/// A server's answer.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// The body of a request.
#[derive(Debug, Clone, Copy)]
pub enum Body<'a> {
    /// None.
    Empty,
    /// A JSON object.
    Json(&'a [u8]),
    /// Lines of JSON.
    Lines(&'a [u8]),
    /// Lines of JSON, compressed by gzip.
    LinesGzip(&'a [u8]),
}

/// A server, with a pool of connections that are kept.
#[derive(Clone)]
pub struct Http {
    agent: ureq::Agent,
    /// One at least.
    urls: Arc<[String]>,
    /// The number of the one that is called, which all clones share.
    turn: Arc<AtomicUsize>,
    authorization: Option<String>,
}

/// Never shows the credentials.
impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("urls", &self.urls).finish()
    }
}

impl Answer {
    /// The body as JSON; `null` if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The begin of the body, for a message.
    pub fn excerpt(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let short: String = text.trim().chars().take(QUOTED_CHARS).collect();
        format!("status {}: {short}", self.status)
    }
}

impl Http {
    /// A client of a server. Does not call it yet. Keeps up to `connections` open.
    ///
    /// # Errors
    /// If the URL, the credentials or the certificates can't be used: a sentence that says why.
    pub fn new(env: &dyn Env, access: &Access, connections: usize) -> Result<Http, String> {
        let urls = access
            .url
            .split(',')
            .map(|url| url.trim().trim_end_matches('/'));
        let urls: Vec<String> = urls.map(str::to_owned).collect();
        let url = urls.first().map(String::as_str).unwrap_or_default();
        let is_tls = url.starts_with("https://");
        for url in &urls {
            if !url.starts_with("https://") && !url.starts_with("http://") {
                return Err(format!(
                    "`{url}` is not the address of a server: give http://HOST:PORT or \
                     https://HOST:PORT"
                ));
            }
            if url.starts_with("https://") != is_tls {
                return Err(format!(
                    "`{}` has addresses with TLS and without",
                    access.url
                ));
            }
        }
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_global(Some(access.timeout))
            .max_idle_connections(connections * urls.len())
            .max_idle_connections_per_host(connections)
            .proxy(None);
        match (&access.ca, is_tls) {
            (Some(ca), true) => config = config.tls_config(trusting(env, ca)?),
            (None, true) => {
                return Err(format!(
                    "{url} needs the certificates to trust: set ca to a PEM file \
                     (/etc/ssl/certs/ca-certificates.crt has the public ones)"
                ));
            }
            (Some(_), false) => return Err(format!("{url} is without TLS, so ca has no use")),
            (None, false) => {}
        }
        Ok(Http {
            agent: config.build().into(),
            urls: urls.into(),
            turn: Arc::default(),
            authorization: authorization(env, access)?,
        })
    }

    /// The server's address, or the first one of a cluster.
    pub fn url(&self) -> &str {
        self.urls.first().map(String::as_str).unwrap_or_default()
    }

    /// Sends a request. `path` begins with a slash. Any status is an answer. After no answer, or
    /// one that says that the node is away, the next call goes to the next node.
    ///
    /// # Errors
    /// [`Failure::NoAnswer`] if there is no answer, or not all of it.
    pub fn call(&self, method: &str, path: &str, body: Body<'_>) -> Result<Answer, Failure> {
        let turn = self.turn.load(Ordering::Relaxed);
        let url = self.urls.get(turn).map(String::as_str).unwrap_or_default();
        let answer = self.call_at(url, method, path, body);
        let is_away = match &answer {
            Ok(answer) => matches!(answer.status, 502..=504),
            Err(_) => true,
        };
        if is_away {
            let next = (turn + 1) % self.urls.len();
            // Of several callers that fail, one moves on.
            let (one, order) = (&self.turn, Ordering::Relaxed);
            let _ = one.compare_exchange(turn, next, order, order);
        }
        answer
    }

    fn call_at(
        &self,
        url: &str,
        method: &str,
        path: &str,
        body: Body<'_>,
    ) -> Result<Answer, Failure> {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{url}{path}"));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let (kind, bytes) = match body {
            Body::Empty => ("", &[][..]),
            Body::Json(bytes) => ("application/json", bytes),
            Body::Lines(bytes) | Body::LinesGzip(bytes) => ("application/x-ndjson", bytes),
        };
        if !kind.is_empty() {
            request = request.header("Content-Type", kind);
        }
        if matches!(body, Body::LinesGzip(_)) {
            request = request.header("Content-Encoding", "gzip");
        }
        let no_answer =
            |error: ureq::Error| Failure::NoAnswer(format!("no answer from {url}: {error}"));
        let sent = match body {
            Body::Empty => {
                let request = request.body(()).map_err(|error| no_answer(error.into()))?;
                self.agent.run(request)
            }
            _ => {
                let request = request.body(bytes);
                let request = request.map_err(|error| no_answer(error.into()))?;
                self.agent.run(request)
            }
        };
        let mut response = sent.map_err(no_answer)?;
        let status = response.status().as_u16();
        let reader = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let body = reader.read_to_vec().map_err(no_answer)?;
        Ok(Answer { status, body })
    }
}

/// A part of a path, with what has another meaning in a URL escaped.
pub(crate) fn segment(text: &str) -> String {
    let mut segment = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                segment.push(byte.into());
            }
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

fn secret(env: &dyn Env, path: &std::path::Path) -> Result<String, String> {
    let bytes = env.read(path, FILE_BYTES_MAX);
    let bytes = bytes.map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{} is not text", path.display()))?;
    match text.trim() {
        "" => Err(format!("{} is empty", path.display())),
        text => Ok(text.to_owned()),
    }
}

fn authorization(env: &dyn Env, access: &Access) -> Result<Option<String>, String> {
    match (&access.user, &access.password_file, &access.token_file) {
        (None, None, None) => Ok(None),
        (None, None, Some(file)) => Ok(Some(format!("Bearer {}", secret(env, file)?))),
        (Some(user), Some(file), None) => {
            let pair = format!("{user}:{}", secret(env, file)?);
            Ok(Some(format!("Basic {}", STANDARD.encode(pair))))
        }
        _ => Err("give either user and password_file, or token_file".to_owned()),
    }
}

fn trusting(env: &dyn Env, ca: &std::path::Path) -> Result<TlsConfig, String> {
    let pem = env.read(ca, FILE_BYTES_MAX);
    let pem = pem.map_err(|error| error.to_string())?;
    let mut certificates: Vec<Certificate<'static>> = Vec::new();
    for item in ureq::tls::parse_pem(&pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(format!("{}: {error}", ca.display())),
        }
    }
    if certificates.is_empty() {
        return Err(format!("{} has no certificate (PEM)", ca.display()));
    }
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiredb::OsEnv;

    #[test]
    fn several_addresses_are_nodes_of_one_kind() {
        let new = |url: &str| {
            let access = Access {
                url: url.to_owned(),
                timeout: Duration::from_secs(1),
                ..Access::default()
            };
            Http::new(&*OsEnv::new().unwrap(), &access, 1)
        };
        let two = new("http://a:1/, http://b:2").unwrap();
        assert_eq!((two.url(), &*two.urls[1]), ("http://a:1", "http://b:2"));
        for (url, part) in [
            ("http://a:1,b:2", "`b:2` is not the address"),
            ("http://a:1,", "`` is not the address"),
            ("http://a:1,https://b:2", "with TLS and without"),
        ] {
            let why = new(url).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
