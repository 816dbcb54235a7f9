//! split and merge: in a directory and on a server, with tails and loads over it, and interrupted.

use crate::serve::Server;
use crate::{Done, Quire};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{sleep, spawn};
use std::time::Duration;

/// One document a line.
fn documents(range: std::ops::Range<u32>) -> String {
    let text = "x".repeat(100);
    range
        .map(|id| format!("{{\"_id\":{id},\"text\":\"{text}\"}}\n"))
        .collect()
}

/// A database with a collection `c` of two partitions.
fn two_partitions(documents: &str) -> Quire {
    let quire = Quire::new();
    let load = [
        "load",
        "db",
        "c",
        "--partitions",
        "2",
        "--durability",
        "none",
    ];
    let done = quire.pipe(&load, documents);
    assert_eq!(done.code, 0, "{done:?}");
    quire
}

fn partitions(quire: &Quire, place: &str) -> u64 {
    let listed: Value = serde_json::from_str(&quire.ok(&["collections", place, "--json"])).unwrap();
    listed["settings"]["partitions"].as_u64().unwrap()
}

/// The key in a line of a tail.
fn key(line: &str) -> i64 {
    let line: Value = serde_json::from_str(line).unwrap();
    line["key"].as_i64().unwrap()
}

/// A command that an interrupt ends, which a shell lets those in its background ignore.
fn interruptible(quire: &Quire, arguments: &[&str]) -> Child {
    let quire_path = env!("CARGO_BIN_EXE_quire");
    Command::new("env")
        .args(["--default-signal=INT", quire_path])
        .args(arguments)
        .current_dir(quire.path("."))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn interrupted(child: Child) -> Done {
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &id]).status();
    assert!(sent.unwrap().success());
    Done::from(child.wait_with_output().unwrap())
}

#[test]
fn a_collection_of_a_directory_gets_more_partitions_and_fewer_and_keeps_its_documents() {
    let quire = two_partitions(&documents(0..2_000));
    let before = quire.ok(&["get", "db", "c", "7", "--json"]);
    let version = |json: &str| serde_json::from_str::<Value>(json).unwrap()["version"].clone();
    let said = quire.ok(&["split", "db", "c"]);
    assert!(
        said.starts_with("split c: 4 partitions, 2 before, in "),
        "{said}"
    );
    let done = quire.json(&["split", "db", "c", "--partitions", "12"]);
    assert_eq!(done["split"], "c");
    assert_eq!(done["partitions_before"], 4);
    assert_eq!(done["partitions"], 12);
    assert!(done["seconds"].is_f64());
    assert_eq!(partitions(&quire, "db"), 12);
    assert_eq!(quire.ok(&["count", "db", "c"]).trim(), "2000");
    let after = quire.ok(&["get", "db", "c", "7", "--json"]);
    assert_eq!(version(&after), version(&before));
    let said = quire.ok(&["merge", "db", "c"]);
    assert!(
        said.starts_with("merged c: 6 partitions, 12 before, in "),
        "{said}"
    );
    let done = quire.json(&["merge", "db", "c", "--partitions", "2"]);
    assert_eq!(done["merge"], "c");
    assert_eq!(
        (&done["partitions_before"], &done["partitions"]),
        (&6.into(), &2.into())
    );
    assert_eq!(partitions(&quire, "db"), 2);
    assert_eq!(quire.ok(&["count", "db", "c"]).trim(), "2000");
    let verified = quire.ok(&["verify", "db"]);
    assert!(
        verified.starts_with("no damage: 2,000 documents"),
        "{verified}"
    );
    assert_eq!(quire.ok(&["tail", "db", "c"]).lines().count(), 2_000);
    let found = ["query", "db", "c", "--where", "_id = 1999", "--count"];
    assert_eq!(quire.ok(&found).trim(), "1 match");
}

#[test]
fn a_wide_collection_gets_more_partitions_and_fewer_and_keeps_its_rows() {
    let quire = Quire::new();
    quire.file(
        "schema.json",
        r#"{"properties":{"text":{"type":"string","group":"texts"}},"additionalProperties":true}"#,
    );
    let create = [
        "create",
        "db",
        "w",
        "--wide",
        "--schema",
        "schema.json",
        "--partitions",
        "1",
    ];
    quire.ok(&create);
    let loaded = quire.pipe(&["load", "db", "w"], documents(0..500));
    assert_eq!(loaded.code, 0, "{loaded:?}");
    let before = quire.ok(&["get", "db", "w", "7", "--json"]);
    let done = quire.json(&["split", "db", "w", "--partitions", "3"]);
    assert_eq!(
        (&done["partitions_before"], &done["partitions"]),
        (&1.into(), &3.into())
    );
    assert_eq!(quire.ok(&["count", "db", "w"]).trim(), "500");
    let after = quire.ok(&["get", "db", "w", "7", "--json"]);
    let version = |json: &str| serde_json::from_str::<Value>(json).unwrap()["version"].clone();
    assert_eq!(version(&after), version(&before));
    let done = quire.json(&["merge", "db", "w", "--partitions", "1"]);
    assert_eq!(
        (&done["partitions_before"], &done["partitions"]),
        (&3.into(), &1.into())
    );
    let merged = quire.ok(&["get", "db", "w", "7", "--json"]);
    assert!(version(&merged).as_u64() > version(&before).as_u64());
    assert_eq!(quire.ok(&["count", "db", "w"]).trim(), "500");
    let verified = quire.ok(&["verify", "db"]);
    assert!(
        verified.starts_with("no damage: 500 documents"),
        "{verified}"
    );
}

