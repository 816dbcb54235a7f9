//! Damaged files: an error or the right answer, never a wrong one.

use super::{assert_says, copy, files};
use crate::quire::{self, Server};
use crate::words;
use quiredb::Database;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const DOCUMENTS: u64 = 2_000;

fn line(n: u64) -> String {
    format!("{{\"_id\":\"{n}\",\"text\":\"{}\"}}\n", words::text(n, 60))
}

/// A database of two collections, `docs` and `other`, closed. Its data is in table files, or
/// mostly only in the log.
fn database(dir: &Path, flushed: bool) -> PathBuf {
    let database = dir.join("db");
    let input: String = (0..DOCUMENTS).map(line).collect();
    for collection in ["docs", "other"] {
        let arguments = [
            "load",
            database.to_str().unwrap(),
            collection,
            "-",
            "--partitions",
            "1",
        ];
        let done = quire::run_with_input(&arguments, input.as_bytes());
        assert_eq!(done.code, Some(0), "{done:?}");
        if flushed {
            let database = Database::open(&database).unwrap();
            database.collection(collection).unwrap().flush().unwrap();
            database.close().unwrap();
        }
    }
    database
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn a_damaged_catalog_is_named_and_nothing_else_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(dir.path(), true);
    let db = database.to_str().unwrap();
    let catalog = database.join("CATALOG");
    let whole = std::fs::read(&catalog).unwrap();
    let mut damaged: Vec<Vec<u8>> = [0, 14, 20, 30, whole.len() / 2, whole.len() - 1]
        .iter()
        .map(|at| {
            let mut bytes = whole.clone();
            bytes[*at] ^= 0x10;
            bytes
        })
        .collect();
    damaged.extend([Vec::new(), whole[..whole.len() / 2].to_vec()]);
    for bytes in damaged {
        // Both copies: one alone costs nothing.
        std::fs::write(&catalog, &bytes).unwrap();
        std::fs::write(database.join("CATALOG-2"), &bytes).unwrap();
        let before = files(&database);
        for arguments in [
            &["get", db, "docs", "1"][..],
            &["put", db, "docs", "1", "{}"],
            &["load", db, "docs"],
            &["create", db, "more"],
            &["serve", db, "--listen", "127.0.0.1:0"],
        ] {
            let done = quire::run(arguments);
            assert_eq!(done.code, Some(1), "{arguments:?}: {done:?}");
            assert_says(&done.stderr, &[catalog.to_str().unwrap(), "catalog"]);
        }
        let verified = quire::run(&["verify", db]);
        assert_eq!(verified.code, Some(1), "{verified:?}");
        assert_says(
            &verified.stdout,
            &[catalog.to_str().unwrap(), "at byte", "lost:"],
        );
        assert!(files(&database) == before, "something was changed");
    }
    std::fs::write(&catalog, &whole).unwrap();
    assert_eq!(quire::ok(&["get", db, "docs", "1"]), line(1));
    assert_eq!(quire::run(&["verify", db]).code, Some(0));
}

#[test]
fn a_damaged_file_gives_the_right_answer_or_an_error_and_verify_finds_it() {
    let mut errors = 0;
    for flushed in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let database = database(dir.path(), flushed);
        let parts = files(&database.join("c00000001"));
        // A background job may have flushed what nobody did: an index that it completed.
        for (extension, is_there) in [("log", true), ("table", flushed)] {
            let found = parts.keys().any(|path| has_extension(path, extension));
            assert!(found || !is_there, "{extension} files");
        }
        for (part, bytes) in parts {
            let len = bytes.len();
            let part = part.strip_prefix(&database).unwrap();
            for at in [4, len / 5, len / 2, len.saturating_sub(1_500), len - 3] {
                let damaged = dir.path().join("damaged");
                copy(&database, &damaged);
                flip(&damaged.join(part), at);
                let is_damage = find_damage(&damaged, part, at, len as u64);
                let told = gets_of_damaged(&damaged, part, at);
                let name = part.display();
                assert!(is_damage || told == 0, "{name} at byte {at}");
                errors += told;
                std::fs::remove_dir_all(&damaged).unwrap();
            }
        }
    }
    println!("{errors} gets of damaged databases told an error");
    assert!(errors > 0);
}

