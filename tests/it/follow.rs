//! Followers as users run them: the follower is killed, the leader is killed, and the connection
//! corrupts data.

mod proxy;

use crate::kill::{Random, any_random};
use crate::quire::{self, Server, binary};
use proxy::Proxy;
use quiredb::Database;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A step that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// A leader that always serves the same address, so that it can be killed and come back.
struct Leader {
    database: PathBuf,
    address: SocketAddr,
    server: Option<Server>,
}

impl Leader {
    fn start(database: &Path) -> Leader {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut leader = Leader {
            database: database.to_path_buf(),
            address: free.local_addr().unwrap(),
            server: None,
        };
        drop(free);
        leader.restart();
        leader
    }

    fn restart(&mut self) {
        let address = self.address.to_string();
        let mut command = Command::new(binary());
        command
            .arg("serve")
            .arg(&self.database)
            .args(["--create", "--listen", &address]);
        self.server = Some(Server::launch(command));
    }

    fn kill(&mut self) {
        self.server = None;
    }

    fn stop(&mut self) {
        self.server.take().unwrap().stop();
    }

    #[track_caller]
    fn ok(&self, method: &str, path: &str, body: &str) -> Value {
        let (status, answer) = self.server.as_ref().unwrap().request(method, path, body);
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }
}

fn follow_command(dir: &Path, from: SocketAddr, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command
        .arg("follow")
        .arg(dir)
        .args([
            "--from",
            &format!("http://{from}"),
            "--listen",
            "127.0.0.1:0",
        ])
        .args(arguments);
    command
}

pub(crate) fn follow(dir: &Path, from: SocketAddr) -> Server {
    Server::launch(follow_command(dir, from, &[]))
}

/// The status of the follower.
fn following(follower: &Server) -> Value {
    follower.request("GET", "/_quire/stats", "").1["following"].take()
}

