//! The memory bound under all kinds of clients at once: idle ones, ones that read nothing, and
//! active ones with documents up to the largest.
//!
//! The server runs in a memory cgroup, where the test may make one: the system kills a server that
//! takes more. What it had resident, but for pages of files, is compared with the bound in any
//! case. A writer has a document of its own: at the end it must be whole, and as new as was
//! acknowledged.

use crate::cgroup::Cgroup;
use crate::quire::{self, Server};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of text in the documents that a writer writes, by turns. The largest document is 16 MiB.
const TEXT_BYTES: [usize; 4] = [(16 << 20) - 200, 2_000, 4 << 20, 400_000];

/// Clients of each kind, and the times that each does what it does.
const CLIENTS: usize = 8;
const ROUNDS: usize = 2;

/// Clients that connect and send nothing, of each port. With the others they are fewer than the
/// connections that a port takes.
const IDLE: usize = 1_100;
const CONNECTIONS: &str = "1500";

/// What a server may have resident beside `--memory`, and for each connection.
const BESIDE_BYTES: u64 = 64 << 20;
const CONNECTION_BYTES: u64 = 16 << 10;

/// What a container needs beyond that bound, as `docs/OPERATING.md` says: for sockets, page tables
/// and pages of files.
const CONTAINER_BYTES: u64 = 64 << 20;

/// A request is sent again while there is no memory for it. All of them take some minutes on a busy
/// machine: one that is not served within this never is.
const PATIENCE: Duration = Duration::from_secs(1_200);

/// A scroll's page of large documents needs nearly all memory at once, which other scrolls have by
/// turns: its clients give up sooner.
const SCROLL_PATIENCE: Duration = Duration::from_secs(10);

/// Text that compresses hardly: letters in no order.
fn noise(bytes: usize) -> String {
    let mut random = 0x2545_F491_4F6C_DD1D_u64;
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let next = |_| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        letters[(random >> 32) as usize % letters.len()] as char
    };
    (0..bytes).map(next).collect()
}

/// Makes the documents.
struct Documents(String);

impl Documents {
    fn new() -> Documents {
        Documents(noise(TEXT_BYTES[0] + 10_000))
    }

    /// A version of a client's document: before, within and behind its text.
    fn parts(&self, client: usize, version: usize) -> [&[u8]; 3] {
        let bytes = TEXT_BYTES[(client + version) % TEXT_BYTES.len()];
        let from = (client * 7_919 + version * 104_729) % 10_000;
        let text = &self.0.as_bytes()[from..from + bytes];
        [b"{\"text\":\"", text, b"\""]
    }

    fn json(&self, client: usize, version: usize) -> Vec<u8> {
        let numbers = format!(",\"client\":{client},\"version\":{version}}}");
        [&self.parts(client, version).concat(), numbers.as_bytes()].concat()
    }
}

/// A document of values that are all different: numbers, strings, fields, or arrays in arrays.
fn different(client: usize, version: usize) -> String {
    let first = (client * ROUNDS + version) * 1_000_000 + 1_000_000;
    let listed = |count: usize, item: &dyn Fn(usize) -> String| {
        let items: Vec<String> = (first..first + count).map(item).collect();
        items.join(",")
    };
    match (client + version) % 4 {
        0 => format!("{{\"values\":[{}]}}", listed(500_000, &|n| n.to_string())),
        1 => format!(
            "{{\"values\":[{}]}}",
            listed(350_000, &|n| format!("\"{n}\""))
        ),
        2 => {
            let field = |n: usize| {
                let n = n - first;
                format!("\"f{n:0300}\":[{n},{},{}]", n + first, n + 2 * first)
            };
            format!("{{{}}}", listed(10_000, &field))
        }
        _ => {
            let nested = |n: usize| format!("{}{n}{}", "[".repeat(60), "]".repeat(60));
            format!("{{\"nested\":[{}]}}", listed(30_000, &nested))
        }
    }
}

/// What a server answered: the status, and the beginning.
struct Answered {
    status: u16,
    head: String,
}

