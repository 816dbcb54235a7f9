//! One process writes a database at a time, whatever a person removes or moves under it.

use quiredb::{CollectionSettings, Database, Document, ErrorKind, IndexedFields, Key};
use std::path::Path;

fn open(path: &Path) -> quiredb::Result<Database> {
    Database::builder(path).scrub_every(None).open()
}

/// Writes into a collection without an index: nothing goes on in the background afterwards.
fn put(database: &Database, number: u32) -> quiredb::Result<()> {
    let settings = || CollectionSettings {
        index: IndexedFields::none(),
        ..CollectionSettings::default()
    };
    let notes = database.collection_or_create("notes", settings)?;
    let document = Document::from_json(format!(r#"{{"n":{number}}}"#).as_bytes())?;
    notes.put_at(&Key::from(number), &document).map(drop)
}

#[test]
pub(crate) fn removing_the_lock_file_lets_nobody_else_write() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path()).unwrap();
    put(&database, 1).unwrap();
    std::fs::remove_file(dir.path().join("LOCK")).unwrap();
    let other = open(dir.path()).map(drop);
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Locked);
    put(&database, 2).unwrap();
    database.close().unwrap();
    let database = open(dir.path()).unwrap();
    assert_eq!(database.collection("notes").unwrap().count().unwrap(), 2);
}

#[test]
fn who_finds_another_directory_in_place_of_his_stops() {
    let parent = tempfile::tempdir().unwrap();
    let (path, moved) = (parent.path().join("db"), parent.path().join("moved"));
    let database = open(&path).unwrap();
    put(&database, 1).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    let other = open(&path).unwrap();
    put(&other, 5).unwrap();
    let stopped = database.flush().unwrap_err();
    assert!(
        stopped.to_string().contains("was removed or replaced"),
        "{stopped}"
    );
    assert_eq!(put(&database, 2).unwrap_err().kind(), ErrorKind::ReadOnly);
    let created = database.create_collection("more", Default::default());
    assert!(created.is_err());
    drop(database);
    // Neither has changed what is the other's.
    other.close().unwrap();
    let other = open(&path).unwrap();
    assert_eq!(other.collections(), ["notes"]);
    assert_eq!(other.collection("notes").unwrap().count().unwrap(), 1);
    let first = open(&moved).unwrap();
    assert_eq!(first.collection("notes").unwrap().count().unwrap(), 1);
}
