//! A bulk request whose client disconnects in the middle of the body.

use crate::http::Connection;
use crate::quire::{self, Server};
use crate::words;
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn half_a_bulk_body_harms_nothing_and_can_be_sent_again() {
    const DOCUMENTS: u64 = 3_000;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("db"), &[]);
    assert_eq!(
        server.request("PUT", "/docs/_doc/good", r#"{"n":1}"#).0,
        201
    );
    let source = |n: u64| json!({"n": n, "text": words::text(n, 100)});
    let mut body = String::new();
    for n in 0..DOCUMENTS {
        body.push_str(&format!(
            "{{\"index\":{{\"_id\":\"{n}\"}}}}\n{}\n",
            source(n)
        ));
    }
    let head = format!(
        "POST /docs/_bulk HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    for (at, half_closed) in [
        (body.len() / 2, false),
        (body.len() / 3, true),
        (body.len() - 1, false),
    ] {
        let mut connection = server.connect();
        connection.send(head.as_bytes()).unwrap();
        connection.send(&body.as_bytes()[..at]).unwrap();
        if half_closed {
            connection.end().unwrap();
            if let Ok((status, answer)) = connection.receive(false) {
                assert!(
                    status >= 400,
                    "{status} {}",
                    String::from_utf8_lossy(&answer)
                );
            }
        }
        drop(connection);
        // Some of its documents may be there: each whole.
        let count = settled_count(&mut server.connect());
        assert!((1..=DOCUMENTS + 1).contains(&count), "{count}");
        for n in (0..DOCUMENTS).step_by(97) {
            let (status, answer) = server.request("GET", &format!("/docs/_doc/{n}"), "");
            assert!(
                status == 404 || answer["_source"] == source(n),
                "{n}: {answer}"
            );
        }
    }
    let (status, answer) = server.request("POST", "/docs/_bulk", &body);
    assert_eq!((status, &answer["errors"]), (200, &json!(false)));
    assert_eq!(
        server.request("GET", "/docs/_count", "").1["count"],
        json!(DOCUMENTS + 1)
    );
    assert_eq!(
        server.request("GET", "/docs/_doc/good", "").1["_source"],
        json!({"n": 1})
    );
    server.stop();
    assert_eq!(
        quire::run(&["verify", dir.path().join("db").to_str().unwrap()]).code,
        Some(0)
    );
}

/// The count of documents once it no longer changes.
fn settled_count(connection: &mut Connection) -> u64 {
    let begun = Instant::now();
    let mut count = None;
    loop {
        let now = connection.json("GET", "/docs/_count", b"").1["count"].as_u64();
        if now == count {
            return now.unwrap();
        }
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "an ended request goes on"
        );
        count = now;
        std::thread::sleep(Duration::from_millis(100));
    }
}
