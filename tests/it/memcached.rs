//! The memcached port of the real binary: against a model, under real clients, and killed.

mod model;

use crate::kill::{Random, any_random, wait_until_at_least};
use crate::python::{Client, PYMEMCACHE, check};
use crate::quire::{self, Server};
use model::{Dialect, Model, Session};
use quiredb::{Database, Key, ValueRef};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Values are in the field `v` of the documents of one collection, also for keys with colons.
const FIELD: &[&str] = &["--memcached-collection", "docs", "--memcached-field", "v"];

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(120)))
        .unwrap();
    stream
}

/// Random commands over two connections in turn, each time many at once and cut anywhere.
fn agrees_with_the_model(address: SocketAddr, dialect: Dialect, batches: u32) {
    let mut random = any_random();
    let mut model = Model::new(dialect);
    let mut sessions = [0, 1].map(|_| Session::new(connect(address)));
    for batch in 0..batches {
        let session = &mut sessions[batch as usize % 2];
        let count = 1 + random.below(40);
        session.converse(&mut model, &mut random, count);
    }
}

#[test]
fn random_commands_cut_anywhere_are_answered_as_a_model_says() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_memcached(&dir.path().join("db"), FIELD);
    agrees_with_the_model(server.memcached(), Dialect::Quire, 300);
    server.stop();
}

/// Debian's memcached on a free port, killed when dropped.
struct Memcached(Child, SocketAddr);

impl Memcached {
    fn start() -> Memcached {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let port = address.port().to_string();
        let child = Command::new("memcached")
            .args(["-u", "nobody", "-l", "127.0.0.1", "-U", "0", "-p", &port])
            .stderr(Stdio::null())
            .spawn()
            .expect("this test needs memcached (Debian: apt-get install memcached)");
        for _ in 0..1000 {
            if TcpStream::connect(address).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Memcached(child, address)
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_model_is_right_about_memcached() {
    let memcached = Memcached::start();
    agrees_with_the_model(memcached.1, Dialect::Memcached, 300);
}

#[test]
fn pymemcache_works_without_a_shim() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_memcached(&dir.path().join("db"), FIELD);
    let port = server.memcached().port().to_string();
    check(&PYMEMCACHE, "pymemcache_client.py", &[&port]);
    server.stop();
}

const PYLIBMC: Client = Client {
    package: "pylibmc==1.6.3",
    module: "pylibmc",
};

#[test]
fn pylibmc_works_without_a_shim() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_memcached(&dir.path().join("db"), FIELD);
    let port = server.memcached().port().to_string();
    check(&PYLIBMC, "pylibmc_client.py", &[&port]);
    server.stop();
}

#[test]
fn the_tools_of_libmemcached_work() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_memcached(&dir.path().join("db"), FIELD);
    let servers = format!("--servers={}", server.memcached());
    let tool = |name: &str, arguments: &[&str]| {
        let output = Command::new(name)
            .arg(&servers)
            .args(arguments)
            .current_dir(dir.path())
            .output()
            .unwrap_or_else(|error| {
                panic!("{name}: {error}; this test needs libmemcached-tools (a Debian package)")
            });
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text)
    };
    let text = "A file of two lines,\nthis one too.\n";
    std::fs::write(dir.path().join("note.txt"), text).unwrap();
    std::fs::write(dir.path().join("page.bin"), [0, 255, 13, 10]).unwrap();
    assert!(tool("memcping", &[]).0);
    assert!(tool("memccp", &["note.txt", "page.bin"]).0);
    let (found, printed) = tool("memccat", &["note.txt"]);
    assert!(found && printed.starts_with(text), "{printed}");
    assert!(tool("memcexist", &["note.txt"]).0 && !tool("memcexist", &["nothing"]).0);
    assert!(tool("memctouch", &["--expire=0", "note.txt"]).0);
    let (_, stats) = tool("memcstat", &[]);
    assert!(stats.contains("curr_items: 2"), "{stats}");
    assert!(tool("memcrm", &["note.txt"]).0 && !tool("memcexist", &["note.txt"]).0);
    server.stop();
}

/// Writes its own keys one after the other, some with a reply each, some pipelined, until the
/// server is gone; returns the last number of each of its 30 keys that was acknowledged, and the
/// last that was sent. What is acknowledged is added to `count`.
fn write_until_killed(
    stream: TcpStream,
    client: u64,
    first: u64,
    count: &AtomicU64,
) -> ([u64; 30], u64) {
    let mut reader = BufReader::new(stream);
    let (mut acknowledged, mut n) = ([0; 30], first);
    loop {
        let batch = n..n + 1 + n % 5;
        n = batch.end;
        let requests: String = batch
            .clone()
            .map(|n| {
                let (key, text) = (n % 30, n.to_string());
                format!("set {client}-{key} 0 0 {}\r\n{text}\r\n", text.len())
            })
            .collect();
        if reader.get_mut().write_all(requests.as_bytes()).is_err() {
            return (acknowledged, n - 1);
        }
        for n in batch {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(_) if line == "STORED\r\n" => {
                    acknowledged[n as usize % 30] = n;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(0) | Err(_) => return (acknowledged, n + 4),
                Ok(_) => assert!(!line.ends_with('\n'), "{line}"),
            }
        }
    }
}

#[test]
fn what_was_stored_survives_kill_9() {
    let mut random: Random = any_random();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let mut newest = [[0; 30]; 3];
    let mut next = 1;
    for round in 0..12 {
        let server = Server::start_memcached(&path, FIELD);
        let address = server.memcached();
        let count = &AtomicU64::new(0);
        // Every second one is killed at any moment from the first client on.
        let least = round % 2 * (200 + random.below(200));
        let done: Vec<_> = std::thread::scope(|threads| {
            let start = |client| {
                let stream = connect(address);
                threads.spawn(move || write_until_killed(stream, client, next, count))
            };
            let clients: Vec<_> = (0..3).map(start).collect();
            // Even on a slow machine something was stored before this moment.
            wait_until_at_least(least, count);
            std::thread::sleep(Duration::from_millis(random.below(150)));
            quire::signal(server.pid(), "KILL");
            clients
                .into_iter()
                .map(|client| client.join().unwrap())
                .collect()
        });
        drop(server);
        let count = count.load(Ordering::Relaxed);
        assert!(count >= least, "{count} of {least} values were stored");
        let database = Database::open(&path).unwrap();
        let docs = database
            .collection_or_create("docs", Default::default)
            .unwrap();
        for (client, (acknowledged, sent)) in done.iter().enumerate() {
            next = next.max(sent + 1);
            for key in 0..30 {
                let id = Key::parse(&format!("{client}-{key}")).unwrap();
                let found = docs.get(&id).unwrap();
                let n = match found.as_ref().and_then(|found| found.document.get("v")) {
                    Some(ValueRef::String(text)) => text.parse().unwrap(),
                    _ => 0,
                };
                let known = newest[client][key].max(acknowledged[key]);
                assert!(n >= known && n <= *sent, "{id}: {n}, acknowledged {known}");
                newest[client][key] = n;
            }
        }
        database.close().unwrap();
        quire::ok(&["verify", path.to_str().unwrap()]);
    }
    assert!(
        next > 300,
        "the servers were killed too soon to have done anything"
    );
}
