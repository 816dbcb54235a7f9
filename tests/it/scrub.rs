//! Scrubbing in the background: everything is read once a period; damage is found and stays known.

use quiredb::wide::{Cell, Change, ColumnType, RowWrite, Schema, WideCollection};
use quiredb::{
    Collection, CollectionSettings, Database, DatabaseOptions, Document, Durability, Env, Key,
    ScrubStats, SimEnv, Write,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(100_000);

fn open(env: &Arc<SimEnv>) -> Database {
    let options = DatabaseOptions {
        scrub_period: Some(PERIOD),
        segment_bytes: 600_000,
        ..DatabaseOptions::default()
    };
    Database::builder("/db")
        .env(env.clone())
        .options(options)
        .open()
        .unwrap()
}

/// Three megabytes that do not compress, in two partitions.
fn fill(database: &Database) -> Collection {
    let settings = CollectionSettings {
        partitions: 2,
        ..CollectionSettings::default()
    };
    let collection = database.create_collection("pages", settings).unwrap();
    for number in 0..300u32 {
        let mut noise = vec![0; 5000];
        database.env().random(&mut noise);
        let text: String = noise.iter().map(|byte| format!("{byte:02x}")).collect();
        let document = Document::from_json(format!(r#"{{"text":"{text}"}}"#).as_bytes()).unwrap();
        let write = Write::put(Key::from(number), document);
        collection
            .batch()
            .writes(vec![write])
            .durability(Durability::None)
            .write();
        if number % 100 == 99 {
            collection.flush().unwrap();
        }
    }
    collection
}

fn data_bytes(env: &SimEnv) -> u64 {
    let is_data = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".log") || name.ends_with(".table")
    };
    let files = env.files().into_iter().filter(is_data);
    files
        .map(|path| env.read_all(&path).unwrap().len() as u64)
        .sum()
}

/// Lets time pass in small steps, and runs background work.
fn pass(env: &SimEnv, time: Duration) {
    for _ in 0..200 {
        env.advance(time / 200);
        env.run_due();
    }
}

fn stats(database: &Database) -> ScrubStats {
    database.stats().unwrap().scrub.unwrap()
}

#[test]
fn everything_is_read_once_a_period_in_slices_and_compactions_are_ordinary() {
    let env = SimEnv::new(1);
    let database = open(&env);
    let collection = fill(&database);
    let bytes = data_bytes(&env);
    assert!(bytes > 1_500_000, "{bytes}");
    pass(&env, PERIOD / 2);
    let half = stats(&database);
    assert_eq!(half.passes, 0);
    assert!(
        half.pass_bytes > bytes / 4 && half.pass_bytes < bytes,
        "{half:?} of {bytes}"
    );
    collection.compact().unwrap();
    pass(&env, PERIOD * 3 / 4);
    let whole = stats(&database);
    assert_eq!(whole.passes, 1, "{whole:?}");
    assert!(
        whole.last_pass_bytes > bytes * 8 / 10,
        "{whole:?} of {bytes}"
    );
    assert_eq!(whole.damage, []);
    let misses = database.stats().unwrap().cache_misses;
    pass(&env, PERIOD * 2);
    assert_eq!(
        database.stats().unwrap().cache_misses,
        misses,
        "past the cache"
    );
    assert_eq!(stats(&database).passes, 3);
    database.close().unwrap();
}

#[test]
fn a_pass_goes_on_after_a_restart_and_a_damaged_note_begins_anew() {
    let env = SimEnv::new(2);
    let database = open(&env);
    let collection = fill(&database);
    pass(&env, PERIOD / 2);
    let before = stats(&database);
    assert!(before.pass_bytes > 0 && before.passes == 0, "{before:?}");
    database.close().unwrap();
    drop((collection, database));

    let database = open(&env);
    assert_eq!(stats(&database).pass_bytes, before.pass_bytes);
    pass(&env, PERIOD * 7 / 10);
    assert_eq!(stats(&database).passes, 1, "the second half was enough");
    database.close().unwrap();
    drop(database);

    env.flip_bit("/db/SCRUB".as_ref(), 300).unwrap();
    let database = open(&env);
    let anew = stats(&database);
    assert_eq!((anew.passes, anew.pass_bytes), (0, 0));
    pass(&env, PERIOD * 3 / 2);
    assert_eq!(stats(&database).passes, 1);
    database.close().unwrap();
}

#[test]
fn damage_is_kept_until_a_pass_no_longer_finds_it() {
    let env = SimEnv::new(3);
    let database = open(&env);
    let _collection = fill(&database);
    let files = env.files();
    let victims = [".log", ".table"].map(|end| {
        let ends = |path: &&PathBuf| path.to_string_lossy().ends_with(end);
        files.iter().find(ends).unwrap().clone()
    });
    for victim in &victims {
        env.flip_bit(victim, 3000).unwrap();
    }
    pass(&env, PERIOD * 3 / 2);
    let named = |stats: &ScrubStats| {
        victims.iter().all(|victim| {
            let name = victim.display().to_string();
            stats.damage.iter().any(|found| found.file == name)
        })
    };
    let found = stats(&database);
    assert!(named(&found), "{found:?}");
    database.close().unwrap();
    drop((_collection, database));

    let database = open(&env);
    assert!(named(&stats(&database)), "kept");
    for victim in &victims {
        env.flip_bit(victim, 3000).unwrap();
    }
    pass(&env, PERIOD * 5 / 2);
    assert_eq!(stats(&database).damage, []);
    database.close().unwrap();
}

#[test]
fn none_is_off() {
    let env = SimEnv::new(4);
    let options = DatabaseOptions {
        scrub_period: None,
        ..DatabaseOptions::default()
    };
    let database = Database::builder("/db")
        .env(env.clone())
        .options(options)
        .open()
        .unwrap();
    pass(&env, PERIOD * 10);
    assert_eq!(database.stats().unwrap().scrub, None);
    assert!(!env.exists("/db/SCRUB".as_ref()).unwrap());
}

/// A wide collection of three megabytes that do not compress, in two partitions, and a small one.
fn fill_wide(database: &Database) -> WideCollection {
    let settings = CollectionSettings {
        partitions: 2,
        durability: Durability::None,
        ..CollectionSettings::default()
    };
    let schema = Schema::new().with_column("title", ColumnType::String, "meta");
    let schema = schema.and_then(|schema| schema.with_column("body", ColumnType::Bytes, "content"));
    let wide = database.create_wide_collection("wide", schema.unwrap(), settings);
    let wide = wide.unwrap();
    for number in 0..300u32 {
        let mut noise = vec![0; 10_000];
        database.env().random(&mut noise);
        let write = RowWrite::put(Key::from(number))
            .with(Change::set("title", Cell::String("a page".into())))
            .with(Change::set("body", Cell::Bytes(noise)));
        wide.write(&write).unwrap();
    }
    wide.compact().unwrap();
    wide
}

#[test]
fn wide_collections_are_read_too_and_their_damage_is_named_though_nobody_opened_them() {
    let env = SimEnv::new(5);
    let database = open(&env);
    drop(fill_wide(&database));
    drop(fill(&database));
    database.close().unwrap();
    drop(database);
    let bytes = data_bytes(&env);
    assert!(bytes > 5_000_000, "{bytes}");

    let largest = |files: Vec<PathBuf>| {
        let tables = files
            .into_iter()
            .filter(|path| path.extension() == Some("table".as_ref()));
        tables
            .max_by_key(|path| env.read_all(path).unwrap().len())
            .unwrap()
    };
    let victim = largest(env.files());
    let database = open(&env);
    pass(&env, PERIOD * 3 / 2);
    let whole = stats(&database);
    assert!(
        whole.last_pass_bytes > bytes * 8 / 10,
        "{whole:?} of {bytes}"
    );
    assert_eq!(whole.damage, []);

    env.flip_bit(&victim, 3000).unwrap();
    pass(&env, PERIOD * 3 / 2);
    let found = stats(&database).damage;
    let names: Vec<&str> = found.iter().map(|damage| damage.file.as_str()).collect();
    assert_eq!(names, [victim.to_str().unwrap()]);
    assert!(found[0].lost.contains("content"), "{found:?}");
    database.close().unwrap();
}
