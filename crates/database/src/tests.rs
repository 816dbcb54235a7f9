//! What a database does with its directory; documents are tested in `tests/`.

mod aliases;
mod cell_expiry;
mod coprocessors;
mod dead_space;
mod expiry;
mod indexes;
mod merges;
pub(crate) mod numbers;
mod splits;
mod templates;
mod triggers;
mod wide_merges;
mod wide_splits;
mod wide_tails;

use crate::{Codec, CollectionSettings, Database, DatabaseOptions, ErrorKind};
use quire_collection::Write;
use quire_env::{Env, Fault, SimEnv};
use quire_model::{Document, Key};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

fn open(env: &Arc<SimEnv>) -> crate::Result<Database> {
    Database::builder("/db").env(env.clone()).open()
}

fn document() -> Document {
    Document::from_json(br#"{"a":1}"#).unwrap()
}

/// Crashes and faults at each step of `change` leave all of it or nothing, as `seen` says; all if
/// it was acknowledged. Gives what was seen before it and after it.
fn check_all_or_none<T: PartialEq + Debug>(
    begin: impl Fn(&Arc<SimEnv>) -> Database,
    change: impl Fn(&Database) -> crate::Result<()>,
    seen: impl Fn(&Database) -> T,
) -> [T; 2] {
    let env = SimEnv::new(1);
    let database = begin(&env);
    let before = seen(&database);
    let first = env.operations();
    change(&database).unwrap();
    let steps = first..env.operations();
    let after = seen(&database);
    assert_ne!(before, after);
    for step in steps {
        for is_crash in [true, false] {
            let env = SimEnv::new(1);
            let database = begin(&env);
            match is_crash {
                true => env.crash_at(step),
                false => env.fail_at(step, Fault::Eio),
            }
            let is_done = change(&database).is_ok();
            for seed in 0..4 {
                let found = seen(&open(&env.after_crash(seed)).unwrap());
                let is_whole = found == after || found == before && !is_done;
                assert!(is_whole, "step {step}, crash {is_crash}: {found:?}");
            }
        }
    }
    [before, after]
}

#[test]
fn a_collection_outlives_its_database_and_keeps_the_lock() {
    let env = SimEnv::new(1);
    let collection = open(&env)
        .unwrap()
        .collection_or_create("jobs", Default::default)
        .unwrap();
    collection.put_at(&Key::from(1), &document()).unwrap();
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
fn settings_change_while_documents_are_written_and_outlive_the_database() {
    let env = SimEnv::new(1);
    let open = || {
        let options = DatabaseOptions {
            segment_bytes: 10_000,
            ..DatabaseOptions::default()
        };
        Database::builder("/db")
            .env(env.clone())
            .options(options)
            .open()
            .unwrap()
    };
    let number = |number: u32| {
        let words = "a kettle of copper, ".repeat(number as usize % 7 + 1);
        let json = format!(r#"{{"number":{number},"words":"{words}"}}"#);
        Document::from_json(json.as_bytes()).unwrap()
    };
    let database = open();
    let made = CollectionSettings {
        partitions: 1,
        codec: Codec::None,
        ..CollectionSettings::default()
    };
    let collection = database.create_collection("jobs", made.clone()).unwrap();
    let log_bytes = || collection.stats().unwrap().log_bytes;
    let mut next = 0;
    let mut grows_by = |count: u32| {
        let before = log_bytes();
        for key in next..next + count {
            collection.put_at(&Key::from(key), &number(key)).unwrap();
        }
        next += count;
        env.run_due();
        collection.flush().unwrap();
        log_bytes() - before
    };
    let plain = grows_by(1000);
    let settings = CollectionSettings {
        codec: Codec::Zstd(3),
        dictionary_bytes: 1024,
        ..made.clone()
    };
    let changed = database.change_settings("jobs", settings.clone()).unwrap();
    assert_eq!(*changed.settings(), settings);
    assert_eq!(*collection.settings(), settings, "one that was open too");
    grows_by(200);
    let packed = grows_by(1000);
    assert!(packed * 4 < plain * 3, "{packed} bytes, {plain} before");

    let fixed = CollectionSettings {
        partitions: 2,
        ..settings.clone()
    };
    let error = database.change_settings("jobs", fixed).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let error = database.change_settings("none", made).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    database.close().unwrap();
    drop((database, changed, collection));

    let collection = open().collection("jobs").unwrap();
    assert_eq!(*collection.settings(), settings);
    for key in 0..2200 {
        let found = collection.get(&Key::from(key)).unwrap().unwrap();
        assert_eq!(found.document, number(key));
    }
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
            .put_at(&Key::from(1), &document())
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
    let options = DatabaseOptions {
        create_if_missing: false,
        ..DatabaseOptions::default()
    };
    let error = Database::builder("/db")
        .env(env.clone())
        .options(options)
        .open()
        .unwrap_err();
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
    old.put_at(&Key::from(1), &document()).unwrap();
    database.drop_collection("jobs").unwrap();
    assert_eq!(
        old.put_at(&Key::from(1), &document()).unwrap_err().kind(),
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

#[test]
fn a_drop_that_fails_takes_nothing_that_is_acknowledged_later() {
    let steps = {
        let env = SimEnv::new(1);
        let database = open(&env).unwrap();
        database
            .collection_or_create("jobs", Default::default)
            .unwrap();
        let before = env.operations();
        database.drop_collection("jobs").unwrap();
        before..env.operations()
    };
    for (step, lasting) in steps.flat_map(|step| [(step, false), (step, true)]) {
        let env = SimEnv::new(1);
        let database = open(&env).unwrap();
        let jobs = database
            .collection_or_create("jobs", Default::default)
            .unwrap();
        match lasting {
            true => env.fail_from(step, quire_env::Fault::Eio),
            false => env.fail_at(step, quire_env::Fault::Eio),
        }
        let _ = database.drop_collection("jobs");
        let acknowledged = jobs.put_at(&Key::from(1), &document()).is_ok();
        env.heal();
        let later = database
            .collection("jobs")
            .and_then(|jobs| jobs.put_at(&Key::from(2), &document()))
            .is_ok();
        for seed in 0..8 {
            let database = open(&env.after_crash(seed)).unwrap();
            for (key, acknowledged) in [(1, acknowledged), (2, later)] {
                let found = database
                    .collection("jobs")
                    .and_then(|jobs| jobs.get(&Key::from(key)));
                assert!(
                    !acknowledged || found.is_ok_and(|found| found.is_some()),
                    "step {step}, lasting {lasting}, seed {seed}: key {key} was acknowledged"
                );
            }
        }
    }
}

#[test]
fn a_collection_that_was_seen_after_a_failed_creation_stays() {
    let steps = {
        let env = SimEnv::new(1);
        let database = open(&env).unwrap();
        let before = env.operations();
        database
            .collection_or_create("jobs", Default::default)
            .unwrap();
        before..env.operations()
    };
    for step in steps {
        let env = SimEnv::new(1);
        let database = open(&env).unwrap();
        env.fail_at(step, quire_env::Fault::Eio);
        let _ = database.create_collection("jobs", Default::default());
        drop(database);
        let seen = open(&env).unwrap().collections();
        for seed in 0..8 {
            let database = open(&env.after_crash(seed)).unwrap();
            assert_eq!(database.collections(), seen, "step {step}, seed {seed}");
            for name in seen.iter() {
                database.collection(name).unwrap();
            }
        }
    }
}
#[test]
fn grouped_writes_are_done_as_a_batch_is_also_where_the_groups_are_of_other_partitions() {
    let settings = CollectionSettings {
        partitions: 3,
        ..CollectionSettings::default()
    };
    let database = open(&SimEnv::new(1)).unwrap();
    let collection = database.create_collection("jobs", settings).unwrap();
    let mut groups: Vec<(u32, Vec<Write>)> = (0..3).map(|number| (number, Vec::new())).collect();
    for id in 0..30 {
        let key = Key::from(id);
        let number = collection.partition_of(&key);
        groups[number as usize].1.push(Write::put(key, document()));
    }
    // A patch of nothing fails alone, in its place.
    let key = (30..)
        .map(Key::from)
        .find(|key| collection.partition_of(key) == 0);
    groups[0]
        .1
        .insert(1, Write::patch(key.unwrap(), document()));
    for shift in 0..3 {
        let borrowed = groups
            .iter()
            .map(|(number, writes)| ((number + shift) % 3, &writes[..]));
        let results = collection.write_grouped(borrowed.collect(), None);
        for (number, results) in results.iter().enumerate() {
            let failed = results.iter().position(Result::is_err);
            assert_eq!(failed, (number == 0).then_some(1));
            assert_eq!(results.len(), groups[number].1.len());
        }
        assert_eq!(collection.count().unwrap(), 30);
    }
}
