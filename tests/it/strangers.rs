//! The memory bound beside clients that send much and are not admitted, or whose requests are not
//! taken: heads without end, over HTTP/1 and HTTP/2, bodies with wrong tokens, handshakes of TLS,
//! compressed bodies that stop.

use crate::quire::{self, Server};
use crate::tls::Certificate;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const TOKEN: &str = "a-token-of-more-than-22-characters";

/// Connections that a port takes, and bad clients of a kind: of those that hold little each, more.
const CONNECTIONS: usize = 3_500;
const MANY: usize = 3_000;
const SOME: usize = 400;
const COMPRESSED: usize = 1_000;

/// What a server may have resident beside `--memory`, and for each connection.
const MEMORY_MIB: u64 = 32;
const BESIDE_BYTES: u64 = 64 << 20;
const CONNECTION_BYTES: u64 = 16 << 10;

const PATIENCE: Duration = Duration::from_secs(30);

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// A field of a header of HTTP/2, as it is. Its value is shorter than 127 bytes.
fn field(name: &str, value: &str) -> Vec<u8> {
    let (names, values) = (name.len() as u8, value.len() as u8);
    [&[0, names], name.as_bytes(), &[values], value.as_bytes()].concat()
}

fn request_fields(authorization: &str) -> Vec<u8> {
    [
        field(":method", "POST"),
        field(":scheme", "http"),
        field(":path", "/c/_bulk"),
        field(":authority", "a"),
        field("authorization", authorization),
    ]
    .concat()
}

/// What a client of HTTP/2 sends first: its settings are the usual ones.
fn preface() -> Vec<u8> {
    [
        &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
        &frame(4, 0, 0, b""),
    ]
    .concat()
}

/// Requests of HTTP/2 with a wrong token, and a megabyte of their bodies.
fn bodies_with_wrong_tokens() -> Vec<u8> {
    let mut sent = preface();
    let fields = request_fields("Bearer wrong");
    for stream in [1, 3, 5, 7] {
        sent.extend(frame(1, 4, stream, &fields));
        for _ in 0..15 {
            sent.extend(frame(0, 0, stream, &[b'x'; 16 << 10]));
        }
    }
    sent
}

/// A head of HTTP/2 that does not end.
fn endless_http2_head() -> Vec<u8> {
    let mut sent = preface();
    let value = "x".repeat(120);
    let more: Vec<u8> = (0..110)
        .flat_map(|n| field(&format!("n{n}"), &value))
        .collect();
    let first = [request_fields("Bearer wrong"), more.clone()].concat();
    sent.extend(frame(1, 0, 1, &first));
    sent.extend(frame(9, 0, 1, &more));
    sent
}

/// Requests of HTTP/2 with as many fields as fit.
fn many_fields() -> Vec<u8> {
    let mut sent = preface();
    for stream in 0..64 {
        let mut fields = request_fields("Bearer wrong");
        // The accept field without a value, of the static table.
        fields.extend([0x80 | 19; 800]);
        sent.extend(frame(1, 5, 2 * stream + 1, &fields));
    }
    sent
}

fn endless_head() -> Vec<u8> {
    let fields: String = (0..60)
        .map(|n| format!("f{n}: {}\r\n", "x".repeat(1_000)))
        .collect();
    format!("GET /c/_doc/1 HTTP/1.1\r\nHost: a\r\n{fields}").into_bytes()
}

/// A compressed body that stops after a few bytes, which stand for many.
fn stalled_gzip(zipped: &[u8]) -> Vec<u8> {
    let head = format!(
        "PUT /c/_doc/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Encoding: gzip\r\nContent-Length: 1000000\r\n\r\n"
    );
    [head.as_bytes(), zipped].concat()
}

/// A handshake of TLS whose first message has 60 KB, of which the last bytes do not come.
fn endless_handshake() -> Vec<u8> {
    let message = [&[1, 0, 0xEA, 0x60][..], &[0; 59_000]].concat();
    let records = message.chunks(16 << 10).map(|part| {
        let length = u16::try_from(part.len()).unwrap().to_be_bytes();
        [&[22, 3, 1, length[0], length[1]], part].concat()
    });
    records.collect::<Vec<_>>().concat()
}