#[test]
fn what_can_not_be_split_is_refused_in_words() {
    let quire = two_partitions(&documents(0..10));
    quire.file(
        "schema.json",
        r#"{"properties":{"n":{"type":"integer"}},"additionalProperties":false}"#,
    );
    let create = [
        "create",
        "db",
        "w",
        "--wide",
        "--schema",
        "schema.json",
        "--partitions",
        "2",
    ];
    quire.ok(&create);
    let cases: [(&[&str], i32, &[&str]); 4] = [
        (&["c", "--partitions", "3"], 2, &["2 partitions", "4, 6, 8"]),
        (&["c", "--partitions", "1"], 2, &["`quire merge`"]),
        (&["c", "--partitions", "2000"], 2, &["up to 1024"]),
        (&["none"], 1, &["no collection `none`"]),
    ];
    for (arguments, code, words) in cases {
        quire.fails(&[&["split", "db"], arguments].concat(), code, words);
    }
    let cases: [(&[&str], i32, &[&str]); 4] = [
        (
            &["c", "--partitions", "4"],
            2,
            &["2 partitions", "divides it: 1;", "quire split"],
        ),
        (&["c", "--partitions", "0"], 2, &["divides it"]),
        (&["w", "--partitions", "2"], 2, &["divides it: 1;"]),
        (&["none"], 1, &["no collection `none`"]),
    ];
    for (arguments, code, words) in cases {
        quire.fails(&[&["merge", "db"], arguments].concat(), code, words);
    }
    quire.fails(
        &["load", "db", "c", "--partitions", "4"],
        2,
        &["2 partitions, not 4", "quire split"],
    );
    let server = Server::start_of(&quire, "db", &[]);
    let url = format!("http://{}", server.address);
    let cases: [(&[&str], i32, &[&str]); 3] = [
        (&["c", "--partitions", "3"], 2, &["2 partitions", "4, 6, 8"]),
        (&["c", "--partitions", "4096"], 2, &["1024"]),
        (&["none"], 1, &["no collection `none`", "quire collections"]),
    ];
    for (arguments, code, words) in cases {
        quire.fails(&[&["split", &url], arguments].concat(), code, words);
    }
    let cases: [(&[&str], i32, &[&str]); 3] = [
        (
            &["c", "--partitions", "4"],
            2,
            &["2 partitions", "divides it: 1;"],
        ),
        (&["w", "--partitions", "2"], 2, &["divides it: 1;"]),
        (&["none"], 1, &["no collection `none`", "quire collections"]),
    ];
    for (arguments, code, words) in cases {
        quire.fails(&[&["merge", &url], arguments].concat(), code, words);
    }
    quire.fails(
        &["split", &url, "c", "--partitions", "1"],
        2,
        &["`quire merge`"],
    );
    assert_eq!(quire.ok(&["count", &url, "c"]).trim(), "10");
}

