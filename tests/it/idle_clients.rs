//! What idle clients cost the server.

use crate::quire::Server;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CLIENTS: usize = 1_000;
const VALUE_BYTES: usize = 60_000;

/// `--memory`, what the process takes beside it, and 16 KiB for each client.
const RESIDENT_BYTES_MAX: u64 = (32 << 20) + (64 << 20) + ((CLIENTS as u64) << 14);

/// The resident memory of a process, in bytes.
fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    kib << 10
}

/// Threads of a process that serve a client of memcached.
fn client_threads(pid: u32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.trim() == "memcached").count()
}

fn exchange(client: &mut TcpStream, request: &[u8], answer_bytes: usize) -> Vec<u8> {
    client.write_all(request).unwrap();
    let mut answer = vec![0; answer_bytes];
    client.read_exact(&mut answer).unwrap();
    answer
}

#[test]
fn a_thousand_idle_clients_of_memcached_take_kilobytes_each() {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--memcached-collection", "docs", "--memcached-field", "v"];
    let arguments = [&options[..], &["--memory", "32MiB"]].concat();
    let server = Server::start_memcached(&dir.path().join("db"), &arguments);
    let value = "x".repeat(VALUE_BYTES);
    let mut clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|number| {
            let mut client = TcpStream::connect(server.memcached()).unwrap();
            let set = format!("set k{} 0 0 {VALUE_BYTES}\r\n{value}\r\n", number % 50);
            assert_eq!(exchange(&mut client, set.as_bytes(), 8), b"STORED\r\n");
            let head = format!("VALUE k{} 0 {VALUE_BYTES}\r\n", number % 50);
            let get = format!("get k{}\r\n", number % 50);
            let found = exchange(&mut client, get.as_bytes(), head.len() + VALUE_BYTES + 7);
            assert!(found.starts_with(head.as_bytes()) && found.ends_with(b"END\r\n"));
            client
        })
        .collect();
    let begun = Instant::now();
    while client_threads(server.pid()) > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "idle clients keep threads"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let resident = resident_bytes(server.pid());
    println!(
        "{} MiB resident with {CLIENTS} idle clients",
        resident >> 20
    );
    assert!(resident <= RESIDENT_BYTES_MAX, "{resident} bytes resident");
    for client in &mut clients {
        assert_eq!(exchange(client, b"mn\r\n", 4), b"MN\r\n");
    }
    drop(clients);
    server.stop();
}

#[test]
fn clients_of_memcached_that_are_not_admitted_take_kilobytes_each() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "a-token-of-more-than-22-characters").unwrap();
    let arguments = ["--token-file", file.to_str().unwrap(), "--memory", "32MiB"];
    let server = Server::start_memcached(&dir.path().join("db"), &arguments);
    // The data of an authentication that does not end, and of one that is too long.
    let sent = [
        format!("set auth 0 0 2000\r\n{}", "x".repeat(1_900)),
        format!("set auth 0 0 1000000\r\n{}", "x".repeat(50_000)),
    ];
    let clients: Vec<TcpStream> = (0..CLIENTS)
        .map(|number| {
            let mut client = TcpStream::connect(server.memcached()).unwrap();
            // One that is refused is closed.
            let _ = client.write_all(sent[number % 2].as_bytes());
            client
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let resident = resident_bytes(server.pid());
    println!("{} MiB resident with {CLIENTS} strangers", resident >> 20);
    assert!(resident <= RESIDENT_BYTES_MAX, "{resident} bytes resident");
    drop(clients);
    server.stop();
}
