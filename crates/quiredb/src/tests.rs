//! What a database does with its directory; documents are tested in `tests/`.

use crate::{Database, Document, ErrorKind, Key, Options, SimEnv, Volumes};
use quire_env::Env;
use std::path::Path;
use std::sync::Arc;

fn open(env: &Arc<SimEnv>) -> crate::Result<Database> {
    Database::open_with(env.clone(), Volumes::single("/db"), Options::default())
}

fn document() -> Document {
    Document::from_json(br#"{"a":1}"#).unwrap()
}

#[test]
fn a_collection_outlives_its_database_and_keeps_the_lock() {
    let env = SimEnv::new(1);
    let collection = open(&env)
        .unwrap()
        .collection_or_create("jobs", Default::default)
        .unwrap();
    collection.put(&Key::from(1), &document()).unwrap();
    assert_eq!(open(&env).unwrap_err().kind(), ErrorKind::Locked);
    drop(collection);
    assert_eq!(
        open(&env)
            .unwrap()
            .collection("jobs")
            .unwrap()
            .count()
            .unwrap(),
        1
    );
}

#[test]
fn a_closed_database_refuses_calls_and_lets_another_open_it() {
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    let collection = database
        .collection_or_create("jobs", Default::default)
        .unwrap();
    database.close().unwrap();
    assert_eq!(
        database.collection("jobs").unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(
        collection
            .put(&Key::from(1), &document())
            .unwrap_err()
            .kind(),
        ErrorKind::Closed
    );
    assert_eq!(
        collection.get(&Key::from(1)).unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(open(&env).unwrap().collections(), ["jobs"]);
}

#[test]
fn a_directory_with_other_files_is_refused_and_left_alone() {
    let env = SimEnv::new(1);
    env.create_dir_all(Path::new("/db")).unwrap();
    env.replace(Path::new("/db/letter.txt"), b"dear all")
        .unwrap();
    assert_eq!(open(&env).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(env.list(Path::new("/db")).unwrap(), ["letter.txt"]);
}

#[test]
fn reading_what_is_not_there_creates_nothing() {
    let env = SimEnv::new(1);
    let options = Options {
        create_if_missing: false,
        ..Options::default()
    };
    let error = Database::open_with(env.clone(), Volumes::single("/db"), options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(!env.exists(Path::new("/db")).unwrap());
}

#[test]
fn a_dropped_collection_is_gone_with_its_files_and_its_name_can_be_used_again() {
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    let old = database
        .create_collection("jobs", Default::default())
        .unwrap();
    old.put(&Key::from(1), &document()).unwrap();
    database.drop_collection("jobs").unwrap();
    assert_eq!(
        old.put(&Key::from(1), &document()).unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert_eq!(
        database.drop_collection("jobs").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert!(
        env.files()
            .iter()
            .all(|path| !path.starts_with("/db/c00000001"))
    );
    let new = database
        .create_collection("jobs", Default::default())
        .unwrap();
    assert_eq!(new.count().unwrap(), 0);
    assert_eq!(
        database
            .create_collection("jobs", Default::default())
            .unwrap_err()
            .kind(),
        ErrorKind::AlreadyExists
    );
}
