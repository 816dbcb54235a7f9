//! Retention against a model, on a simulated machine whose time and background work the test
//! drives.

use crate::tests::numbers::Numbers;
use crate::{Collection, CollectionSettings, Database, DatabaseOptions};
use quire_collection::Write;
use quire_env::{Env, SimEnv};
use quire_model::{Document, Key, Position};
use quire_store::Durability;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const AGE_SECS: u64 = 1000;
/// Of a partition.
const SHARE: u64 = 64 << 10;
/// Longer than the time between two passes.
const PERIOD: Duration = Duration::from_secs(11);
const A_YEAR_MICROS: i64 = 365 * 86_400 * 1_000_000;

fn open(env: &Arc<SimEnv>) -> Database {
    let options = DatabaseOptions {
        segment_bytes: 40 << 10,
        scrub_period: None,
        ..DatabaseOptions::default()
    };
    Database::builder("/db")
        .env(env.clone())
        .options(options)
        .open()
        .unwrap()
}

fn settings(partitions: u32, retention_secs: u64, retention_bytes: u64) -> CollectionSettings {
    CollectionSettings {
        partitions,
        retention_secs,
        retention_bytes,
        ..CollectionSettings::default()
    }
}

fn document(bytes: usize) -> Document {
    let json = format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes));
    Document::from_json(json.as_bytes()).unwrap()
}

fn put(collection: &Collection, keys: std::ops::Range<i64>, bytes: usize) {
    let writes = keys.map(|key| Write::put(Key::from(key), document(bytes)));
    for result in collection
        .batch()
        .writes(writes)
        .durability(Durability::Sync)
        .write()
    {
        result.unwrap();
    }
}

/// Lets time pass and the background work.
fn pass(env: &Arc<SimEnv>, after: Duration) {
    env.advance(after);
    env.run_due();
}

fn keys(collection: &Collection) -> Vec<Key> {
    let scan = collection.scan(..).unwrap();
    scan.map(|found| found.unwrap().key).collect()
}

/// A document as it should be: where its newest record is, when that was written, and how long it
/// is.
#[derive(Debug, Clone, Copy)]
struct Expected {
    partition: u32,
    version: Position,
    time_micros: i64,
    bytes: u64,
}

/// What is there, by the rule alone.
#[derive(Default)]
struct Model(BTreeMap<Key, Expected>);

impl Model {
    fn put(&mut self, collection: &Collection, key: Key, bytes: usize, now: i64) {
        let document = document(bytes);
        let superseded = if self.0.contains_key(&key) { 12 } else { 0 };
        let bytes = 16 + superseded + key.encoded().len() + document.as_bytes().len();
        let writes = vec![Write::put(key.clone(), document)];
        let mut results = collection
            .batch()
            .writes(writes)
            .durability(Durability::None)
            .write();
        let written = results.pop().unwrap().unwrap();
        let expected = Expected {
            partition: written.partition,
            version: written.version,
            time_micros: now,
            bytes: bytes as u64,
        };
        self.0.insert(key, expected);
    }

    fn retain(&mut self, settings: &CollectionSettings, now: i64) {
        let age = i64::try_from(settings.retention_secs * 1_000_000).unwrap();
        if age > 0 {
            self.0.retain(|_, it| it.time_micros >= now - age);
        }
        for partition in (0..settings.partitions).filter(|_| settings.retention_bytes > 0) {
            let share = settings.retention_bytes / u64::from(settings.partitions);
            let mut here: Vec<_> = self.0.iter().map(|(key, it)| (*it, key.clone())).collect();
            here.retain(|(it, _)| it.partition == partition);
            here.sort_by_key(|(it, _)| it.version);
            let mut excess = here.iter().map(|(it, _)| it.bytes).sum::<u64>() as i64 - share as i64;
            for (it, key) in here {
                if excess > 0 {
                    excess -= it.bytes as i64;
                    self.0.remove(&key);
                }
            }
        }
    }
}

#[test]
fn exactly_the_documents_that_the_rule_keeps_are_there() {
    let mut deleted = 0;
    for seed in 1..=24 {
        let mut random = Numbers(0x9E37_79B9_7F4A_7C15 ^ seed);
        let env = SimEnv::new(seed);
        let mut database = open(&env);
        let age = AGE_SECS * (seed % 3).min(1);
        let bytes = 2 * SHARE * u64::from(seed % 3 != 1);
        let made = settings(2, age, bytes);
        let mut collection = database.create_collection("c", made).unwrap();
        let mut model = Model::default();
        for step in 0..400 {
            let key = Key::from(random.below(150) as i64);
            match random.below(60) {
                0..42 => {
                    let bytes = random.below(3000) as usize;
                    model.put(&collection, key, bytes, env.now_micros());
                }
                42..47 => {
                    let deletion = vec![Write::delete(key.clone())];
                    let results = collection
                        .batch()
                        .writes(deletion)
                        .durability(Durability::None)
                        .write();
                    assert!(results.iter().all(Result::is_ok));
                    model.0.remove(&key);
                }
                47..56 => {
                    let after = PERIOD + Duration::from_secs(random.below(150));
                    pass(&env, after);
                    model.retain(&collection.settings(), env.now_micros());
                    let expected: Vec<_> = model.0.keys().cloned().collect();
                    assert_eq!(keys(&collection), expected, "seed {seed}, step {step}");
                }
                56 => collection.flush().unwrap(),
                57 => collection.compact().unwrap(),
                58 => {
                    deleted += collection.stats().unwrap().retention_deleted;
                    database.close().unwrap();
                    drop((database, collection));
                    database = open(&env);
                    collection = database.collection("c").unwrap();
                }
                _ => {
                    let age = AGE_SECS / 2 * random.below(3);
                    let bytes = SHARE * (random.below(3) + 2) * random.below(2);
                    let changed = settings(2, age, bytes);
                    collection = database.change_settings("c", changed).unwrap();
                }
            }
        }
        for partition in collection.partitions().iter() {
            let mut wrong = |found| panic!("seed {seed}: {found:?}");
            partition.check(&mut wrong).unwrap();
        }
        let stats = collection.stats().unwrap();
        assert_eq!(stats.background_errors, Vec::<String>::new());
        deleted += stats.retention_deleted;
    }
    assert!(deleted > 1000, "{deleted} deleted");
}

