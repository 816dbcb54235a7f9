//! Limits of client addresses and tokens: who exceeds them is refused and told when to come again.

use std::path::PathBuf;

use quire_server::{Limit, MemcachedOptions, NewToken, Role, ServerOptions, Tokens};
use quiredb::OsEnv;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::site::{Listening, Site, read_until};

/// An answer has more bytes than hours allow: no second request passes within a test.
const RARELY: Limit = Limit {
    requests: None,
    bytes: Some(1),
    running: None,
    searches: None,
    connections: None,
};

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_over_its_bytes_is_told_when_to_come_again() {
    let site = Listening::new(ServerOptions {
        address_limit: Some(RARELY),
        ..ServerOptions::default()
    })
    .await;
    // The answer has more bytes than an hour allows.
    let first = site.exchange(&get("/openapi.json")).await;
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");
    let second = site.exchange(&get("/")).await;
    assert!(second.starts_with("HTTP/1.1 429"), "{second}");
    assert!(
        second.contains("bytes a second of this address"),
        "{second}"
    );
    let head = second
        .lines()
        .find(|line| line.starts_with("retry-after: "));
    let seconds: u64 = head.unwrap()["retry-after: ".len()..].parse().unwrap();
    assert!(seconds > 1000, "{seconds}");
    // Also where no route is, so that nothing is found out faster.
    let unknown = site.exchange(&get("/_none/x/y/z")).await;
    assert!(unknown.starts_with("HTTP/1.1 429"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_over_its_limit_slows_no_other_token() {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("tokens");
    let tokens = Tokens::open_or_create(OsEnv::new().unwrap(), &path).unwrap();
    let make = |name: &str| {
        let new = NewToken {
            name: name.to_owned(),
            role: Role::Read,
            collections: vec!["*".to_owned()],
            lifetime: None,
            limit: None,
        };
        tokens.create(new).unwrap()
    };
    let (greedy, modest) = (make("greedy"), make("modest"));
    let site = Site::with(ServerOptions {
        tokens: Some(tokens.clone()),
        token_limit: Some(RARELY),
        ..ServerOptions::default()
    });
    let call = async |token: &str| {
        let request = axum::http::Request::builder()
            .uri("/openapi.json")
            .header("authorization", format!("Bearer {token}"));
        let request = request.body(axum::body::Body::empty()).unwrap();
        site.send(request).await
    };
    assert_eq!(call(&greedy).await.status, 200);
    let refused = call(&greedy).await;
    let reason = refused.refused(429, "rejected_execution_exception");
    assert!(reason.contains("of this token"), "{reason}");
    assert_eq!(call(&modest).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_has_the_limit_that_it_was_made_with_whatever_others_have() {
    let dir = tempfile::tempdir().unwrap();
    let tokens = Tokens::open_or_create(OsEnv::new().unwrap(), &dir.path().join("tokens"));
    let tokens = tokens.unwrap();
    let make = |name: &str, limit| {
        let new = NewToken {
            name: name.to_owned(),
            role: Role::Read,
            collections: vec!["*".to_owned()],
            lifetime: None,
            limit,
        };
        tokens.create(new)
    };
    let none = Limit {
        requests: Some(0),
        ..Limit::default()
    };
    assert!(make("never", Some(none)).is_err());
    let seldom = make("seldom", Some(RARELY)).unwrap();
    let often = make("often", Some(Limit::default())).unwrap();
    let others = make("others", None).unwrap();
    let listed = tokens.list();
    assert_eq!(listed[0].listed()["limit"], serde_json::json!({"bytes": 1}));
    let site = Listening::new(ServerOptions {
        tokens: Some(tokens.clone()),
        memcached: Some(MemcachedOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..MemcachedOptions::default()
        }),
        ..ServerOptions::default()
    })
    .await;
    let call = async |token: &str| {
        let header = format!("host: localhost\r\nauthorization: Bearer {token}");
        let request = String::from_utf8(get("/openapi.json")).unwrap();
        let request = request.replace("host: localhost", &header);
        let answer = site.exchange(request.as_bytes()).await;
        answer[..12].to_owned()
    };
    for _ in 0..3 {
        assert_eq!(call(&often).await, "HTTP/1.1 200");
        assert_eq!(call(&others).await, "HTTP/1.1 200");
    }
    assert_eq!(call(&seldom).await, "HTTP/1.1 200");
    assert_eq!(call(&seldom).await, "HTTP/1.1 429");
    // Its clients of memcached rest: the second answer does not come within a test.
    let mut stream = TcpStream::connect(site.memcached.unwrap()).await.unwrap();
    let words = format!("x {seldom}");
    let lines = format!("set a 0 0 {}\r\n{words}\r\nmn\r\n", words.len());
    stream.write_all(lines.as_bytes()).await.unwrap();
    read_until(&mut stream, "STORED").await;
    stream.write_all(b"version\r\n").await.unwrap();
    let second = tokio::time::timeout(
        std::time::Duration::from_secs(2),
        read_until(&mut stream, "VERSION"),
    );
    assert!(second.await.is_err());
}

/// A connection that the server has accepted: a request on it is answered, with a refusal here.
/// Connections that clients have closed count until the server sees it; then this one is closed.
async fn served(site: &Listening) -> TcpStream {
    let refusal = "requests at once of this address";
    loop {
        let mut stream = site.connect().await;
        let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let mut answer = String::new();
        let mut buffer = [0; 4096];
        if stream.write_all(request).await.is_err() {
            continue;
        }
        while let Ok(bytes @ 1..) = stream.read(&mut buffer).await {
            answer.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
            if answer.contains(refusal) {
                return stream;
            }
        }
        assert_eq!(answer, "", "closed within an answer");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_requests_of_an_address_run_at_once_than_allowed() {
    let site = Listening::new(ServerOptions {
        address_limit: Some(Limit {
            running: Some(2),
            connections: Some(4),
            ..Limit::default()
        }),
        ..ServerOptions::default()
    })
    .await;
    site.database
        .collection_or_create("a", Default::default)
        .unwrap();
    let begin = async || {
        let mut stream = site.connect().await;
        stream
            .write_all(&get("/a/_changes?wait_ms=60000"))
            .await
            .unwrap();
        stream
    };
    let mut waiting = [begin().await, begin().await];
    while !site.exchange(&get("/")).await.starts_with("HTTP/1.1 429") {
        for stream in &mut waiting {
            // One that has an answer was refused, as the last request ran beside it.
            if stream.try_read(&mut [0]).is_ok() {
                *stream = begin().await;
            }
        }
    }
    // Two more connections fit, and the next is closed at once.
    let (third, fourth) = (served(&site).await, served(&site).await);
    let mut fifth = site.connect().await;
    assert_eq!(fifth.read(&mut [0]).await.unwrap(), 0);
    // What ends gives its room back.
    drop((waiting, third, fourth));
    while !site.exchange(&get("/")).await.starts_with("HTTP/1.1 200") {}
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_memcached_over_their_limit_rest_without_losing_requests() {
    let site = Listening::new(ServerOptions {
        memcached: Some(MemcachedOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..MemcachedOptions::default()
        }),
        address_limit: Some(Limit {
            requests: Some(1000),
            ..Limit::default()
        }),
        ..ServerOptions::default()
    })
    .await;
    let mut client = TcpStream::connect(site.memcached.unwrap()).await.unwrap();
    let begun = tokio::time::Instant::now();
    for _ in 0..3 {
        client
            .write_all("mn\r\n".repeat(1000).as_bytes())
            .await
            .unwrap();
        let mut answers = vec![0; 4 * 1000];
        client.read_exact(&mut answers).await.unwrap();
        assert_eq!(answers, "MN\r\n".repeat(1000).into_bytes());
    }
    // The first two thousand pass at once.
    assert!(begun.elapsed() >= std::time::Duration::from_millis(900));
}
