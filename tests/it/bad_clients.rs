//! Clients that take places and give nothing: good clients are answered beside 2,000 of each kind.
//!
//! Each good request is answered before the server cuts off the bad clients, and half of them soon.
//! The first ones may wait: the server works off what 2,000 clients sent at once, and how long that
//! takes depends on the machine. `docs/lab/bad-clients.md` has the slowest ones, measured.

use crate::quire::{self, Server};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Bad clients of each kind, on each port: twice the connections that a server takes, unless it is
/// to take more.
const BAD: usize = 2_000;

/// Connections that a server takes with which all bad clients stay, and good ones find places.
const ALL_STAY: usize = 2_200;

/// Requests of good clients beside them, on each port.
const GOOD: usize = 100;

/// How much longer half of the requests of good clients may take beside bad ones.
const WORSE_MAX: Duration = Duration::from_millis(250);

/// Rounds of which one is to be good. On a busy machine one round may be slow; a server that lets
/// good clients wait is slow in each.
const ROUNDS: usize = 20;

/// After this time the server cuts bad clients off by itself, and good ones would be answered
/// whatever it does meanwhile.
const CUT_OFF_AFTER: Duration = Duration::from_secs(60);

const TOKEN: &str = "a-token-of-more-than-22-characters";

/// What a bad client sends before it stops, if anything.
fn http_kinds() -> Vec<(&'static str, String)> {
    let head = |line: &str, token: &str, more: &str| {
        format!("{line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n{more}\r\n")
    };
    vec![
        ("idle", String::new()),
        (
            "stalled body",
            head("PUT /c/_doc/x", TOKEN, "Content-Length: 99\r\n") + "{\"n\":",
        ),
        (
            "not reading",
            head("GET /c/_doc/long", TOKEN, "").repeat(20),
        ),
        ("wrong token", head("GET /c/_doc/1", "wrong", "")),
        (
            "stalled head",
            "GET /c/_doc/1 HTTP/1.1\r\nHost: a".to_owned(),
        ),
        (
            "stalled chunks",
            head("POST /c/_bulk", TOKEN, "Transfer-Encoding: chunked\r\n") + "1\r\n\n\r\n",
        ),
        (
            "never ending searches",
            head("GET /c/_search?scroll=1h&size=1", TOKEN, "").repeat(5),
        ),
    ]
}

fn memcached_kinds() -> Vec<(&'static str, String)> {
    vec![
        ("idle", String::new()),
        (
            "stalled body",
            authenticate(TOKEN) + "set c:x 0 0 99\r\n{\"n\":",
        ),
        (
            "not reading",
            authenticate(TOKEN) + &"get c:long\r\n".repeat(100),
        ),
        ("wrong token", authenticate("wrong")),
        ("stalled line", authenticate(TOKEN) + "get c:1 c:2 c:3"),
        ("binary", "\u{80}\0\0\0".to_owned()),
    ]
}

fn authenticate(token: &str) -> String {
    let words = format!("user {token}");
    format!("set auth 0 0 {}\r\n{words}\r\n", words.len())
}

/// Connects and sends. One that the server closed at once is a bad client, too.
fn bad(address: SocketAddr, sent: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_write_timeout(Some(CUT_OFF_AFTER))?;
    // Errors do not matter: it is closed already.
    let _ = stream.write_all(sent.as_bytes());
    Ok(stream)
}

/// Sends to a server over a new connection, until `end` comes. Returns the time that it took.
fn good(address: SocketAddr, sent: &str, end: &str) -> Duration {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(CUT_OFF_AFTER)).unwrap();
    quire::exchange(&mut stream, sent, end);
    begun.elapsed()
}

/// Sorted times of good clients.
fn times(good_one: impl Fn() -> Duration) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..GOOD).map(|_| good_one()).collect();
    times.sort();
    times
}

/// Good clients of a port beside bad ones, which send one of `sent` each.
fn beside(
    port: &str,
    kind: &str,
    address: SocketAddr,
    sent: &[String],
    good_one: impl Fn() -> Duration,
) {
    let p99 = |times: &[Duration]| times[GOOD * 99 / 100 - 1];
    let is_good = (0..ROUNDS).any(|_| {
        let alone = times(&good_one);
        let bad: Vec<TcpStream> = sent
            .iter()
            .cycle()
            .take(BAD)
            .filter_map(|sent| bad(address, sent).ok())
            .collect();
        let times = times(&good_one);
        println!(
            "{port}, {} bad clients, {kind}: p50 {:?}, p99 {:?}, worst {:?}; alone p99 {:?}",
            bad.len(),
            times[GOOD / 2],
            p99(&times),
            times[GOOD - 1],
            p99(&alone)
        );
        times[GOOD / 2] <= p99(&alone) + WORSE_MAX
    });
    assert!(
        is_good,
        "{port}, {kind}: good clients wait in each of {ROUNDS} rounds"
    );
}

/// Good clients of each port beside bad ones of each kind, and beside all kinds at once.
fn good_clients_are_answered(more: &[&str]) {
    let (http_kinds, memcached_kinds) = (http_kinds(), memcached_kinds());
    quire::use_all_descriptors();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, TOKEN).unwrap();
    let token_file = ["--token-file", file.to_str().unwrap()];
    let server = Server::start_memcached(&dir.path().join("db"), &[&token_file, more].concat());
    let (http, memcached) = (server.address, server.memcached());
    let long = "x".repeat(200_000);
    let head = |line: &str, length: usize| {
        format!(
            "{line} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    };
    let put = |id: &str, body: &str| {
        let request = head(&format!("PUT /c/_doc/{id}"), body.len()) + body;
        good(http, &request, "\"result\":")
    };
    put("1", "{\"n\":1}");
    put("long", &format!("{{\"long\":\"{long}\"}}"));
    for (kind, sent) in http_kinds.clone() {
        beside("HTTP", kind, http, &[sent], || put("1", "{\"n\":1}"));
    }
    let all: Vec<String> = http_kinds.into_iter().map(|(_, sent)| sent).collect();
    let query = "{\"query\":{\"term\":{\"n\":1}}}";
    let search = head("POST /c/_search", query.len()) + query;
    beside("HTTP", "all of these, beside searches", http, &all, || {
        good(http, &search, "\"_id\":\"1\"")
    });
    let get = authenticate(TOKEN) + "get c:1\r\n";
    let get = || good(memcached, &get, "END\r\n");
    for (kind, sent) in memcached_kinds.clone() {
        beside("memcached", kind, memcached, &[sent], get);
    }
    let all: Vec<String> = memcached_kinds.into_iter().map(|(_, sent)| sent).collect();
    beside("memcached", "all of these", memcached, &all, get);
    server.stop();
}

#[test]
fn good_clients_are_answered_beside_more_bad_ones_than_a_port_takes() {
    good_clients_are_answered(&[]);
}

#[test]
fn good_clients_are_answered_beside_thousands_that_stay() {
    good_clients_are_answered(&["--connections", &ALL_STAY.to_string()]);
}
