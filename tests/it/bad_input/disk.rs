//! A disk that accepts no writes: read-only or full. Both tests need to mount, and so run as root
//! only.

use super::{assert_says, copy, files};
use crate::quire::{self, Server};
use quiredb::{Database, Key};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Something mounted, until dropped.
struct Mount {
    dir: TempDir,
}

impl Mount {
    /// `None`, with a message, if it can't be done.
    fn new(arguments: &[&str]) -> Option<Mount> {
        let mount = Mount {
            dir: tempfile::tempdir().unwrap(),
        };
        let output = Command::new("mount")
            .args(arguments)
            .arg(mount.path())
            .output();
        match output {
            Ok(output) if output.status.success() => Some(mount),
            failed => {
                println!("skipped: this needs to mount {arguments:?}: {failed:?}");
                None
            }
        }
    }

    /// An empty file system of `mib` MiB.
    fn small(mebibytes: u32) -> Option<Mount> {
        Mount::new(&["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"])
    }

    /// A directory mounted again, read-only.
    fn read_only(of: &Path) -> Option<Mount> {
        let mount = Mount::new(&["--bind", of.to_str().unwrap()])?;
        mount.remount("ro").then_some(mount)
    }

    fn remount(&self, option: &str) -> bool {
        let option = format!("remount,bind,{option}");
        let output = Command::new("mount")
            .args(["-o", &option])
            .arg(self.path())
            .output()
            .unwrap();
        if !output.status.success() {
            println!("skipped: this needs to mount with {option}: {output:?}");
        }
        output.status.success()
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Unmounts lazily: a process that is ending may still have files open.
        let _ = Command::new("umount")
            .arg("--rotate_unsynced")
            .arg(self.path())
            .output();
    }
}

/// About 1 KB that compresses badly.
fn source(n: u64) -> String {
    let mut text = String::new();
    for at in 0..60 {
        let mixed = (n * 64 + at).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        write!(text, "{:016x}", mixed ^ mixed >> 29).unwrap();
    }
    format!("{{\"n\":{n},\"text\":\"{text}\"}}")
}

fn lines(documents: std::ops::Range<u64>) -> String {
    let keyed = |n: u64| source(n).replacen('{', &format!("{{\"_id\":\"{n}\","), 1) + "\n";
    documents.map(keyed).collect()
}

#[test]
fn a_read_only_directory_is_read_and_writes_say_why_not() {
    let dir = tempfile::tempdir().unwrap();
    let loaded = quire::run_with_input(
        &["load", dir.path().join("db").to_str().unwrap(), "docs", "-"],
        lines(0..300).as_bytes(),
    );
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    // Also a database that was not closed: opening it has something to recover.
    let left = Server::start(&dir.path().join("left"), &[]);
    assert_eq!(left.request("PUT", "/docs/_doc/7", &source(7)).0, 201);
    drop(left);
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let before = files(dir.path());
    let Some(mount) = Mount::read_only(dir.path()) else {
        return;
    };
    let (database, left, empty, new) = (
        mount.join("db"),
        mount.join("left"),
        mount.join("empty"),
        mount.join("new"),
    );
    let input = tempfile::NamedTempFile::with_suffix(".ndjson").unwrap();
    std::fs::write(input.path(), lines(0..10)).unwrap();
    let input = input.path().to_str().unwrap();
    let (db, left, empty, new) = (
        database.to_str().unwrap(),
        left.to_str().unwrap(),
        empty.to_str().unwrap(),
        new.to_str().unwrap(),
    );
    for arguments in [
        &["load", db, "docs", input][..],
        &["load", db, "more", input],
        &["put", db, "docs", "7", "{}"],
        &["delete", db, "docs", "7"],
        &["create", db, "more"],
        &["drop", db, "docs", "--yes"],
        &["load", empty, "docs", input],
        &["load", new, "docs", input],
        &["serve", new, "--create", "--listen", "127.0.0.1:0"],
    ] {
        let done = quire::run(arguments);
        assert_eq!(done.code, Some(1), "{arguments:?}: {done:?}");
        assert_says(
            &done.stderr,
            &[
                mount.path().to_str().unwrap(),
                "Read-only file system",
                "make it writable",
            ],
        );
    }
    assert_eq!(quire::ok(&["get", db, "docs", "7"]), lines(7..8));
    assert_eq!(quire::ok(&["count", db, "docs"]), "300\n");
    quire::ok(&["verify", db]);
    let got = quire::run(&["get", left, "docs", "7"]);
    match got.code {
        Some(0) => assert_eq!(got.stdout, source(7) + "\n"),
        _ => assert_says(
            &got.stderr,
            &[left, "Read-only file system", "make it writable"],
        ),
    }

    let server = Server::start(&database, &[]);
    for _ in 0..2 {
        let (status, answer) = server.request("PUT", "/docs/_doc/7", "{}");
        assert!(status >= 500, "{status} {answer}");
        assert_says(
            &answer.to_string(),
            &[db, "Read-only file system", "make it writable"],
        );
        let (status, answer) = server.request("GET", "/docs/_doc/8", "");
        assert_eq!(
            (status, answer["_source"]["n"].as_u64()),
            (200, Some(8)),
            "{answer}"
        );
    }
    let (status, answer) = server.request("PUT", "/more", "");
    assert!(status >= 500, "{status} {answer}");
    assert!(files(dir.path()) == before, "something was changed");

    assert!(mount.remount("rw"));
    assert_eq!(server.request("PUT", "/docs/_doc/7", "{}").0, 200);
    server.stop();
    assert_eq!(quire::ok(&["get", db, "docs", "7"]), "{}\n");
}

