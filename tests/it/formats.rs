//! A database of every released format can be opened for ever: `tests/formats/<version>` holds one,
//! as that version wrote it, with its contents.
//!
//! A directory is written by `write_a_database_of_this_format` below, at the end of the work on a
//! release, and never changed again.

use quiredb::{
    Collection, CollectionSettings, Database, DatabaseOptions, Document, Durability, Key, OsEnv,
    Volumes, Write,
};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Formats whose database has a log that was compacted: its repair gives documents new versions.
const COMPACTED: [&str; 1] = ["0.2"];

fn formats() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("formats")
}

/// Copies a directory, except the lock of a process that has ended.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.file_name() != "LOCK" {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn open(path: &Path) -> Database {
    let options = DatabaseOptions {
        segment_bytes: 4096,
        ..DatabaseOptions::default()
    };
    Database::builder(path).options(options).open().unwrap()
}

/// The contents of a database: a line for each document, in order.
fn contents(database: &Database) -> Vec<Value> {
    let mut lines = Vec::new();
    for name in database.collections() {
        let collection = database.collection(&name).unwrap();
        for found in collection.scan(..).unwrap() {
            let found = found.unwrap();
            let again = collection.get(&found.key).unwrap().unwrap();
            assert_eq!(again, found);
            let document: Value = serde_json::from_str(&found.document.to_json()).unwrap();
            lines.push(json!({
                "collection": name,
                "key": found.key.to_string(),
                "partition": found.partition,
                "version": found.version.0,
                "document": document,
            }));
        }
    }
    lines
}

#[test]
fn a_database_of_every_released_format_opens_and_goes_on() {
    let mut versions = 0;
    for entry in fs::read_dir(formats()).unwrap() {
        let from = entry.unwrap().path();
        versions += 1;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        copy(&from.join("db"), &path);
        let expected: Vec<Value> = fs::read_to_string(from.join("contents.ndjson"))
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(expected.len() > 100);
        let verify = |documents: usize| {
            let env = OsEnv::new().unwrap();
            let report = quiredb::operations::verify(
                env,
                Volumes::single(&path),
                &Default::default(),
                &mut |_, _| {},
            )
            .unwrap();
            assert_eq!(report.damage, [], "{}", from.display());
            assert_eq!(report.documents, documents as u64);
        };
        verify(expected.len());

        let database = open(&path);
        assert_eq!(contents(&database), expected, "{}", from.display());
        for name in database.collections() {
            let collection = database.collection(&name).unwrap();
            let document = Document::from_json(br#"{"_id":"new","of":"now"}"#).unwrap();
            collection
                .put_at(&Key::parse("new").unwrap(), &document)
                .unwrap();
            collection.compact().unwrap();
        }
        let went_on = contents(&database);
        assert_eq!(went_on.len(), expected.len() + database.collections().len());
        database.close().unwrap();
        drop(database);
        let database = open(&path);
        assert_eq!(contents(&database), went_on);
        database.close().unwrap();
        drop(database);
        verify(went_on.len());

        let (old, new) = (
            Volumes::single(from.join("db")),
            dir.path().join("repaired"),
        );
        let repaired = dir.path().join("copy");
        copy(&from.join("db"), &repaired);
        let env = OsEnv::new().unwrap();
        let report = quiredb::operations::repair(
            env,
            Volumes::single(&repaired),
            Volumes::single(&new),
            &mut |_| {},
        );
        assert!(report.unwrap().is_whole(), "{old:?}");
        let (mut found, mut expected) = (contents(&open(&new)), expected);
        if COMPACTED.iter().any(|version| from.ends_with(version)) {
            for line in found.iter_mut().chain(&mut expected) {
                line.as_object_mut().unwrap().remove("version");
            }
        }
        assert_eq!(found, expected);
    }
    assert!(versions > 0);
}

fn write(collection: &Collection, writes: Vec<Write>) {
    for result in collection
        .batch()
        .writes(writes)
        .durability(Durability::Sync)
        .write()
    {
        result.unwrap();
    }
}

/// Run by hand, with the version in `QUIRE_FORMAT`: see CONTRIBUTING.md.
#[test]
#[ignore = "writes into the tree"]
fn write_a_database_of_this_format() {
    let version = std::env::var("QUIRE_FORMAT").expect("QUIRE_FORMAT is the version, such as 0.2");
    let target = formats().join(version);
    assert!(!target.exists(), "{} is there already", target.display());
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let settings = |partitions, key_field: &str, durability| CollectionSettings {
        partitions,
        key_field: key_field.to_string(),
        durability,
        ..CollectionSettings::default()
    };
    let gone = settings(1, "_id", Durability::Sync);
    database.create_collection("gone", gone).unwrap();
    let items = settings(2, "_id", Durability::Sync);
    let items = database.create_collection("items", items).unwrap();
    let words = settings(1, "word", Durability::None);
    let words = database.create_collection("words", words).unwrap();
    database.drop_collection("gone").unwrap();
    for round in 0..4u32 {
        for part in 0..8u32 {
            let puts = (0..10).map(|number| {
                let id = part * 17 + number * 3 + round;
                let text = format!(
                    "{{\"_id\":{id},\"round\":{round},\"price\":{id}.50,\"tags\":[\"a\",\"é\",\
                     null,true],\"in\":{{\"x\":-{id},\"y\":1e3,\"z\":{{}}}},\"text\":\"item {id}, \
                     written in round {round}\"}}"
                );
                Write::put(Key::from(id), Document::from_json(text.as_bytes()).unwrap())
            });
            write(&items, puts.collect());
            let text = format!(r#"{{"word":"wörd {part}","round":{round}}}"#);
            let document = Document::from_json(text.as_bytes()).unwrap();
            let key = words.key_of(&document).unwrap();
            write(&words, vec![Write::put(key, document)]);
        }
        write(&items, vec![Write::delete(Key::from(round * 7))]);
        let patch = Document::from_json(br#"{"patched":{"in":1},"tags":null}"#).unwrap();
        write(&items, vec![Write::patch(Key::from(3 + round * 3), patch)]);
        if round < 3 {
            database.flush().unwrap();
        }
    }
    // As it is while open: some segments are sealed, and one is not.
    copy(dir.path(), &target.join("db"));
    let lines: Vec<String> = contents(&database).iter().map(Value::to_string).collect();
    fs::write(target.join("contents.ndjson"), lines.join("\n") + "\n").unwrap();
    database.close().unwrap();
}
