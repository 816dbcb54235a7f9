//! A server under load through HTTP is backed up: each snapshot shows one moment, and holds
//! everything that was acknowledged before it.

use crate::quire::{Server, ok};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const WRITERS: u64 = 3;
const BATCH: u64 = 200;
/// On a slow machine there is as much to restore and to verify as on a fast one.
const DOCUMENTS_MAX: u64 = 8_000;

/// The documents `from..to` of writer `writer`, in order: each batch counts up, so the documents
/// show how far the writer was.
fn bulk(writer: u64, from: u64, to: u64) -> String {
    let filler = "some text to make it longer ".repeat(8);
    (from..to)
        .map(|number| {
            format!(
                "{{\"index\":{{\"_id\":\"{writer}-{number}\"}}}}\n{{\"writer\":{writer},\
                 \"number\":{number},\"text\":\"{filler}\"}}\n"
            )
        })
        .collect()
}

/// The number of documents of each writer in a database. They must be the first ones, except for a
/// part of the batch that was being written.
fn counts(database: &str) -> BTreeMap<u64, u64> {
    let mut numbers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for line in ok(&["scan", database, "c"]).lines() {
        let document: Value = serde_json::from_str(line).unwrap();
        let writer = document["writer"].as_u64().unwrap();
        let number = document["number"].as_u64().unwrap();
        numbers.entry(writer).or_default().push(number);
    }
    let count = |(writer, mut numbers): (u64, Vec<u64>)| {
        numbers.sort_unstable();
        // The batch under way may be there in some partitions and not in others.
        let whole = numbers.len() as u64 / BATCH * BATCH;
        let gap = numbers.iter().zip(0..).find(|(number, at)| *number != at);
        let first_gap = gap.map_or(numbers.len() as u64, |(_, at)| at);
        assert!(
            first_gap >= whole,
            "writer {writer}: {first_gap} of {}",
            numbers.len()
        );
        (writer, first_gap)
    };
    numbers.into_iter().map(count).collect()
}

#[test]
fn a_server_under_load_is_backed_up_and_restored() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let server = Server::start(&dir.path().join("db"), &["--backup-dir", &path("backups")]);
    let settings = r#"{"settings":{"number_of_shards":3}}"#;
    assert_eq!(server.request("PUT", "/c", settings).0, 200);
    let url = format!("http://{}", server.address);
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let mut before = Vec::new();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (stop, server) = (&stop, &server);
            let acknowledged = &acknowledged[writer as usize];
            scope.spawn(move || {
                let mut connection = server.connect();
                let mut from = 0;
                while !stop.load(Ordering::Relaxed) && from < DOCUMENTS_MAX {
                    let body = bulk(writer, from, from + BATCH);
                    let (status, answer) = connection.json("POST", "/c/_bulk", body.as_bytes());
                    assert_eq!((status, &answer["errors"]), (200, &Value::Bool(false)));
                    from += BATCH;
                    acknowledged.store(from, Ordering::Release);
                }
            });
        }
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..3 {
                std::thread::sleep(std::time::Duration::from_millis(300));
                let load = || {
                    acknowledged
                        .iter()
                        .map(|count| count.load(Ordering::Acquire))
                };
                before.push(load().collect::<Vec<_>>());
                ok(&["backup", &url, "live", "--rate", "100MB/s"]);
            }
        }));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = made {
            std::panic::resume_unwind(panic);
        }
    });
    server.stop();
    let backup = path("backups/live");
    let mut last = vec![0; WRITERS as usize];
    for (at, before) in before.iter().enumerate() {
        let copy = path(&format!("copy{at}"));
        ok(&[
            "restore",
            &backup,
            &copy,
            "--snapshot",
            &(at + 1).to_string(),
        ]);
        ok(&["verify", &copy]);
        let found = counts(&copy);
        for writer in 0..WRITERS {
            let count = found.get(&writer).copied().unwrap_or(0);
            let index = writer as usize;
            assert!(
                count >= before[index],
                "snapshot {at}, writer {writer}: {count}, {before:?}"
            );
            assert!(count >= last[index] && count <= acknowledged[index].load(Ordering::Acquire));
            last[index] = count;
        }
    }
    assert!(last.iter().all(|count| *count > 0), "{last:?}");
}