#[test]
fn a_load_to_a_full_disk_keeps_what_it_acknowledged() {
    let Some(mount) = Mount::small(24) else {
        return;
    };
    let ballast = mount.join("ballast");
    std::fs::write(&ballast, vec![0; 4 << 20]).unwrap();
    let database = mount.join("db");
    let db = database.to_str().unwrap();
    let load = ["load", db, "docs", "-", "--json"];
    let stopped = quire::run_with_input(&load, lines(0..40_000).as_bytes());
    assert_eq!(stopped.code, Some(1), "{stopped:?}");
    assert_says(
        &stopped.stderr,
        &[db, "No space left", "make room", "load again"],
    );
    let acknowledged = stopped.stdout.lines().filter_map(|line| {
        let told: Value = serde_json::from_str(line).unwrap();
        told["acknowledged"].as_u64()
    });
    let acknowledged = acknowledged.max().unwrap();
    println!("{acknowledged} documents were acknowledged until the disk was full");
    assert!((5_000..40_000).contains(&acknowledged));

    // Reads still succeed, here and elsewhere.
    assert_eq!(quire::ok(&["get", db, "docs", "17"]), lines(17..18));
    quire::ok(&["verify", db]);
    let elsewhere = tempfile::tempdir().unwrap();
    copy(&database, &elsewhere.path().join("db"));
    for database in [&database, &elsewhere.path().join("db")] {
        let database = Database::open(database).unwrap();
        let collection = database.collection("docs").unwrap();
        for n in 0..acknowledged {
            let found = collection
                .get(&Key::parse(&n.to_string()).unwrap())
                .unwrap();
            assert_eq!(found.unwrap().document.to_json() + "\n", lines(n..n + 1));
        }
        database.close().unwrap();
    }

    std::fs::remove_file(ballast).unwrap();
    let loaded = quire::run_with_input(&load, lines(50_000..51_000).as_bytes());
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    assert_eq!(
        quire::ok(&["get", db, "docs", "50999"]),
        lines(50_999..51_000)
    );
    quire::ok(&["verify", db]);
}

#[test]
fn a_server_on_a_full_disk_refuses_writes_serves_gets_and_goes_on_when_there_is_room() {
    let Some(mount) = Mount::small(24) else {
        return;
    };
    let ballast = mount.join("ballast");
    std::fs::write(&ballast, vec![0; 8 << 20]).unwrap();
    let database = mount.join("db");
    let db = database.to_str().unwrap();
    let server = Server::start(&database, &[]);
    let mut connection = server.connect();
    // By document: whether it was acknowledged.
    let mut written: Vec<bool> = Vec::new();
    let mut refusals = 0;
    while refusals < 10 {
        let first = written.len() as u64;
        assert!(first < 40_000, "the disk is never full");
        let mut body = String::new();
        for n in first..first + 500 {
            write!(body, "{{\"index\":{{\"_id\":\"{n}\"}}}}\n{}\n", source(n)).unwrap();
        }
        let (status, answer) = connection.json("POST", "/docs/_bulk", body.as_bytes());
        assert_eq!(status, 200, "{answer}");
        for item in answer["items"].as_array().unwrap() {
            let item = &item["index"];
            let acknowledged = item["status"] == json!(201);
            if !acknowledged {
                assert_eq!(item["status"], json!(429), "{item}");
                assert_says(
                    &item.to_string(),
                    &[
                        "rejected_execution_exception",
                        db,
                        "No space left",
                        "make room",
                    ],
                );
            }
            written.push(acknowledged);
        }
        refusals += u32::from(answer["errors"] == json!(true));
        let wanted = first / 2;
        let (status, answer) = connection.json("GET", &format!("/docs/_doc/{wanted}"), b"");
        assert_eq!(
            status,
            if written[wanted as usize] { 200 } else { 404 },
            "{answer}"
        );
    }
    // One larger than what may be left.
    let large = format!(
        "{{\"t\":\"{}\"}}",
        (0..9_000)
            .map(source)
            .map(|text| text[30..].to_owned())
            .collect::<String>()
            .replace(['"', '}'], "")
    );
    let (status, answer) = server.request("PUT", "/docs/_doc/large", &large);
    assert_eq!(status, 429, "{answer}");
    assert_says(
        &answer.to_string(),
        &[
            "rejected_execution_exception",
            db,
            "No space left",
            "make room",
        ],
    );

    let check = |written: &[bool]| {
        let mut connection = server.connect();
        for (n, acknowledged) in (0..).zip(written) {
            let (status, answer) = connection.json("GET", &format!("/docs/_doc/{n}"), b"");
            match acknowledged {
                true => assert_eq!(
                    (status, answer["_source"].to_string()),
                    (200, source(n)),
                    "{n}"
                ),
                false => assert_eq!(status, 404, "{n} was refused: {answer}"),
            }
        }
        let count = written.iter().filter(|acknowledged| **acknowledged).count();
        assert_eq!(
            connection.json("GET", "/docs/_count", b"").1["count"],
            json!(count)
        );
    };
    check(&written);

    std::fs::remove_file(ballast).unwrap();
    let n = written.len() as u64;
    assert_eq!(
        server
            .request("PUT", &format!("/docs/_doc/{n}"), &source(n))
            .0,
        201
    );
    written.push(true);
    assert_eq!(server.request("PUT", "/more", "").0, 200);
    check(&written);
    server.stop();
    quire::ok(&["verify", db]);
}
