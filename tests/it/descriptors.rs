//! A server that may have few file descriptors: idle connections give theirs up.

use crate::quire::{self, Server, exchange};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Good clients are answered sooner, and idle ones are cut off later.
const PATIENCE: Duration = Duration::from_secs(30);

/// `quire serve` after `ulimit` with these arguments.
fn serve(ulimit: &str, dir: &Path) -> Server {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit $0 && exec \"$@\"", ulimit]);
    command
        .arg(quire::binary())
        .arg("serve")
        .arg(dir.join("db"));
    command.args(["--create", "--listen", "127.0.0.1:0", "--memory", "32MiB"]);
    command.args([
        "--memcached",
        "127.0.0.1:0",
        "--memcached-collection",
        "values",
    ]);
    Server::launch(command)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn put(stream: &mut TcpStream, path: &str) {
    let head = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\n");
    exchange(stream, &(head + "{\"n\":1}"), "\"result\":");
}

fn descriptors(server: &Server) -> usize {
    let path = format!("/proc/{}/fd", server.pid());
    std::fs::read_dir(path).unwrap().count()
}

#[test]
fn the_soft_limit_does_not_bound_the_connections() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve("-Sn 256", dir.path());
    let mut clients: Vec<TcpStream> = (0..400).map(|_| connect(server.address)).collect();
    for _ in 0..2 {
        for client in &mut clients {
            put(client, "/c/_doc/1");
        }
    }
    server.stop();
}

#[test]
fn beside_more_idle_clients_than_descriptors_good_ones_are_answered_and_files_opened() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve("-n 400", dir.path());
    let idle = [server.address, server.memcached()].map(|address| {
        let idle = (0..300).map(|_| connect(address));
        idle.collect::<Vec<_>>()
    });
    for n in 0..3 {
        put(&mut connect(server.address), &format!("/c{n}/_doc/1"));
        let set = format!("set k{n} 0 0 7\r\n{{\"n\":1}}\r\n");
        exchange(&mut connect(server.memcached()), &set, "STORED\r\n");
    }
    let (status, _) = server.request("POST", "/_flush", "");
    assert_eq!(status, 200);
    drop(idle);
    server.stop();
}

#[test]
fn an_idle_client_of_memcached_has_one_descriptor() {
    const CLIENTS: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    let server = serve("-Sn 4096", dir.path());
    exchange(&mut connect(server.memcached()), "mn\r\n", "MN\r\n");
    let before = descriptors(&server);
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(server.memcached())).collect();
    for client in &mut clients {
        exchange(client, "mn\r\n", "MN\r\n");
    }
    let taken = descriptors(&server).saturating_sub(before);
    assert!((CLIENTS - 1..CLIENTS + 20).contains(&taken), "{taken}");
    server.stop();
}