/// One request, over a connection of its own.
fn request(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> io::Result<Answered> {
    let mut stream = send(address, method, path, body)?;
    let (mut head, mut buffer, mut bytes) = (Vec::new(), vec![0; 64 << 10], 0);
    loop {
        let read = match stream.read(&mut buffer) {
            Ok(read) => read,
            Err(_) if bytes > 0 => 0,
            Err(error) => return Err(error),
        };
        if read == 0 {
            break;
        }
        bytes += read as u64;
        head.extend_from_slice(&buffer[..read.min(4096_usize.saturating_sub(head.len()))]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(Answered { status, head })
}

/// Sends a request, and reads nothing.
fn send(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    // A server that refuses a request closes before it has read all.
    let _ = stream.write_all(body);
    Ok(stream)
}

/// How many answers there were, by kind of client and status.
type Answers = BTreeMap<(&'static str, u16), usize>;

/// What all clients share.
struct Clients<'a> {
    http: SocketAddr,
    memcached: SocketAddr,
    documents: &'a Documents,
    /// By key: client, and the newest version that was acknowledged.
    acknowledged: Mutex<BTreeMap<String, (usize, usize)>>,
    /// By kind and status: the number of answers.
    answers: Mutex<Answers>,
}

impl Clients<'_> {
    fn note(&self, kind: &'static str, status: u16) {
        *self
            .answers
            .lock()
            .unwrap()
            .entry((kind, status))
            .or_default() += 1;
    }

    /// Sends a request until it is not refused for want of memory, nor for a body that came too
    /// slowly, as it may on a busy machine; 0 if there was no answer.
    fn exchange(&self, kind: &'static str, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        let begun = Instant::now();
        let patience = match kind {
            "scroll" => SCROLL_PATIENCE,
            _ => PATIENCE,
        };
        loop {
            let answer = request(self.http, method, path, body);
            let is_gone = matches!(&answer, Err(e) if e.kind() == io::ErrorKind::ConnectionRefused);
            let (status, head) = answer.map_or((0, String::new()), |a| (a.status, a.head));
            self.note(kind, status);
            let is_over = is_gone || begun.elapsed() > patience;
            if ![0, 408, 429, 503].contains(&status) || is_over {
                return (status, head);
            }
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn acknowledge(&self, key: String, client: usize, version: usize) {
        let mut acknowledged = self.acknowledged.lock().unwrap();
        acknowledged.insert(key, (client, version));
    }

    fn put(&self, client: usize, version: usize) {
        let key = format!("put-{client}");
        let document = self.documents.json(client, version);
        let path = format!("/docs/_doc/{key}");
        if let (200 | 201, _) = self.exchange("put", "PUT", &path, &document) {
            self.acknowledge(key, client, version);
        }
    }

    fn update(&self, client: usize, version: usize) {
        let key = format!("update-{client}");
        let document = self.documents.json(client, version);
        let body = [b"{\"doc_as_upsert\":true,\"doc\":", &document[..], b"}"].concat();
        let path = format!("/docs/_update/{key}");
        if let (200 | 201, _) = self.exchange("update", "POST", &path, &body) {
            self.acknowledge(key, client, version);
        }
    }

    fn bulk(&self, client: usize, version: usize) {
        let key = format!("bulk-{client}");
        let document = self.documents.json(client, version);
        let action = format!("{{\"index\":{{\"_id\":\"{key}\"}}}}\n");
        let body = [action.as_bytes(), &document[..], b"\n"].concat();
        let (status, head) = self.exchange("bulk", "POST", "/docs/_bulk", &body);
        if status == 200 && head.contains("\"errors\":false") {
            self.acknowledge(key, client, version);
        }
    }

    /// A document of numbers of one digit, whose encoding is three times its text: the larger one
    /// can't have its memory in 32 MiB.
    fn numbers(&self, client: usize, version: usize) {
        let (count, status): (usize, &[u16]) = match (client + version).is_multiple_of(2) {
            true => (TEXT_BYTES[0] / 2, &[200, 201, 413]),
            false => (TEXT_BYTES[2] / 2, &[200, 201]),
        };
        let numbers = ",7".repeat(count);
        let document = format!("{{\"numbers\":[1{numbers}]}}");
        let path = format!("/docs/_doc/numbers-{client}");
        let answer = self.exchange("numbers", "PUT", &path, document.as_bytes());
        assert!(status.contains(&answer.0), "{answer:?}");
    }

    /// A document of 4 MiB of values that are all different, by each way to write it in turns.
    fn different(&self, client: usize, version: usize) {
        let document = different(client, version);
        let id = format!("different-{client}");
        let (method, path, body) = match (client + version) % 3 {
            0 => ("PUT", format!("/docs/_doc/{id}"), document),
            1 => {
                let body = format!("{{\"doc_as_upsert\":true,\"doc\":{document}}}");
                ("POST", format!("/docs/_update/{id}"), body)
            }
            _ => {
                let body = format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{document}\n");
                ("POST", "/docs/_bulk".to_string(), body)
            }
        };
        self.exchange("different", method, &path, body.as_bytes());
    }

    fn get(&self, client: usize) {
        self.exchange("get", "GET", &format!("/docs/_doc/put-{client}"), b"");
    }

    fn multi_get(&self, client: usize) {
        let body = format!("{{\"ids\":[\"put-{client}\",\"bulk-0\",\"bulk-1\",\"update-2\"]}}");
        self.exchange("mget", "POST", "/docs/_mget", body.as_bytes());
    }

    /// As many hits and as large groups as a search may have.
    fn search(&self) {
        let body = "{\"size\":10000,\"sort\":[\"version\"],\"aggs\":{\"texts\":{\"terms\":\
                    {\"field\":\"client\",\"size\":10000}}}}";
        self.exchange("search", "POST", "/docs/_search", body.as_bytes());
    }

    /// Aggregations of very many different values, with as many buckets as an answer may have.
    fn aggregate(&self, client: usize, version: usize) {
        let of_values = |kind: &str, more: &str| {
            format!("{{\"size\":0,\"aggs\":{{\"a\":{{\"{kind}\":{{{more}}}}}}}}}")
        };
        let field = "\"field\":\"values\"";
        let body = match (client + version) % 6 {
            0 => of_values("terms", &format!("{field},\"size\":65535")),
            1 => of_values(
                "cardinality",
                &format!("{field},\"precision_threshold\":40000"),
            ),
            2 => {
                let sources = format!("\"sources\":[{{\"v\":{{\"terms\":{{{field}}}}}}}]");
                of_values("composite", &format!("{sources},\"size\":65535"))
            }
            3 => of_values("histogram", &format!("{field},\"interval\":10")),
            4 => of_values("rare_terms", field),
            _ => of_values("percentiles", field),
        };
        let begun = Instant::now();
        let search = || self.exchange("aggregate", "POST", "/docs/_search", body.as_bytes());
        // The first document makes the collection.
        while search().0 == 404 && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(500));
        }
    }

    fn scroll(&self) {
        let path = "/docs/_search?scroll=1m";
        let (_, head) = self.exchange("scroll", "POST", path, b"{\"size\":3}");
        let id = head.split("\"_scroll_id\":\"").nth(1);
        let Some(id) = id.and_then(|rest| rest.split('"').next()) else {
            return;
        };
        let body = format!("{{\"scroll\":\"1m\",\"scroll_id\":\"{id}\"}}");
        for _ in 0..2 {
            self.exchange("scroll", "POST", "/_search/scroll", body.as_bytes());
        }
        let body = format!("{{\"scroll_id\":\"{id}\"}}");
        self.exchange("scroll", "DELETE", "/_search/scroll", body.as_bytes());
    }

    fn changes(&self) {
        self.exchange("changes", "GET", "/docs/_changes?limit=100000", b"");
    }

    /// Sets a value over memcached, and gets it.
    fn set_and_get(&self, client: usize, version: usize) -> io::Result<()> {
        let value = self.documents.parts(client, version)[1];
        let mut stream = TcpStream::connect(self.memcached)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let set = format!("set set-{client} 0 0 {}\r\n", value.len());
        stream.write_all(&[set.as_bytes(), value].concat())?;
        stream.write_all(format!("\r\nget set-{client}\r\nquit\r\n").as_bytes())?;
        io::copy(&mut stream, &mut io::sink())?;
        Ok(())
    }

    /// Clients of memcached that request large values and read nothing.
    fn stalled_memcached(&self) -> Vec<TcpStream> {
        let stalled = (0..CLIENTS).map(|client| {
            let mut stream = TcpStream::connect(self.memcached)?;
            let get = format!("get set-{client}\r\n").repeat(20);
            stream.write_all(get.as_bytes())?;
            Ok::<_, io::Error>(stream)
        });
        stalled.flatten().collect()
    }

    /// Clients that send a request and read nothing of its answer.
    fn stalled(&self) -> Vec<TcpStream> {
        let all = b"{\"ids\":[\"put-0\",\"put-1\",\"put-2\",\"put-3\"]}";
        let of_client = |client: usize| {
            let get = format!("/docs/_doc/put-{client}");
            [
                send(self.http, "GET", &get, b""),
                send(self.http, "POST", "/docs/_mget", all),
                send(self.http, "POST", "/docs/_search", b"{\"size\":8}"),
                send(
                    self.http,
                    "POST",
                    "/docs/_search?scroll=1m",
                    b"{\"size\":8}",
                ),
                send(self.http, "GET", "/docs/_changes", b""),
            ]
        };
        (0..CLIENTS).flat_map(of_client).flatten().collect()
    }

    /// A client of small documents: each is answered, and reads at once.
    fn small(&self, is_over: &AtomicBool) -> (usize, Duration) {
        let (mut count, mut slowest) = (0, Duration::ZERO);
        while !is_over.load(Ordering::Relaxed) || count < 10 {
            let path = format!("/docs/_doc/small-{}", count % 50);
            let body = format!("{{\"small\":{count}}}");
            let (status, head) = self.exchange("small put", "PUT", &path, body.as_bytes());
            assert!([200, 201].contains(&status), "{status} {head}");
            let begun = Instant::now();
            let (status, head) = self.exchange("small get", "GET", &path, b"");
            slowest = slowest.max(begun.elapsed());
            assert_eq!(status, 200, "{head}");
            assert!(head.contains(&body), "{head}");
            count += 1;
        }
        (count, slowest)
    }
}

/// A number of `/proc/…/status`, in bytes.
fn status_bytes(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Sets a flag when it is dropped, also by a panic: threads that wait for it end then.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a client does, by the numbers of the client and of the round.
type Act = fn(&Clients<'_>, usize, usize);

/// Clients of each kind, but for those below.
const ALL: &[Act] = &[
    |all, client, version| all.put(client, version),
    |all, client, version| all.update(client, version),
    |all, client, version| all.bulk(client, version),
    |all, client, version| all.numbers(client, version),
    |all, client, version| drop(all.set_and_get(client, version)),
    |all, client, _| all.get(client),
    |all, client, _| all.multi_get(client),
    |all, _, _| all.search(),
    |all, _, _| all.scroll(),
    |all, _, _| all.changes(),
];

/// Those that write very many different values, and those that aggregate them. Each document takes
/// seconds, so they are without the others.
const DIFFERENT: &[Act] = &[
    |all, client, version| all.different(client, version),
    |all, client, version| all.aggregate(client, version),
];

/// Runs clients against a server with this memory, in a cgroup as large as a container must be.
/// `is_fair`: a small client is answered beside them, within its patience, and what was
/// acknowledged is there. Gives how many answers there were, by kind and status.
fn holds(memory_mib: u64, acts: &[Act], is_fair: bool) -> Answers {
    quire::use_all_descriptors();
    let dir = tempfile::tempdir_in(quire::target_dir()).unwrap();
    let connections = 2 * IDLE as u64 + 16 * CLIENTS as u64;
    let bound = (memory_mib << 20) + BESIDE_BYTES + CONNECTION_BYTES * connections;
    let limit = bound + CONTAINER_BYTES;
    let kind = if is_fair { "all" } else { "different" };
    let cgroup = Cgroup::new(&format!("{memory_mib}-{kind}"), limit);
    let mut command = match &cgroup {
        Some(cgroup) => cgroup.command(quire::binary()),
        None => {
            println!("without a cgroup: this machine lets the test make none");
            Command::new(quire::binary())
        }
    };
    command
        .arg("serve")
        .arg(dir.path().join("db"))
        .arg("--create");
    command.args(["--listen", "127.0.0.1:0", "--memcached", "127.0.0.1:0"]);
    command.args(["--memcached-collection", "values", "--memcached-field", "v"]);
    command.args(["--memory", &format!("{memory_mib}MiB")]);
    command.args(["--connections", CONNECTIONS]);
    let mut server = Server::launch(command);
    let pid = server.pid();
    let documents = Documents::new();
    let clients = Clients {
        http: server.address,
        memcached: server.memcached(),
        documents: &documents,
        acknowledged: Mutex::default(),
        answers: Mutex::default(),
    };
    let connect = |address| (0..IDLE).filter_map(move |_| TcpStream::connect(address).ok());
    let idle: Vec<TcpStream> = connect(clients.http)
        .chain(connect(clients.memcached))
        .collect();
    assert_eq!(idle.len(), 2 * IDLE);
    println!("idle: {} MiB", status_bytes(pid, "RssAnon:") >> 20);
    let (is_over, peak, begun) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    thread::scope(|threads| {
        let all = &clients;
        let is_over = &is_over;
        let peak = &peak;
        let end = SetOnDrop(is_over);
        threads.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                peak.fetch_max(status_bytes(pid, "RssAnon:"), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        });
        let small = is_fair.then(|| threads.spawn(move || all.small(is_over)));
        let mut active = Vec::new();
        for client in 0..CLIENTS {
            let mut repeat = |act: Box<dyn Fn(usize) + Send>| {
                active.push(threads.spawn(move || (1..=ROUNDS).for_each(act)));
            };
            for act in acts {
                repeat(Box::new(move |version| act(all, client, version)));
            }
        }
        let stalled = (all.stalled(), all.stalled_memcached());
        for one in active {
            one.join().unwrap();
        }
        drop((stalled, end));
        if let Some(small) = small {
            let (count, slowest) = small.join().unwrap();
            println!("{count} small puts and gets; the slowest get took {slowest:?}");
        }
    });
    assert!(server.is_running(), "the system killed the server");
    let peak = peak.into_inner();
    println!(
        "--memory {memory_mib}MiB in {} MiB, {:?}: at most {} MiB anonymous of {}, {} MiB \
         resident; answers: {:?}",
        limit >> 20,
        begun.elapsed(),
        peak >> 20,
        bound >> 20,
        server.peak_memory_bytes() >> 20,
        clients.answers.lock().unwrap()
    );
    drop(idle);
    if is_fair {
        check_documents(&server, &clients);
    }
    assert!(peak <= bound, "{peak} bytes of {bound}");
    server.stop();
    clients.answers.into_inner().unwrap()
}

/// Every acknowledged document is there and whole: of the version acknowledged, or a later one.
fn check_documents(server: &Server, clients: &Clients<'_>) {
    let acknowledged = clients.acknowledged.lock().unwrap();
    assert!(acknowledged.len() > 2 * CLIENTS, "{}", acknowledged.len());
    let mut connection = server.connect();
    for (key, (client, version)) in acknowledged.iter() {
        let path = format!("/docs/_source/{key}");
        let (status, body) = connection.request("GET", &path, b"").unwrap();
        assert_eq!(status, 200, "{key}");
        let versions = *version..=ROUNDS;
        let mut written = versions.map(|version| clients.documents.json(*client, version));
        assert!(written.any(|document| document == body), "{key} {version}");
    }
}

#[test]
fn a_server_of_32_mib_keeps_its_bound_under_all_clients_at_once() {
    holds(32, ALL, true);
}

#[test]
fn a_server_of_128_mib_keeps_its_bound_under_all_clients_at_once() {
    holds(128, ALL, true);
}

#[test]
fn a_server_of_32_mib_keeps_its_bound_under_writers_of_different_values() {
    let answers = holds(32, DIFFERENT, false);
    let written = |status| answers.contains_key(&("different", status));
    assert!(
        written(200) || written(201),
        "none was written: {answers:?}"
    );
    // The values may take more memory than a search has: that is an answer too.
    let counted = |status| answers.contains_key(&("aggregate", status));
    assert!(
        counted(200) || counted(413),
        "none was answered: {answers:?}"
    );
}
