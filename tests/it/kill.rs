//! `kill -9` at random moments: a loading process is killed a hundred times over, and each time all
//! that it acknowledged is there.
//!
//! Input is a stream of documents that any number names: document n has a key and a content that
//! follow from n alone, and keys come again. So what a database holds says up to which n each
//! partition got; and as a partition is written in order, every key of it must then have the newest
//! content up to that n.

use crate::http::Connection;
use crate::quire::{self, Server};
use quiredb::{Collection, Database, Key, ValueRef};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A process that needs longer to write a few documents hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// How a database is loaded, until the kill.
struct Phase {
    kills: u32,
    /// The number of keys of the documents.
    keys: u64,
    /// The longest life of a loading process after its least number of documents.
    millis_max: u64,
    arguments: &'static [&'static str],
}

/// Many syncs of few documents; many documents a sync; flushes, since few keys fit in the memory.
const PHASES: [Phase; 4] = [
    Phase {
        kills: 30,
        keys: 100,
        millis_max: 120,
        arguments: &["--partitions", "2", "--batch-documents", "3"],
    },
    Phase {
        kills: 30,
        keys: 3_000,
        millis_max: 120,
        arguments: &["--partitions", "1", "--batch-documents", "50"],
    },
    Phase {
        kills: 30,
        keys: 1_000,
        millis_max: 200,
        arguments: &["--partitions", "3"],
    },
    Phase {
        kills: 20,
        keys: 40_000,
        millis_max: 400,
        arguments: &["--partitions", "2", "--memory", "16MiB"],
    },
];

/// A small generator of numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = mixed(self.0);
        self.0 % bound
    }
}

/// SplitMix64.
pub(crate) fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn key_of(n: u64, keys: u64) -> u64 {
    mixed(n) % keys
}

/// Document `n` as a line of the input.
fn line(n: u64, keys: u64) -> String {
    let text = crate::words::text(n, 20 + n as usize % 60);
    format!(
        "{{\"_id\":\"key-{}\",\"n\":{n},\"text\":\"{text}\"}}\n",
        key_of(n, keys)
    )
}