/// The first bytes that gzip makes of many zeros, by the tool of that name.
fn zipped_zeros() -> Vec<u8> {
    let mut child = std::process::Command::new("gzip")
        .arg("-c")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = thread::spawn(move || stdin.write_all(&vec![0; 4 << 20]).unwrap());
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output.stdout[..40].to_vec()
}

fn anonymous_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Connects and sends as much as the server takes at once. Errors do not matter: one that the
/// server closed is a bad client, too.
fn bad(address: SocketAddr, sent: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .set_write_timeout(Some(Duration::from_millis(20)))
        .ok()?;
    let _ = stream.write_all(sent);
    Some(stream)
}

/// The status of a put, over a connection of its own.
fn put(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "PUT /c/_doc/1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\
         Connection: close\r\nContent-Length: 7\r\n\r\n{{\"n\":1}}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.get(9..12).unwrap_or_default().to_owned()
}

/// Runs bad clients of a kind. The server keeps its bound and, if `is_answered`, answers a good
/// client.
fn keeps_its_bound(kind: &str, clients: usize, sent: &[u8], more: &[&str], is_answered: bool) {
    quire::use_all_descriptors();
    let dir = tempfile::tempdir_in(quire::target_dir()).unwrap();
    let file = dir.path().join("token");
    fs::write(&file, TOKEN).unwrap();
    let (connections, memory) = (CONNECTIONS.to_string(), format!("{MEMORY_MIB}MiB"));
    let mut arguments = vec!["--token-file", file.to_str().unwrap(), "--memory", &memory];
    arguments.extend(["--connections", &connections]);
    arguments.extend(more);
    let server = Server::start(&dir.path().join("db"), &arguments);
    let (is_over, peak, pid) = (AtomicBool::new(false), AtomicU64::new(0), server.pid());
    let before = anonymous_bytes(pid);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                peak.fetch_max(anonymous_bytes(pid), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        });
        let parts: Vec<_> = (0..4)
            .map(|_| {
                threads.spawn(|| {
                    let bad = (0..clients / 4).filter_map(|_| bad(server.address, sent));
                    bad.collect::<Vec<_>>()
                })
            })
            .collect();
        let bad: Vec<_> = parts.into_iter().map(|part| part.join().unwrap()).collect();
        thread::sleep(Duration::from_millis(500));
        if is_answered {
            let begun = Instant::now();
            let status = put(server.address);
            println!("{kind}: a put took {:?}", begun.elapsed());
            assert!(["200", "201"].contains(&&*status), "{status}");
        }
        is_over.store(true, Ordering::Relaxed);
        drop(bad);
    });
    let bound = (MEMORY_MIB << 20) + BESIDE_BYTES + CONNECTION_BYTES * clients as u64;
    let peak = peak.into_inner();
    println!(
        "{kind}, {clients} clients: {} MiB before, at most {} MiB of {}",
        before >> 20,
        peak >> 20,
        bound >> 20
    );
    assert!(peak <= bound, "{kind}: {peak} bytes of {bound}");
    server.stop();
}

#[test]
fn strangers_of_http2_take_no_more_than_their_share() {
    let kinds = [
        ("bodies with wrong tokens", SOME, bodies_with_wrong_tokens()),
        ("endless heads of HTTP/2", MANY, endless_http2_head()),
        ("many fields", SOME, many_fields()),
    ];
    for (kind, clients, sent) in kinds {
        keeps_its_bound(kind, clients, &sent, &[], true);
    }
}

#[test]
fn strangers_whose_heads_do_not_end_take_no_more_than_their_share() {
    keeps_its_bound("endless heads", MANY, &endless_head(), &[], true);
}

#[test]
fn compressed_bodies_that_stop_are_within_the_bound_and_make_nobody_wait() {
    let sent = stalled_gzip(&zipped_zeros());
    keeps_its_bound("stalled gzip", COMPRESSED, &sent, &[], true);
}

#[test]
fn handshakes_that_do_not_end_take_no_more_than_their_share() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(dir.path(), "server");
    let more = [
        "--tls-cert",
        certificate.cert(),
        "--tls-key",
        certificate.key(),
    ];
    keeps_its_bound(
        "endless handshakes",
        MANY,
        &endless_handshake(),
        &more,
        false,
    );
}