/// A collection that keeps documents for [`AGE_SECS`], with ten of them.
fn ten_documents() -> (Arc<SimEnv>, Database, Collection) {
    let env = SimEnv::new(1);
    let database = open(&env);
    let collection = database
        .create_collection("c", settings(1, AGE_SECS, 0))
        .unwrap();
    put(&collection, 0..10, 10);
    (env, database, collection)
}

#[test]
fn a_document_that_is_written_between_the_look_and_the_deletion_is_spared() {
    let (env, _database, collection) = ten_documents();
    env.advance(Duration::from_secs(AGE_SECS + 1));
    // Applied, but not visible yet: readers see the version before.
    let partition = collection.partitions()[0].clone();
    let write = Write::put(Key::from(4), document(20));
    let (_, position) = partition
        .write(&[write], quire_collection::Triggers::none())
        .unwrap();
    assert_eq!(partition.view().unwrap().position(), Position(10));
    env.run_due();
    partition.acknowledge(position, Durability::Sync).unwrap();
    assert_eq!(keys(&collection), [Key::from(4)]);
    assert_eq!(collection.stats().unwrap().retention_deleted, 9);
    pass(&env, Duration::from_secs(AGE_SECS + 20));
    assert_eq!(keys(&collection), []);
}

#[test]
fn a_clock_that_is_set_while_the_database_is_open_deletes_nothing() {
    let (env, _database, collection) = ten_documents();
    for (at, shift) in [(10, A_YEAR_MICROS), (20, -2 * A_YEAR_MICROS)] {
        env.shift_wall_clock(shift);
        pass(&env, PERIOD);
        put(&collection, at..at + 10, 10);
        pass(&env, PERIOD);
        assert_eq!(collection.count().unwrap(), at as u64 + 10);
    }
    // Even if nothing that is younger comes before.
    for key in 0..20 {
        collection.delete(&Key::from(key)).unwrap();
    }
    collection.compact().unwrap();
    for _ in 0..85 {
        pass(&env, PERIOD);
        assert_eq!(collection.count().unwrap(), 10);
    }
    put(&collection, 30..40, 10);
    for _ in 0..15 {
        pass(&env, PERIOD);
    }
    assert_eq!(
        keys(&collection),
        (30..40).map(Key::from).collect::<Vec<_>>()
    );
}

#[test]
fn a_crash_at_any_step_of_a_pass_leaves_the_newest_and_the_next_pass_ends_it() {
    let begin = || {
        let env = SimEnv::new(1);
        let database = open(&env);
        let settings = settings(1, AGE_SECS, 0);
        let collection = database.create_collection("c", settings).unwrap();
        put(&collection, 0..1300, 10);
        env.advance(Duration::from_secs(AGE_SECS - 5));
        put(&collection, 1300..1310, 10);
        env.advance(PERIOD);
        (env, database, collection)
    };
    let kept: Vec<_> = (1300..1310).map(Key::from).collect();
    let steps = {
        let (env, _database, collection) = begin();
        let before = env.operations();
        env.run_due();
        pass(&env, Duration::from_secs(2));
        assert_eq!(keys(&collection), kept);
        before..env.operations()
    };
    assert!(steps.end > steps.start);
    for (step, seed) in steps.flat_map(|step| [(step, 1), (step, 2), (step, 3)]) {
        let (env, database, collection) = begin();
        env.crash_at(step);
        env.run_due();
        pass(&env, Duration::from_secs(2));
        drop((database, collection));
        let env = env.after_crash(seed);
        let database = open(&env);
        let collection = database.collection("c").unwrap();
        let left = keys(&collection);
        let first = 1310 - left.len() as i64;
        let newest: Vec<_> = (first..1310).map(Key::from).collect();
        assert_eq!(left, newest, "step {step}, seed {seed}");
        pass(&env, PERIOD);
        assert_eq!(keys(&collection), kept, "step {step}, seed {seed}");
        for partition in collection.partitions().iter() {
            partition.check(&mut |found| panic!("{found:?}")).unwrap();
        }
    }
}

#[test]
fn a_pass_on_a_full_disk_says_so_and_the_next_one_tries_again() {
    let env = SimEnv::new(1);
    let database = open(&env);
    let collection = database
        .create_collection("c", settings(1, AGE_SECS, 0))
        .unwrap();
    put(&collection, 0..600, 1000);
    // This gives back the room that was reserved.
    database.close().unwrap();
    drop((database, collection));
    env.set_capacity(1);
    let database = open(&env);
    let collection = database.collection("c").unwrap();
    env.advance(Duration::from_secs(AGE_SECS + 1));
    env.run_due();
    let stats = collection.stats().unwrap();
    assert!(stats.background_errors.concat().contains("retention"));
    env.set_capacity(u64::MAX);
    pass(&env, PERIOD);
    let stats = collection.stats().unwrap();
    assert_eq!((stats.documents, stats.retention_deleted), (0, 600));
    assert_eq!(stats.background_errors, Vec::<String>::new());
}
