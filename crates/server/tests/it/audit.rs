//! The audit log: who was admitted and refused, and who changed what.
#![allow(
    clippy::disallowed_methods,
    reason = "reads the audit log as its readers do"
)]

use std::path::PathBuf;

use futures_util::FutureExt as _;
use quire_server::{
    Audit, Limit, LogFileOptions, MemcachedOptions, NewToken, Role, ServerOptions, Tokens,
};
use quiredb::OsEnv;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::access::{Guarded, make, options, send, talk};
use crate::site::{Listening, Site};

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_says_who_was_admitted_and_refused_and_who_changed_what() {
    let (options, tokens, dir) = options();
    let path = dir.path().join("audit.log");
    let env = OsEnv::new().unwrap();
    let audit = Audit::open(env, LogFileOptions::new(&path)).unwrap();
    let options = ServerOptions {
        audit: Some(audit.clone()),
        memcached: Some(MemcachedOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..MemcachedOptions::default()
        }),
        ..options
    };
    let site = Listening::new(options).await;
    let secret = make(&tokens, "reader", Role::Read, &["*"]);
    let line_of = |token: &str, method: &str, path: &str| {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: 0\r\n\r\n"
        )
    };
    let last = line_of("wrong", "GET", "/cars").replace("Content-Length", "Connection: close\r\nX");
    let requests = [
        line_of(&secret, "GET", "/_count"),
        line_of(&secret, "GET", "/_count"),
        line_of(&secret, "PUT", "/cars"),
        line_of("root", "PUT", "/cars"),
        last,
    ];
    site.exchange(requests.concat().as_bytes()).await;
    let mut memcached = TcpStream::connect(site.memcached.unwrap()).await.unwrap();
    let lines = "set a 0 0 6\r\nx root\r\nversion\r\n";
    talk(&mut memcached, lines, "VERSION").await;
    audit.flush();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(&secret) && !text.contains("wrong"), "{text}");
    let noted: Vec<_> = text
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            assert!(line["address"].is_string() && line["time_micros"].is_number());
            let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {} {} {}",
                text("event"),
                text("token"),
                text("method"),
                text("path"),
                line["status"]
            )
        })
        .collect();
    let expected = [
        "authentication reader GET /_count 200",
        "refused reader PUT /cars 403",
        "admin reader PUT /cars 403",
        "authentication  PUT /cars 200",
        "admin  PUT /cars 200",
        "authentication - GET /cars 401",
        "authentication  - - 200",
    ];
    assert_eq!(noted, expected, "{text}");
}

/// A server that writes an audit log, and the lines of it.
struct Audited {
    guarded: Guarded,
    audit: Audit,
    path: PathBuf,
}

impl Audited {
    fn new() -> Audited {
        let (options, tokens, dir) = options();
        let path = dir.path().join("audit.log");
        let audit = Audit::open(OsEnv::new().unwrap(), LogFileOptions::new(&path)).unwrap();
        let options = ServerOptions {
            audit: Some(audit.clone()),
            ..options
        };
        Audited {
            guarded: Guarded::with(options, tokens, dir),
            audit,
            path,
        }
    }

