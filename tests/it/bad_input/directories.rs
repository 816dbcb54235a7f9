//! Directories that are not a database, or one that another process has open.

use super::{assert_says, files};
use crate::quire::{self, Server};
use std::path::Path;

#[test]
fn a_directory_of_something_else_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join("photos");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("notes.txt"), "mine").unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let input = dir.path().join("input.ndjson");
    std::fs::write(&input, "{\"_id\":1}\n").unwrap();
    let input = input.to_str().unwrap();
    let before = files(dir.path());
    for command in [
        &["load", "DB", "docs", input][..],
        &["create", "DB", "docs"],
        &["get", "DB", "docs", "1"],
        &["put", "DB", "docs", "1", "{}"],
        &["verify", "DB"],
        &["stats", "DB"],
        &["serve", "DB", "--listen", "127.0.0.1:0"],
    ] {
        let with = |path: &Path| {
            let path = path.to_str().unwrap();
            let arguments: Vec<_> = command
                .iter()
                .map(|word| if *word == "DB" { path } else { word })
                .collect();
            let done = quire::run(&arguments);
            assert_eq!(done.code, Some(1), "{arguments:?}: {done:?}");
            assert_says(&done.stderr, &[path]);
            done.stderr
        };
        assert_says(
            &with(&foreign),
            &["not a Quire database", "give an empty or a new directory"],
        );
        with(&file);
        if matches!(command[0], "get" | "verify" | "stats") {
            assert_says(&with(&empty), &["no database here"]);
        }
    }
    assert!(files(dir.path()) == before, "something was changed");
}

#[test]
fn a_missing_database_is_served_only_if_it_is_to_be_created_and_a_broken_one_never() {
    let dir = tempfile::tempdir().unwrap();
    let serve = |name: &str, create: bool| {
        let path = dir.path().join(name);
        let mut arguments = vec!["serve", path.to_str().unwrap(), "--listen", "127.0.0.1:0"];
        arguments.extend(create.then_some("--create"));
        let done = quire::run(&arguments);
        assert_eq!(done.code, Some(1), "{arguments:?}: {done:?}");
        done.stderr
    };
    std::fs::create_dir(dir.path().join("mount-point")).unwrap();
    for name in ["missing", "mount-point"] {
        assert_says(&serve(name, false), &[name, "--create"]);
    }
    assert!(!dir.path().join("missing").exists());
    assert!(files(&dir.path().join("mount-point")).is_empty());

    // It was a database once: both copies of its catalog are gone.
    let once = dir.path().join("once");
    let server = Server::start(&once, &[]);
    assert_eq!(server.request("PUT", "/docs/_doc/1", "{}").0, 201);
    server.stop();
    for entry in std::fs::read_dir(&once).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.starts_with("CATALOG") {
            std::fs::remove_file(&path).unwrap();
        }
    }
    let before = files(&once);
    for create in [false, true] {
        assert_says(&serve("once", create), &["once", "no CATALOG"]);
    }
    assert!(files(&once) == before, "something was changed");
}

#[test]
fn a_database_is_open_in_one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("db");
    let db = database.to_str().unwrap();
    let server = Server::start(&database, &[]);
    assert_eq!(
        server.request("PUT", "/docs/_doc/good", r#"{"n":1}"#).0,
        201
    );
    for arguments in [
        &["serve", db, "--listen", "127.0.0.1:0"][..],
        &["get", db, "docs", "good"],
        &["put", db, "docs", "good", "{}"],
        &["load", db, "docs"],
        &["verify", db],
        &["stats", db],
    ] {
        let done = quire::run(arguments);
        assert_eq!(done.code, Some(1), "{arguments:?}: {done:?}");
        assert_says(
            &done.stderr,
            &[
                db,
                "is locked",
                "is open in another process; stop that one",
                "give its HTTP address",
            ],
        );
    }
    assert_eq!(server.request("PUT", "/docs/_doc/more", "{}").0, 201);
    server.stop();
    assert_eq!(quire::ok(&["get", db, "docs", "good"]), "{\"n\":1}\n");
}