/// Waits until the follower has everything that the leader had at this call.
pub(crate) fn wait_until_level(follower: &Server) {
    let begun = Instant::now();
    loop {
        let state = following(follower);
        // A status from before this call does not count.
        let behind = state["seconds_behind"].as_f64().unwrap_or(f64::MAX);
        if state["state"] == "following" && behind < begun.elapsed().as_secs_f64() {
            return;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "the follower does not catch up: {state}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

type Contents = BTreeMap<String, Vec<(String, u64, String)>>;

/// All documents of a closed database, with their versions.
fn contents(path: &Path) -> Contents {
    let database = Database::open(path).unwrap();
    let mut contents = Contents::new();
    for name in database.collections() {
        let found = database.collection(&name).unwrap().scan(..).unwrap();
        let documents = found.map(|found| {
            let found = found.unwrap();
            (
                found.key.to_string(),
                found.version.0,
                found.document.to_json(),
            )
        });
        contents.insert(name, documents.collect());
    }
    database.close().unwrap();
    contents
}

/// The copy in a follower's directory.
pub(crate) fn copy_in(dir: &Path) -> PathBuf {
    let mut copies: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("CATALOG").exists())
        .collect();
    assert_eq!(copies.len(), 1, "{copies:?}");
    copies.remove(0)
}

/// Some of every kind of request to a leader; the requests that end with the leader are no failure.
fn write_some(leader: &Leader, random: &mut Random, written: &mut u64) {
    let Some(server) = &leader.server else { return };
    let mut connection = server.connect();
    for _ in 0..20 + random.below(60) {
        *written += 1;
        let (n, key) = (*written, random.below(300));
        let request: (&str, String, String) = match random.below(12) {
            0 => ("DELETE", format!("/songs/_doc/{key}"), String::new()),
            1 => (
                "POST",
                format!("/songs/_update/{key}"),
                json!({"doc": {"patched": n}, "doc_as_upsert": true}).to_string(),
            ),
            2 => (
                "PUT",
                format!("/new-{}/_doc/{key}", n % 3),
                json!({"n": n}).to_string(),
            ),
            3 if n % 3 == 0 => ("DELETE", format!("/new-{}", n % 2), String::new()),
            _ => {
                let line = |m: u64| {
                    let key = (key + m * 7) % 300;
                    let text = crate::words::text(n + m, 40);
                    format!(
                        "{}\n{}\n",
                        json!({"index": {"_id": key}}),
                        json!({"n": n, "text": text})
                    )
                };
                (
                    "POST",
                    "/songs/_bulk".into(),
                    (0..random.below(30) + 1).map(line).collect(),
                )
            }
        };
        let (method, path, body) = request;
        if connection.request(method, &path, body.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn a_follower_equals_its_leader_however_often_either_is_killed() {
    let mut random = any_random();
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("leader"), dir.path().join("follower"));
    let mut leader = Leader::start(&path);
    let mut written = 0;
    write_some(&leader, &mut random, &mut written);
    let mut follower = Some(follow(&copy, leader.address));
    for _ in 0..12 {
        let what = random.below(4);
        let moment = Duration::from_millis(random.below(150));
        std::thread::scope(|threads| {
            let pid = leader.server.as_ref().unwrap().pid();
            if what == 0 {
                threads.spawn(move || {
                    std::thread::sleep(moment);
                    quire::signal(pid, "KILL");
                });
            }
            if what == 1 {
                let victim = follower.take();
                threads.spawn(move || {
                    std::thread::sleep(moment);
                    // Killed.
                    drop(victim);
                });
            }
            write_some(&leader, &mut random, &mut written);
        });
        if what == 0 {
            leader.kill();
            leader.restart();
        }
        if what == 2 {
            leader.ok("POST", "/_forcemerge", "");
        }
        if follower.is_none() {
            // It also gets what is written meanwhile.
            write_some(&leader, &mut random, &mut written);
            follower = Some(follow(&copy, leader.address));
        }
    }
    let follower = follower.unwrap();
    wait_until_level(&follower);
    follower.stop();
    leader.stop();
    quire::ok(&["verify", copy_in(&copy).to_str().unwrap()]);
    let (found, expected) = (contents(&copy_in(&copy)), contents(&path));
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    assert!(found == expected, "documents differ");
    println!("{written} requests, {} collections", expected.len());
}

#[test]
fn a_follower_behind_a_compaction_starts_over_says_so_and_serves_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("leader"), dir.path().join("follower"));
    let mut leader = Leader::start(&path);
    leader.ok("PUT", "/songs/_doc/old", r#"{"n":1}"#);
    let follower = follow(&copy, leader.address);
    wait_until_level(&follower);
    follower.stop();
    for n in 0..20 {
        leader.ok("PUT", "/songs/_doc/a", &json!({"n": n}).to_string());
        leader.ok("PUT", &format!("/songs/_doc/b{n}"), "{}");
    }
    leader.ok("DELETE", "/songs/_doc/old", "");
    leader.ok("POST", "/_forcemerge", "");

    let mut command = follow_command(&copy, leader.address, &[]);
    command.stderr(std::fs::File::create(dir.path().join("said")).unwrap());
    let follower = Server::launch(command);
    wait_until_level(&follower);
    let state = following(&follower);
    let why = state["started_over"].as_str().unwrap();
    assert!(why.contains("no longer has"), "{state}");
    let (_, metrics) = follower.connect().request("GET", "/metrics", b"").unwrap();
    let metrics = String::from_utf8(metrics).unwrap();
    assert!(
        metrics.contains("quire_follow_copies_total 1\n"),
        "{metrics}"
    );
    assert_eq!(
        follower.request("GET", "/songs/_doc/a", "").1["_source"]["n"],
        19
    );
    assert_eq!(follower.request("GET", "/songs/_doc/old", "").0, 404);
    follower.stop();
    leader.stop();
    let said = std::fs::read_to_string(dir.path().join("said")).unwrap();
    assert!(said.contains("starting over from a new copy"), "{said}");
    assert_eq!(contents(&copy_in(&copy)), contents(&path));
}

#[test]
fn a_follower_that_differs_from_its_leader_refuses_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("leader"), dir.path().join("follower"));
    let backup = dir.path().join("backup");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut leader = Leader::start(&path);
    leader.ok("PUT", "/songs/_doc/1", r#"{"n":1}"#);
    leader.stop();
    quire::ok(&["backup", &text(&path), &text(&backup)]);
    leader.restart();
    leader.ok("PUT", "/songs/_doc/2", r#"{"n":2}"#);
    let follower = follow(&copy, leader.address);
    wait_until_level(&follower);
    follower.stop();
    leader.stop();
    let before = contents(&copy_in(&copy));

    // The leader is restored from the backup, and continues differently.
    leader.database = dir.path().join("restored");
    quire::ok(&["restore", &text(&backup), &text(&leader.database)]);
    leader.restart();
    for n in 0..50 {
        leader.ok("PUT", &format!("/songs/_doc/{n}"), r#"{"n":3}"#);
    }
    let output = follow_command(&copy, leader.address, &["--quiet"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    for words in [
        "no copy of its leader",
        "another record",
        "nothing was changed",
        "follow anew",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
    assert_eq!(contents(&copy_in(&copy)), before);
    leader.stop();
}

#[test]
fn a_follower_has_the_rows_of_a_wide_collection_and_its_new_columns() {
    let dir = tempfile::tempdir().unwrap();
    let leader = Leader::start(&dir.path().join("leader"));
    let schema = r#"{"quire":{"wide":{"properties":{"title":{"type":"string"},
        "html":{"type":"string","group":"content"}}}}}"#;
    leader.ok("PUT", "/pages", schema);
    leader.ok("PUT", "/pages/_doc/1", r#"{"title":"A","html":"one"}"#);
    let command = follow_command(&dir.path().join("follower"), leader.address, &[]);
    let follower = Server::launch(command);
    wait_until_level(&follower);
    leader.ok("POST", "/pages/_flush", "");
    leader.ok(
        "POST",
        "/pages/_schema",
        r#"{"add":{"size":{"type":"integer"}}}"#,
    );
    leader.ok(
        "PUT",
        "/pages/_doc/2",
        r#"{"title":"B","html":"two","size":3}"#,
    );
    leader.ok("POST", "/pages/_cell/1/title", r#"{"append":"BC"}"#);
    wait_until_level(&follower);
    for id in ["1", "2"] {
        let path = format!("/pages/_doc/{id}");
        let (status, row) = follower.request("GET", &path, "");
        assert_eq!(status, 200, "{row}");
        assert_eq!(row, leader.ok("GET", &path, ""));
    }
}

#[test]
fn a_follower_refuses_writes_and_names_its_leader() {
    let dir = tempfile::tempdir().unwrap();
    let leader = Leader::start(&dir.path().join("leader"));
    leader.ok("PUT", "/songs/_doc/1", r#"{"n":1}"#);
    let arguments = ["--memcached", "127.0.0.1:0"];
    let command = follow_command(&dir.path().join("follower"), leader.address, &arguments);
    let follower = Server::launch(command);
    wait_until_level(&follower);
    let name = format!("http://{}", leader.address);
    for (method, path, body) in [
        ("PUT", "/songs/_doc/1", "{}"),
        ("POST", "/songs/_doc", "{}"),
        ("DELETE", "/songs/_doc/1", ""),
        ("PUT", "/songs/_create/9", "{}"),
        ("POST", "/songs/_update/1", r#"{"doc":{}}"#),
        (
            "POST",
            "/_bulk",
            "{\"delete\":{\"_index\":\"songs\",\"_id\":\"1\"}}\n",
        ),
        ("POST", "/songs/_bulk", "{\"index\":{}}\n{}\n"),
        ("PUT", "/songs/_cell/1/n", "1"),
        ("POST", "/songs/_schema", "{}"),
        ("POST", "/songs/_tier", ""),
        ("PUT", "/other", ""),
        ("DELETE", "/songs", ""),
        ("PUT", "/songs/_settings", r#"{"quire.codec":"none"}"#),
    ] {
        let (status, answer) = follower.request(method, path, body);
        assert_eq!(status, 403, "{method} {path}: {answer}");
        let reason = answer["error"]["reason"].as_str().unwrap();
        assert!(reason.contains(&name), "{reason}");
    }
    let mut memcached = TcpStream::connect(follower.memcached()).unwrap();
    let commands = b"set songs:2 0 0 2\r\n{}\r\ndelete songs:1\r\nget songs:1\r\n";
    memcached.write_all(commands).unwrap();
    let mut lines = BufReader::new(memcached).lines().map(|line| line.unwrap());
    for _ in 0..2 {
        let line = lines.next().unwrap();
        assert!(
            line.starts_with("SERVER_ERROR") && line.contains(&name),
            "{line}"
        );
    }
    let got: Vec<_> = lines.take(3).collect();
    assert_eq!(got, ["VALUE songs:1 0 7", r#"{"n":1}"#, "END"]);
    assert_eq!(follower.request("GET", "/_count", "").1["count"], 1);
    // It does what serves others and changes nothing.
    assert_eq!(follower.request("POST", "/_refresh", "").0, 200);
}

#[test]
fn what_comes_garbled_or_cut_is_never_used() {
    let mut random = any_random();
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("leader"), dir.path().join("follower"));
    let mut leader = Leader::start(&path);
    let mut written = 0;
    for _ in 0..10 {
        write_some(&leader, &mut random, &mut written);
    }
    let proxy = Proxy::start(leader.address, random.below(u64::MAX));
    let follower = follow(&copy, proxy.address());
    let begun = Instant::now();
    while proxy.spoilt() < 25 && begun.elapsed() < PATIENCE {
        write_some(&leader, &mut random, &mut written);
    }
    proxy.be_honest();
    wait_until_level(&follower);
    let peak = follower.peak_memory_bytes();
    assert!(peak < 400 << 20, "{peak} bytes");
    follower.stop();
    leader.stop();
    assert!(
        contents(&copy_in(&copy)) == contents(&path),
        "documents differ"
    );
    println!(
        "{} answers spoilt, {written} requests, peak {peak}",
        proxy.spoilt()
    );
}

#[test]
fn nonsense_from_a_leader_does_not_end_a_follower() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut follower = follow(&dir.path().join("follower"), address);
    let answers: [&[u8]; 7] = [
        b"",
        b"nonsense",
        b"HTTP/1.0 200 OK\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n{",
        b"HTTP/1.0 200 OK\r\n\r\n\xff\xfe",
        b"HTTP/1.0 200 OK\r\n\r\nquire-snapshot 1 00000000\n{}",
        b"HTTP/1.0 500 Internal Server Error\r\n\r\n",
    ];
    for answer in answers {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 64];
        let _ = stream.read(&mut request).unwrap();
        assert!(request.starts_with(b"POST /_follow/copy/"));
        stream.write_all(answer).unwrap();
    }
    // It still sends requests. A leader that refuses for good ends it.
    let (mut stream, _) = listener.accept().unwrap();
    stream
        .write_all(b"HTTP/1.0 401 Unauthorized\r\n\r\n")
        .unwrap();
    drop(stream);
    let begun = Instant::now();
    while follower.is_running() {
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_directory_that_was_copied_opens_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("db"), dir.path().join("copy"));
    let mut leader = Leader::start(&path);
    let (mut random, mut written) = (any_random(), 0);
    for _ in 0..5 {
        write_some(&leader, &mut random, &mut written);
    }
    leader.stop();
    let status = Command::new("cp")
        .arg("-a")
        .args([&path, &copy])
        .status()
        .unwrap();
    assert!(status.success());
    quire::ok(&["verify", copy.to_str().unwrap()]);
    assert_eq!(contents(&copy), contents(&path));
    // And it continues where the other was.
    leader.database = copy;
    leader.restart();
    leader.ok("PUT", "/songs/_doc/more", "{}");
    leader.stop();
}