/// The seed of the moments: `QUIRE_TEST_SEED`, else a random one.
pub(crate) fn any_random() -> Random {
    let seed = std::env::var("QUIRE_TEST_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("QUIRE_TEST_SEED={seed}");
    Random(seed)
}

#[test]
fn what_was_acknowledged_survives_kill_9_at_any_moment() {
    let mut random = any_random();
    let (mut kills, mut acknowledged, mut documents) = (0, 0, 0);
    for phase in PHASES {
        let dir = tempfile::tempdir().unwrap();
        let mut sent = 0;
        let mut history = History {
            keys: phase.keys,
            newest: BTreeMap::new(),
            written: 0,
        };
        for _ in 0..phase.kills {
            // Every second one is killed at any moment from its start on.
            let least = kills % 2 * (20 + random.below(20));
            let millis = random.below(phase.millis_max);
            let run = load_and_kill(dir.path(), &phase, sent, (least, millis));
            history.check(dir.path(), sent, &run);
            sent = run.sent;
            kills += 1;
            acknowledged += run.acknowledged;
            if random.below(6) == 0 && dir.path().join("db").exists() {
                flush(dir.path(), random.below(2) == 0);
            }
        }
        documents += history.written;
    }
    println!("{kills} kills; {acknowledged} documents acknowledged, {documents} found after them");
    assert!(kills >= 100);
    assert!(
        acknowledged > 1_000,
        "the processes were killed too soon to have done anything"
    );
}

/// The result of a killed process.
struct Run {
    /// The number of documents that it acknowledged, from the first on.
    acknowledged: u64,
    /// One past the last document that it may have been given.
    sent: u64,
}

/// Waits until the count is at least this, for as long as one may wait.
pub(crate) fn wait_until_at_least(least: u64, count: &AtomicU64) {
    let begun = Instant::now();
    while count.load(Ordering::Relaxed) < least && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Loads documents from `first` on, and kills the process `millis` milliseconds after at least
/// `least` documents were acknowledged, however slow the machine is.
fn load_and_kill(dir: &Path, phase: &Phase, first: u64, (least, millis): (u64, u64)) -> Run {
    let database = dir.join("db");
    let arguments = [
        "load",
        database.to_str().unwrap(),
        "docs",
        "-",
        "--json",
        "--durability",
        "sync",
    ];
    let mut child = quire::command(&arguments)
        .args(phase.arguments)
        .stdin(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let keys = phase.keys;
    let feeder = std::thread::spawn(move || {
        let mut n = first;
        loop {
            let mut lines = String::new();
            for _ in 0..1 + mixed(n) % 200 {
                lines.push_str(&line(n, keys));
                n += 1;
            }
            // A killed process takes no more.
            if stdin.write_all(lines.as_bytes()).is_err() {
                return n;
            }
        }
    });
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let acknowledged = AtomicU64::new(0);
    let listen = || {
        for line in stdout.lines() {
            // The last line may be cut short.
            if let Ok(told) = serde_json::from_str::<Value>(&line.unwrap()) {
                acknowledged.store(told["acknowledged"].as_u64().unwrap(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(listen);
        wait_until_at_least(least, &acknowledged);
        std::thread::sleep(Duration::from_millis(millis));
        kill(&mut child);
    });
    let acknowledged = acknowledged.into_inner();
    assert!(
        acknowledged >= least,
        "{acknowledged} of {least} documents were written"
    );
    Run {
        acknowledged,
        sent: feeder.join().unwrap(),
    }
}

fn kill(child: &mut Child) {
    child.kill().unwrap(); // SIGKILL
    assert_eq!(
        child.wait().unwrap().code(),
        None,
        "the process ended by itself"
    );
}

/// The contents of the database after the last crash.
struct History {
    keys: u64,
    /// By key: the number of its newest document.
    newest: BTreeMap<Key, u64>,
    /// Documents found so far, replaced ones included.
    written: u64,
}

impl History {
    /// Verifies the database, opens it, and compares its contents with the last run.
    fn check(&mut self, dir: &Path, first: u64, run: &Run) {
        let path = dir.join("db");
        if !path.join("CATALOG").exists() {
            assert_eq!(run.acknowledged, 0, "the database is gone");
            return;
        }
        let verified = quire::run(&["verify", path.to_str().unwrap(), "--json"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
        let database = Database::open(&path).unwrap();
        let collection = match database.collection("docs") {
            Ok(collection) => collection,
            Err(error) => {
                assert_eq!(run.acknowledged, 0, "{error}");
                return;
            }
        };
        let found = contents(&collection);
        assert_eq!(collection.count().unwrap(), found.len() as u64);
        // The last document of each partition.
        let mut last_of = vec![None; collection.settings().partitions as usize];
        for (key, n) in &found {
            if *n >= first {
                let partition = collection.partition_of(key) as usize;
                last_of[partition] = last_of[partition].max(Some(*n));
            }
        }
        for n in first..run.sent {
            let key = Key::parse(&format!("key-{}", key_of(n, self.keys))).unwrap();
            let is_written = Some(n) <= last_of[collection.partition_of(&key) as usize];
            assert!(
                is_written || n >= first + run.acknowledged,
                "document {n} was acknowledged, and is gone: {key}"
            );
            if is_written {
                self.newest.insert(key, n);
                self.written += 1;
            }
        }
        assert!(found == self.newest, "{}", difference(&found, &self.newest));
        database.close().unwrap();
    }
}

/// The number of each document in the collection; each has the content of its number.
fn contents(collection: &Collection) -> BTreeMap<Key, u64> {
    let mut contents = BTreeMap::new();
    for found in collection.scan(..).unwrap() {
        let found = found.unwrap();
        let field = |name| found.document.get(name).unwrap();
        let ValueRef::Int(n) = field("n") else {
            panic!("{found:?}")
        };
        let n = n as u64;
        assert_eq!(field("_id"), ValueRef::String(&found.key.to_string()));
        let text = crate::words::text(n, 20 + n as usize % 60);
        assert_eq!(field("text"), ValueRef::String(&text), "document {n}");
        contents.insert(found.key, n);
    }
    contents
}

fn difference(found: &BTreeMap<Key, u64>, expected: &BTreeMap<Key, u64>) -> String {
    let keys = found.keys().chain(expected.keys());
    let wrong: Vec<_> = keys
        .filter(|key| found.get(*key) != expected.get(*key))
        .take(5)
        .collect();
    let said = wrong.iter().map(|key| {
        format!(
            "{key}: {:?}, expected {:?}",
            found.get(*key),
            expected.get(*key)
        )
    });
    said.collect::<Vec<_>>().join("; ")
}

/// Makes the database flush its memtables, so that later recoveries start from files.
fn flush(dir: &Path, compact: bool) {
    let database = Database::open(dir.join("db")).unwrap();
    if let Ok(collection) = database.collection("docs") {
        match compact {
            true => collection.compact().unwrap(),
            false => collection.flush().unwrap(),
        }
    }
    database.close().unwrap();
}

/// A client of a server: its keys are its own, and it writes one document after the other.
struct Client {
    name: u64,
    /// By key: the newest document that was acknowledged.
    acknowledged: BTreeMap<u64, u64>,
    /// The document sent last, which may have been written.
    sent: u64,
}

impl Client {
    /// Writes until the server is gone, and counts what is acknowledged. Every third request is a
    /// bulk of one.
    fn write_until_killed(&mut self, mut connection: Connection, count: &AtomicU64) {
        loop {
            self.sent += 1;
            let (n, key) = (self.sent, self.sent % 30);
            let document = format!("{{\"n\":{n}}}");
            let id = format!("{}-{key}", self.name);
            let answer = if n.is_multiple_of(3) {
                let body = format!("{{\"index\":{{\"_id\":\"{id}\"}}}}\n{document}\n");
                connection.request("POST", "/docs/_bulk", body.as_bytes())
            } else {
                connection.request("PUT", &format!("/docs/_doc/{id}"), document.as_bytes())
            };
            let Ok((status, body)) = answer else { return };
            let body = String::from_utf8(body).unwrap();
            assert!(
                status < 300 && !body.contains("error\":"),
                "{status} {body}"
            );
            self.acknowledged.insert(key, n);
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Each key has its last acknowledged document, or the one being sent.
    fn check(&mut self, docs: &Collection) {
        for (key, acknowledged) in &mut self.acknowledged {
            let id = Key::parse(&format!("{}-{key}", self.name)).unwrap();
            let found = docs.get(&id).unwrap();
            let n = found.as_ref().and_then(|found| found.document.get("n"));
            let in_flight = (self.sent % 30 == *key).then_some(self.sent);
            let is_right = |wanted: u64| n == Some(ValueRef::Int(wanted as i64));
            if in_flight.is_some_and(is_right) {
                *acknowledged = self.sent;
            }
            assert!(
                is_right(*acknowledged),
                "{id}: {found:?}, acknowledged: {acknowledged}"
            );
        }
    }
}

#[test]
fn what_a_server_acknowledged_survives_kill_9_at_any_moment() {
    let mut random = any_random();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let client = |name| Client {
        name,
        acknowledged: BTreeMap::new(),
        sent: 0,
    };
    let mut clients: Vec<_> = (0..3).map(client).collect();
    for _ in 0..15 {
        let server = Server::start(&path, &[]);
        let count = AtomicU64::new(0);
        let least = random.below(60);
        std::thread::scope(|threads| {
            for client in &mut clients {
                let connection = server.connect();
                threads.spawn(|| client.write_until_killed(connection, &count));
            }
            // Even on a slow machine something was done before this moment.
            wait_until_at_least(least, &count);
            std::thread::sleep(Duration::from_millis(random.below(50)));
            quire::signal(server.pid(), "KILL");
        });
        let count = count.into_inner();
        assert!(count >= least, "{count} of {least} documents were written");
        drop(server);
        let database = Database::open(&path).unwrap();
        let docs = database
            .collection_or_create("docs", Default::default)
            .unwrap();
        for client in &mut clients {
            client.check(&docs);
        }
        database.close().unwrap();
        quire::ok(&["verify", path.to_str().unwrap()]);
    }
    let sent: u64 = clients.iter().map(|client| client.sent).sum();
    println!("15 kills, {sent} documents sent");
}