#[test]
fn a_tail_of_a_directory_goes_on_over_a_split_and_a_merge() {
    let quire = two_partitions(&documents(0..20));
    let mut tail = quire
        .command(&["tail", "db", "c", "--follow", "--limit", "40"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let mut next = |count: usize| -> BTreeSet<i64> {
        let lines = lines.by_ref().take(count);
        lines.map(|line| key(&line.unwrap())).collect()
    };
    assert_eq!(next(20), (0..20).collect());
    // The tail has the database open for a moment after each change.
    while quire.run(&["split", "db", "c", "--partitions", "6"]).code != 0 {}
    while quire.run(&["merge", "db", "c", "--partitions", "3"]).code != 0 {}
    quire.file("more.ndjson", documents(20..40));
    while quire.run(&["load", "db", "c", "more.ndjson"]).code != 0 {}
    assert_eq!(next(20), (20..40).collect());
    assert!(tail.wait().unwrap().success());
}

#[test]
fn a_server_splits_and_merges_while_it_is_written_and_followed() {
    let quire = two_partitions(&documents(0..2_000));
    let server = Server::start_of(&quire, "db", &[]);
    let url = format!("http://{}", server.address);
    let mut tail = quire
        .command(&["tail", &url, "c", "--follow"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    let (sender, changed) = mpsc::channel();
    let reader = spawn(move || {
        for line in lines {
            // Nobody waits once all have come.
            let _ = sender.send(key(&line.unwrap()));
        }
    });
    quire.file("more.ndjson", documents(2_000..2_300));
    let mut load = quire
        .command(&["load", &url, "c", "more.ndjson", "--batch-documents", "5"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let done = quire.json(&["split", &url, "c", "--partitions", "8"]);
    assert_eq!(done["partitions_before"], 2);
    assert_eq!(done["partitions"], 8);
    assert_eq!(partitions(&quire, &url), 8);
    let done = quire.json(&["merge", &url, "c"]);
    assert_eq!(
        (&done["partitions_before"], &done["partitions"]),
        (&8.into(), &4.into())
    );
    assert!(load.wait().unwrap().success());
    quire.file("last.ndjson", documents(2_300..2_600));
    quire.ok(&["load", &url, "c", "last.ndjson"]);
    assert_eq!(quire.ok(&["count", &url, "c"]).trim(), "2600");
    let mut missing: BTreeSet<i64> = (0..2_600).collect();
    while !missing.is_empty() {
        let key = changed.recv_timeout(Duration::from_secs(60));
        missing.remove(&key.unwrap_or_else(|_| panic!("{missing:?} did not come")));
    }
    tail.kill().unwrap();
    tail.wait().unwrap();
    reader.join().unwrap();

    // A tail that does not follow ends.
    let all = quire.ok(&["tail", &url, "c"]);
    let keys: BTreeSet<i64> = all.lines().map(key).collect();
    assert_eq!(keys, (0..2_600).collect());
    let said = quire.ok(&["split", &url, "c"]);
    assert!(
        said.starts_with("split c: 8 partitions, 4 before"),
        "{said}"
    );
}

#[test]
fn a_load_that_was_interrupted_is_resumed_after_a_split() {
    let quire = Quire::new();
    quire.ok(&["create", "db", "c", "--partitions", "2"]);
    let (first, bad) = (documents(0..500), "{\"_id\":1,}\n");
    quire.file("first.ndjson", &first);
    quire.file("second.ndjson", format!("{}{bad}", documents(500..600)));
    let load = [
        "load",
        "db",
        "c",
        "first.ndjson",
        "second.ndjson",
        "--resume",
        "state",
    ];
    quire.fails(&load, 1, &["second.ndjson:101: "]);
    quire.ok(&["split", "db", "c", "--partitions", "8"]);
    quire.file("second.ndjson", documents(500..1_000));
    let summary = quire.ok(&[&load[..], &["--json"]].concat());
    let summary: Value = serde_json::from_str(summary.lines().last().unwrap()).unwrap();
    assert!(summary["documents"].as_u64() <= Some(500), "{summary}");
    assert_eq!(quire.ok(&["count", "db", "c"]).trim(), "1000");
}

/// Interrupts splits, one after the other, until one had not come to its end before. Each begins
/// once `is_begun` says so.
fn interrupt_one(quire: &Quire, place: &str, is_begun: &dyn Fn() -> bool) {
    for _ in 0..8 {
        let before = partitions(quire, place);
        let mut split = interruptible(quire, &["split", place, "c"]);
        let mut is_over = false;
        while !is_over && !is_begun() {
            sleep(Duration::from_millis(1));
            is_over = split.try_wait().unwrap().is_some();
        }
        if is_over {
            continue;
        }
        let done = interrupted(split);
        if done.code == 0 {
            continue;
        }
        assert_eq!(done.code, 1, "{done:?}");
        assert!(done.stderr.contains("`c` is as it was"), "{done:?}");
        assert_eq!(partitions(quire, place), before);
        return;
    }
    panic!("no split of eight was interrupted");
}

#[test]
fn an_interrupt_ends_a_split_and_nothing_has_changed() {
    let quire = two_partitions(&documents(0..30_000));
    // The new partitions lie in a directory of their own, and so do the old ones until the end.
    let dirs = || {
        let names = std::fs::read_dir(quire.path("db")).unwrap();
        let names = names.map(|one| one.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("c0")).count()
    };
    interrupt_one(&quire, "db", &|| dirs() == 2);
    assert_eq!(dirs(), 1);

    let server = Server::start_of(&quire, "db", &[]);
    let url = format!("http://{}", server.address);
    let tasks = || quire.ok(&["tasks", &url]);
    interrupt_one(&quire, &url, &|| tasks().contains("quire:admin/partitions"));
    assert!(!tasks().contains("quire:admin/partitions"));
    assert_eq!(quire.ok(&["count", &url, "c"]).trim(), "30000");
    let before = partitions(&quire, &url);
    assert_eq!(server.stop("TERM").code, 0);
    assert_eq!(quire.json(&["split", "db", "c"])["partitions"], 2 * before);
}
