//! backup, backups and restore.

use crate::Quire;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

fn documents(from: u32, to: u32) -> String {
    (from..to)
        .map(|id| format!("{{\"_id\":{id},\"text\":\"some text of {id}\"}}\n"))
        .collect()
}

#[test]
fn snapshots_are_made_listed_and_restored() {
    let quire = Quire::with_documents(&documents(0, 300));
    let made = quire.ok(&["backup", "db", "backups/db"]);
    assert!(made.starts_with("snapshot 1: "), "{made}");
    quire.pipe(&["load", "db", "c"], documents(300, 400));
    let made = quire.json(&["backup", "db", "backups/db", "--rate", "none"]);
    assert_eq!(made["number"], 2);
    assert_eq!(
        quire.json(&["backup", "db", "backups/db"])["copied_bytes"],
        0
    );

    let listed = quire.ok(&["backups", "backups/db"]);
    let lines: Vec<_> = listed.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(
        lines[0].starts_with("1  20") && lines[0].ends_with("c 300"),
        "{listed}"
    );
    assert!(
        lines[1].starts_with("2  20") && lines[1].ends_with("c 400"),
        "{listed}"
    );
    let listed = quire.ok(&["backups", "backups/db", "--json"]);
    let last: Value = serde_json::from_str(listed.lines().last().unwrap()).unwrap();
    assert_eq!(last["positions"], made["positions"]);

    let restored = quire.ok(&["restore", "backups/db", "copy"]);
    assert!(
        restored.starts_with("restored snapshot 3 of 20"),
        "{restored}"
    );
    assert_eq!(
        quire.ok(&["scan", "copy", "c"]),
        quire.ok(&["scan", "db", "c"])
    );
    let restored = quire.json(&["restore", "backups/db", "older", "--snapshot", "1"]);
    assert_eq!(restored["number"], 1);
    assert_eq!(quire.json(&["count", "older", "c"]), json!({"count": 300}));
    assert!(quire.ok(&["verify", "older"]).starts_with("no damage"));

    let thinned = quire.ok(&["backup", "db", "backups/db", "--keep", "1"]);
    assert!(thinned.contains("3 older snapshots removed"), "{thinned}");
    assert_eq!(quire.ok(&["backups", "backups/db"]).lines().count(), 1);
}

#[test]
fn what_can_not_be_done_is_told_with_what_to_do() {
    let quire = Quire::with_documents(&documents(0, 10));
    quire.fails(&["backup", "absent", "to"], 1, &["no database", "absent"]);
    quire.fails(&["backup", "db", "to", "--keep", "0"], 2, &["--keep"]);
    quire.fails(&["backup", "db", "to", "--rate", "fast"], 2, &["64MB/s"]);
    quire.fails(
        &["backup", "https://example.com", "to"],
        2,
        &["http://HOST:PORT"],
    );
    quire.fails(&["backups", "db"], 1, &["no backup here"]);
    quire.fails(&["restore", "db", "copy"], 1, &["no backup here"]);
    quire.file("notes.txt", "dear all");
    quire.fails(&["backup", "db", "."], 1, &["no backup", "empty directory"]);

    quire.ok(&["backup", "db", "to"]);
    quire.fails(&["restore", "to", "db"], 1, &["holds a database already"]);
    quire.fails(&["restore", "to", "."], 1, &["is not empty"]);
    quire.fails(
        &["restore", "to", "copy", "--snapshot", "7"],
        1,
        &["no snapshot 7", "it has: 1"],
    );
    let other = quire.pipe(&["load", "other", "c"], documents(0, 1));
    assert_eq!(other.code, 0);
    quire.fails(&["backup", "other", "to"], 1, &["backup of database"]);

    // A damaged backup is named, and what was restored of it is no database.
    let dir = quire.path("to/files/c00000001/p0000");
    let piece = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_str().unwrap().contains("log-"))
        .unwrap();
    let mut bytes = std::fs::read(&piece).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&piece, &bytes).unwrap();
    let name = piece.file_name().unwrap().to_str().unwrap();
    quire.fails(&["restore", "to", "copy"], 1, &[name, "checksum"]);
    quire.fails(&["count", "copy", "c"], 1, &["run `quire restore` again"]);
    bytes[at] ^= 1;
    std::fs::write(&piece, &bytes).unwrap();
    quire.ok(&["restore", "to", "copy"]);
    assert_eq!(quire.json(&["count", "copy", "c"]), json!({"count": 10}));
}

/// `quire serve`, killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_makes_the_backup_of_the_database_that_it_has_open() {
    let quire = Quire::with_documents(&documents(0, 50));
    quire.file("token", "s3cret\n");
    let serve = [
        "serve",
        "db",
        "--listen",
        "127.0.0.1:0",
        "--quiet",
        "--token-file",
        "token",
    ];
    let start = |more: &[&str]| {
        let mut command = quire.command(&[&serve[..], more].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap()
            .to_owned();
        (Server(child), url)
    };
    let (server, url) = start(&[]);
    let told = quire.fails(&["backup", "db", "to"], 1, &["open in another process"]);
    assert!(told.stderr.contains("quire backup http://"), "{told:?}");
    quire.fails(
        &["backup", &url, "nightly", "--token-file", "token"],
        1,
        &["--backup-dir"],
    );
    drop(server);

    let (_server, url) = start(&["--backup-dir", "backups"]);
    quire.fails(&["backup", &url, "nightly"], 1, &["401"]);
    let arguments = [
        "backup",
        &url,
        "nightly",
        "--token-file",
        "token",
        "--keep",
        "2",
    ];
    let made = quire.ok(&arguments);
    assert!(made.starts_with("snapshot 1: "), "{made}");
    assert_eq!(quire.json(&arguments)["number"], 2);
    let arguments = ["backup", &url, "../nightly", "--token-file", "token"];
    quire.fails(&arguments, 1, &["backup name"]);
    quire.ok(&["restore", "backups/nightly", "copy"]);
    assert_eq!(quire.json(&["count", "copy", "c"]), json!({"count": 50}));
}