    /// The lines so far: event, token, method, path and status.
    fn lines(&self) -> Vec<String> {
        self.audit.flush();
        let text = std::fs::read_to_string(&self.path).unwrap();
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            let [event, token] = [text("event"), text("token")];
            let [method, path] = [text("method"), text("path")];
            format!("{event} {token} {method} {path} {}", line["status"])
        };
        text.lines().map(line).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_client_went_away_is_in_the_audit_log() {
    let site = Audited::new();
    loop {
        site.guarded.site.collection("cars");
        let done = site.guarded.call("root", "DELETE", "/cars", "");
        // It is done at once only if a thread was very fast.
        if done.now_or_never().is_none() {
            break;
        }
    }
    let lines = site.lines();
    let last = lines.last().unwrap();
    assert_eq!(last, "admin  DELETE /cars 499", "{lines:?}");
    while !site.guarded.site.database.collections().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_tokens_by_a_command_are_in_the_audit_log_of_a_running_server() {
    let site = Audited::new();
    let path = site.path.with_file_name("tokens");
    let command = Tokens::open(OsEnv::new().unwrap(), &path).unwrap();
    make(&site.guarded.tokens, "here", Role::Read, &["*"]);
    make(&command, "there", Role::Read, &["*"]);
    command.revoke("here").unwrap();
    // This change reads what the command has written.
    make(&site.guarded.tokens, "again", Role::Read, &["*"]);
    let expected = [
        "admin - DELETE /_quire/tokens/here 200",
        "admin - PUT /_quire/tokens/there 200",
    ];
    assert_eq!(site.lines(), expected);
    command.revoke("there").unwrap();
    let revoked = "admin - DELETE /_quire/tokens/there 200".to_owned();
    while !site.lines().contains(&revoked) {
        site.guarded.status("none", "GET", "/", "").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_has_what_memcached_refuses_and_creates_and_who_is_over_a_limit() {
    let (options, tokens, dir) = options();
    let path = dir.path().join("audit.log");
    let audit = Audit::open(OsEnv::new().unwrap(), LogFileOptions::new(&path)).unwrap();
    let site = Listening::new(ServerOptions {
        audit: Some(audit.clone()),
        memcached: Some(MemcachedOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..MemcachedOptions::default()
        }),
        // After an answer it is over for as long as a test takes.
        token_limit: Some(Limit {
            bytes: Some(1),
            ..Limit::default()
        }),
        ..options
    })
    .await;
    let new = NewToken {
        name: "writer".to_owned(),
        role: Role::Write,
        collections: vec!["logs".to_owned()],
        lifetime: None,
        limit: Some(Limit::default()),
    };
    let secret = tokens.create(new).unwrap();
    let connect = || TcpStream::connect(site.memcached.unwrap());
    let mut writer = connect().await.unwrap();
    let value = format!("x {secret}");
    let lines = format!(
        "set a 0 0 {}\r\n{value}\r\nset logs:1 0 0 2\r\n{{}}\r\nget cars:1\r\nstats\r\n",
        value.len()
    );
    let answer = talk(&mut writer, &lines, "statistics").await;
    assert!(answer.starts_with("STORED\r\nSTORED\r\n"), "{answer}");
    assert_eq!(answer.matches("no permissions").count(), 2, "{answer}");
    let mut stranger = connect().await.unwrap();
    talk(&mut stranger, "set a 0 0 3\r\nx y\r\n", "failure").await;
    let request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\
                    Authorization: Bearer root\r\nConnection: close\r\n\r\n";
    for status in ["200", "429"] {
        assert_eq!(site.exchange(request).await[9..12], *status);
    }
    audit.flush();
    let text = std::fs::read_to_string(&path).unwrap();
    let mut noted: Vec<_> = text
        .lines()
        .map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            let [event, protocol] = [text("event"), text("protocol")];
            let [token, collection] = [text("token"), text("collection")];
            format!("{event} {protocol} {token} {collection} {}", line["status"])
        })
        .collect();
    noted.sort();
    let expected = [
        "admin memcached writer logs 200",
        "authentication http  - 200",
        "authentication http  - 200",
        "authentication memcached - - 401",
        "authentication memcached writer - 200",
        "refused http  - 429",
        "refused memcached writer * 403",
        "refused memcached writer cars 403",
    ];
    assert_eq!(noted, expected, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_is_refused_and_noted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let audit = Audit::open(OsEnv::new().unwrap(), LogFileOptions::new(&path)).unwrap();
    let site = Site::with(ServerOptions {
        audit: Some(audit.clone()),
        ..ServerOptions::default()
    });
    let from = [
        ("host", "localhost:9200"),
        ("origin", "https://evil.example"),
    ];
    let refused = send(&site, "DELETE", "/cars", &from, "").await;
    assert_eq!(refused.status, 403);
    audit.flush();
    let text = std::fs::read_to_string(&path).unwrap();
    let line: Value = serde_json::from_str(text.trim()).unwrap();
    assert_eq!(
        (&line["event"], &line["status"]),
        (&json!("authentication"), &json!(403))
    );
}