/// Gets documents: each is right, or an error with the name of the file. Returns the number of
/// errors.
fn gets_of_damaged(database: &Path, part: &Path, at: usize) -> u32 {
    let db = database.to_str().unwrap();
    let file = database.join(part);
    let name = file.to_str().unwrap();
    let mut errors = 0;
    for key in (0..DOCUMENTS).step_by(333).chain([DOCUMENTS - 1]) {
        let got = quire::run(&["get", db, "docs", &key.to_string()]);
        if got.code == Some(0) {
            assert_eq!(got.stdout, line(key), "{name} at byte {at}");
            continue;
        }
        let failed = (got.code, got.stdout.as_str());
        assert_eq!(failed, (Some(1), ""), "{name} at byte {at}: {got:?}");
        assert_says(&got.stderr, &[name]);
        errors += 1;
    }
    let other = quire::ok(&["get", db, "other", "7"]);
    assert_eq!(other, line(7), "{name} at byte {at}");
    errors
}

/// Verifies: the damage is reported with its file, its offset, and what is lost. False if all
/// documents are there: damage at the end of a log looks like a torn tail, which is rewritten.
fn find_damage(database: &Path, part: &Path, at: usize, len: u64) -> bool {
    let file = database.join(part);
    let name = file.to_str().unwrap();
    let verified = quire::run(&["verify", database.to_str().unwrap(), "--json"]);
    let report: Value = serde_json::from_str(&verified.stdout).unwrap();
    if verified.code == Some(0) {
        // One of the two records of where a log ends looks torn, and the other is whole.
        let is_torn = report["torn_bytes"].as_u64() > Some(0) || part.ends_with("log/END");
        assert!(is_torn, "{name} at byte {at}: {report}");
        assert_eq!(
            report["documents"],
            json!(2 * DOCUMENTS),
            "{name} at byte {at}"
        );
        return false;
    }
    assert_eq!(verified.code, Some(1), "{name} at byte {at}: {verified:?}");
    let is_it = |damage: &Value| {
        damage["file"] == name
            && damage["offset"].as_u64() < Some(len)
            && damage["lost"].as_str() != Some("")
    };
    let damage = report["damage"].as_array().unwrap();
    assert!(damage.iter().any(is_it), "{name} at byte {at}: {report}");
    true
}

#[test]
fn a_server_of_a_damaged_database_tells_what_it_can_not_read_and_serves_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(dir.path(), true);
    let mut parts = files(&database.join("c00000001")).into_keys();
    let log = parts.find(|path| has_extension(path, "log")).unwrap();
    // In the first block of records, behind its header.
    flip(&log, 1_000);
    let server = Server::start(&database, &[]);
    let (status, answer) = server.request("GET", "/docs/_doc/0", "");
    assert_eq!(
        (status, answer["error"]["type"].as_str()),
        (500, Some("corrupt_index_exception")),
        "{answer}"
    );
    assert_says(
        &answer.to_string(),
        &[log.to_str().unwrap(), "checksum", "at byte"],
    );
    for (collection, key) in [("docs", DOCUMENTS - 1), ("other", 0), ("other", 5)] {
        let (status, answer) = server.request("GET", &format!("/{collection}/_doc/{key}"), "");
        let expected: Value = serde_json::from_str(&line(key)).unwrap();
        assert_eq!(
            (status, &answer["_source"]),
            (200, &expected),
            "{collection} {key}"
        );
    }
    let (status, answer) = server.request(
        "POST",
        "/_mget",
        r#"{"docs":[{"_index":"docs","_id":"0"},{"_index":"other","_id":"0"}]}"#,
    );
    assert_eq!(
        (status, &answer["docs"][1]["found"]),
        (200, &json!(true)),
        "{answer}"
    );
    assert_eq!(
        answer["docs"][0]["error"]["type"],
        json!("corrupt_index_exception"),
        "{answer}"
    );
    assert_eq!(server.request("PUT", "/docs/_doc/new", "{}").0, 201);
    server.stop();
}
