//! A million documents of about 1 KB: loaded over HTTP within 512 MiB of memory, and served by key
//! all the while.

use crate::http::Connection;
use crate::{quire, words};
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const MEMORY_BYTES_MAX: u64 = 512 << 20;
const BATCH: u64 = 500;
const LOADERS: usize = 2;

/// The number of documents: a million, or `QUIRE_TEST_DOCUMENTS`.
fn count() -> u64 {
    let count = std::env::var("QUIRE_TEST_DOCUMENTS").ok();
    let count = count.map_or(1_000_000, |count| count.parse().unwrap());
    assert_eq!(
        count % (BATCH * 2),
        0,
        "QUIRE_TEST_DOCUMENTS is a multiple of {}",
        BATCH * 2
    );
    count
}

/// The key of document `n`. Neighbours in time are far apart in key order.
fn key(n: u64) -> String {
    format!("job-{:08x}", (n as u32).wrapping_mul(0x9E37_79B1))
}

/// Document `n`: a job advert of about 1 KB.
fn document(n: u64) -> String {
    format!(
        "{{\"title\":\"{}\",\"company\":{{\"name\":\"{}\",\"size\":{}}},\"salary\":[{},{}],\
         \"remote\":{},\"posted\":\"2026-{:02}-{:02}\",\"text\":\"{}\"}}",
        words::text(n ^ 0xA, 4),
        words::text(n % 5_000, 2),
        n % 10_000,
        30_000 + n % 40_000,
        80_000 + n % 60_000,
        n.is_multiple_of(3),
        n % 12 + 1,
        n % 28 + 1,
        words::text(n, 142),
    )
}

#[test]
fn a_million_documents_load_within_512_mib_and_are_served_meanwhile() {
    // On a disk: a temporary directory may be in memory.
    let dir = tempfile::tempdir_in(quire::target_dir()).unwrap();
    let (binary, count) = (quire::fast_binary(), count());
    let server = quire::Server::start_binary(&binary, &dir.path().join("db"), &[]);
    let bytes: usize = (0..1_000).map(|n| document(n).len()).sum();
    println!(
        "{count} documents of {} bytes on average, by {}",
        bytes / 1_000,
        binary.display()
    );

    let begun = Instant::now();
    let next = AtomicU64::new(0);
    let acknowledged = Mutex::new(Vec::new());
    let loaded = AtomicBool::new(false);
    let mut latencies = thread::scope(|threads| {
        let reader = threads.spawn(|| read_meanwhile(server.connect(), &acknowledged, &loaded));
        let loaders: Vec<_> = (0..LOADERS)
            .map(|_| threads.spawn(|| load(server.connect(), &next, count, &acknowledged)))
            .collect();
        for loader in loaders {
            loader.join().unwrap();
        }
        loaded.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let peak = server.peak_memory_bytes();
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    println!(
        "loaded in {seconds:.0} s ({:.0} a second); {} gets meanwhile: median {:?}, 99 % {:?}, \
         worst {:?}; at most {} MiB resident",
        count as f64 / seconds,
        latencies.len(),
        at(0.5),
        at(0.99),
        at(1.0),
        peak >> 20
    );
    assert!(
        latencies.len() > 1_000,
        "only {} gets while loading",
        latencies.len()
    );

    let mut connection = server.connect();
    let (status, counted) = connection.json("GET", "/jobs/_count", b"");
    assert_eq!((status, counted["count"].as_u64()), (200, Some(count)));
    for at in 0..2_000 {
        check(&mut connection, at * (count / 2_000));
    }
    let peak = peak.max(server.peak_memory_bytes());
    assert!(peak < MEMORY_BYTES_MAX, "{} MiB resident", peak >> 20);
    server.stop();
    let verified = Command::new(&binary)
        .args(["verify", "--json"])
        .arg(dir.path().join("db"))
        .output()
        .unwrap();
    assert!(verified.status.success(), "{verified:?}");
    let report: Value = serde_json::from_slice(&verified.stdout).unwrap();
    assert_eq!(report["documents"], count, "{report}");
}

/// Sends all batches, one after another.
fn load(mut connection: Connection, next: &AtomicU64, count: u64, acknowledged: &Mutex<Vec<u64>>) {
    loop {
        let first = next.fetch_add(BATCH, Ordering::Relaxed);
        if first >= count {
            return;
        }
        let mut body = String::new();
        for n in first..first + BATCH {
            body.push_str(&format!(
                "{{\"index\":{{\"_id\":\"{}\"}}}}\n{}\n",
                key(n),
                document(n)
            ));
        }
        let path = "/jobs/_bulk?filter_path=errors";
        let (status, answer) = connection.json("POST", path, body.as_bytes());
        assert_eq!(
            (status, answer["errors"].as_bool()),
            (200, Some(false)),
            "{answer}"
        );
        acknowledged.lock().unwrap().push(first);
    }
}

/// Gets random acknowledged documents until all are loaded. Returns the times of the gets.
fn read_meanwhile(
    mut connection: Connection,
    acknowledged: &Mutex<Vec<u64>>,
    loaded: &AtomicBool,
) -> Vec<Duration> {
    let mut latencies = Vec::new();
    let mut random = 1_u64;
    while !loaded.load(Ordering::Relaxed) {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let batch = {
            let acknowledged = acknowledged.lock().unwrap();
            match acknowledged.len() as u64 {
                0 => None,
                batches => Some(acknowledged[((random >> 33) % batches) as usize]),
            }
        };
        match batch {
            Some(first) => latencies.push(check(&mut connection, first + (random >> 20) % BATCH)),
            None => thread::sleep(Duration::from_millis(5)),
        }
    }
    latencies
}

/// Gets a document and compares it. Returns the time of the get.
fn check(connection: &mut Connection, n: u64) -> Duration {
    let path = format!("/jobs/_doc/{}", key(n));
    let begun = Instant::now();
    let (status, body) = connection.request("GET", &path, b"").unwrap();
    let took = begun.elapsed();
    let text = String::from_utf8(body).unwrap();
    assert_eq!(status, 200, "document {n} was acknowledged: {text}");
    // Byte for byte as it was written.
    assert!(text.contains(&document(n)), "document {n}: {text}");
    took
}

#[test]
fn a_load_by_the_command_stays_within_512_mib() {
    let (dir, binary, count) = (
        tempfile::tempdir().unwrap(),
        quire::fast_binary(),
        count() / 4,
    );
    let mut child = Command::new(&binary)
        .arg("load")
        .arg(dir.path().join("db"))
        .args(["jobs", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feeder = thread::spawn(move || {
        for first in (0..count).step_by(BATCH as usize) {
            let mut lines = String::new();
            for n in first..first + BATCH {
                lines.push_str(&format!("{{\"_id\":\"{}\",{}\n", key(n), &document(n)[1..]));
            }
            stdin.write_all(lines.as_bytes()).unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(output.status.success());
    let stdout = String::from_utf8(output.stdout).unwrap();
    let summary: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    println!("{summary}");
    assert_eq!(summary["documents"], count);
    let peak = summary["peak_memory_bytes"].as_u64().unwrap();
    assert!(peak < MEMORY_BYTES_MAX, "{} MiB resident", peak >> 20);
}
