//! Hostile clients in a memory cgroup: the system kills a server that takes more than its limit.

use crate::http::Connection;
use crate::quire::{self, Server};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Of the largest documents that are taken: 16 MiB.
const DOCUMENT_BYTES: usize = 15 << 20;

/// Documents, clients of each kind, and requests of each client.
const DOCUMENTS: usize = 4;
const ROUNDS: usize = 2;

/// Clients that connect and send nothing, of each port.
const IDLE: usize = 300;

/// How long clients stall that read nothing of their answers.
const STALL: Duration = Duration::from_secs(10);

/// A memory cgroup below that of the test. Removed when dropped, after all in it have ended.
struct Cgroup(PathBuf);

impl Cgroup {
    /// A cgroup with a limit; `None` if the machine does not let the test make one.
    fn new(name: &str, bytes: u64) -> Option<Cgroup> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let name = format!("quire-test-{}-{name}", std::process::id());
        let first = own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let is_memory = controllers
                .split(',')
                .any(|controller| controller == "memory");
            is_memory.then(|| Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/')))
        });
        let second = own.lines().find_map(|line| line.strip_prefix("0::/"));
        let second = second.map(|path| Path::new("/sys/fs/cgroup").join(path));
        let limits = [(first, "memory.limit_in_bytes"), (second, "memory.max")];
        limits.into_iter().find_map(|(parent, limit)| {
            let dir = parent?.join(&name);
            fs::create_dir(&dir).ok()?;
            let cgroup = Cgroup(dir);
            // A file that does not exist is not made: the system refuses.
            fs::write(cgroup.0.join(limit), bytes.to_string()).ok()?;
            Some(cgroup)
        })
    }

    /// A command that runs in it.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        let script = "echo $$ > \"$0\" && exec \"$@\"";
        let processes = self.0.join("cgroup.procs");
        command.args(["-c", script]).arg(processes).arg(program);
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..500 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// One request; what it is answered does not matter.
fn send(address: SocketAddr, method: &str, path: &str, body: &[u8]) {
    if let Ok(mut connection) = Connection::open(address) {
        drop(connection.request(method, path, body));
    }
}

/// A client that sends a request and reads nothing of the answer.
fn send_and_stall(address: SocketAddr, head: &str, body: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    let head = format!("{head} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
    Some(stream)
}

/// Sets a large value over memcached and gets it; what it is answered does not matter.
fn set_and_get(address: SocketAddr, key: usize, value: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let set = format!(
        "set k{key} 0 0 {}\r\n{value}\r\nget k{key}\r\n",
        value.len()
    );
    stream.write_all(set.as_bytes())?;
    stream.write_all(b"quit\r\n")?;
    std::io::copy(&mut stream.take(64 << 20), &mut std::io::sink())?;
    Ok(())
}

/// Runs all hostile clients against a server with this memory, in a cgroup with this limit.
fn survives(memory: &str, limit_mib: u64) {
    let Some(cgroup) = Cgroup::new(memory, limit_mib << 20) else {
        println!("skipped: this machine lets the test make no memory cgroup");
        return;
    };
    let dir = tempfile::tempdir_in(quire::target_dir()).unwrap();
    let mut command = cgroup.command(quire::binary());
    command.arg("serve").arg(dir.path().join("db")).args([
        "--create",
        "--listen",
        "127.0.0.1:0",
        "--memcached",
        "127.0.0.1:0",
        "--memcached-collection",
        "values",
        "--memcached-field",
        "v",
        "--memory",
        memory,
    ]);
    let mut server = Server::launch(command);
    let (http, memcached) = (server.address, server.memcached());
    let value = "x1y2z3".repeat(DOCUMENT_BYTES / 6);
    let document = format!("{{\"v\":\"{value}\"}}");
    for number in 0..DOCUMENTS {
        let path = format!("/docs/_doc/{number}");
        assert_eq!(server.request("PUT", &path, &document).0, 201);
    }
    let connect = |address| (0..IDLE).filter_map(move |_| TcpStream::connect(address).ok());
    let idle: Vec<TcpStream> = connect(http).chain(connect(memcached)).collect();
    let all = b"{\"ids\":[0,1,2,3,0,1,2,3]}";
    let stalled: Vec<TcpStream> = (0..DOCUMENTS)
        .flat_map(|number| {
            let get = format!("GET /docs/_doc/{number}");
            [
                send_and_stall(http, &get, b""),
                send_and_stall(http, "POST /docs/_mget", all),
                send_and_stall(http, "POST /docs/_search", b"{\"size\":4}"),
            ]
        })
        .flatten()
        .collect();
    thread::scope(|threads| {
        // The server would cut them off itself, later: what they hold is what others wait for.
        threads.spawn(move || {
            thread::sleep(STALL);
            drop(stalled);
        });
        for number in 0..DOCUMENTS {
            let (document, value) = (&document, &value);
            let path = format!("/docs/_doc/{number}");
            let update = format!("/docs/_update/{number}");
            let bulk = format!("{{\"index\":{{\"_id\":\"{number}\"}}}}\n{document}\n");
            let repeat = |request: Box<dyn Fn() + Send>| {
                threads.spawn(move || (0..ROUNDS).for_each(|_| request()));
            };
            let to = path.clone();
            repeat(Box::new(move || send(http, "GET", &to, b"")));
            repeat(Box::new(move || send(http, "POST", "/docs/_mget", all)));
            repeat(Box::new(move || {
                send(http, "POST", &update, b"{\"doc\":{\"n\":1}}")
            }));
            repeat(Box::new(move || send(http, "GET", "/docs/_changes", b"")));
            repeat(Box::new(move || {
                send(http, "POST", "/docs/_search", b"{\"size\":4}")
            }));
            threads.spawn(move || send(http, "PUT", &path, document.as_bytes()));
            threads.spawn(move || send(http, "POST", "/docs/_bulk", bulk.as_bytes()));
            threads.spawn(move || drop(set_and_get(memcached, number, value)));
        }
    });
    assert!(server.is_running(), "the system killed the server");
    let peak = server.peak_memory_bytes();
    println!(
        "{memory} in {limit_mib} MiB: at most {} MiB resident",
        peak >> 20
    );
    drop(idle);
    let (status, counted) = server.request("GET", "/docs/_count", "");
    assert_eq!(
        (status, counted["count"].as_u64()),
        (200, Some(4)),
        "{counted}"
    );
    server.stop();
}

#[test]
fn hostile_clients_do_not_get_a_server_of_32_mib_killed() {
    survives("32MiB", 384);
}

#[test]
fn hostile_clients_do_not_get_a_server_of_64_mib_killed() {
    survives("64MiB", 416);
}
