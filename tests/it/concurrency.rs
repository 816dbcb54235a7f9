//! Many threads on the real machine: writers, readers, flushes and compactions at once, against
//! models.

use quire_env::{Env, JobClass};
use quiredb::{
    Collection, CollectionSettings, Database, DatabaseOptions, Document, Durability, ErrorKind,
    Key, OsEnv, ValueRef, Volumes, Write,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const WRITERS: u64 = 4;
const ROUNDS: u64 = 400;
const KEYS: u64 = 300;

fn open(dir: &std::path::Path) -> Database {
    let options = DatabaseOptions {
        memory_bytes: 16 << 20,
        replay_bytes_max: 200_000,
        segment_bytes: 1 << 20,
        ..DatabaseOptions::default()
    };
    Database::builder(dir).options(options).open().unwrap()
}

fn settings() -> CollectionSettings {
    CollectionSettings {
        partitions: 3,
        ..CollectionSettings::default()
    }
}

/// A document that names its write; its length depends on that.
fn document(writer: u64, round: u64) -> Document {
    let padding = "p".repeat((round * 37 % 400) as usize);
    let json = format!(r#"{{"writer":{writer},"round":{round},"padding":"{padding}"}}"#);
    Document::from_json(json.as_bytes()).unwrap()
}

fn field(document: &Document, name: &str) -> u64 {
    match document.get(name) {
        Some(ValueRef::Int(number)) => number as u64,
        other => panic!("{name} is {other:?}"),
    }
}

fn key(writer: u64, number: u64) -> Key {
    Key::parse(&format!("w{writer}-{number}")).unwrap()
}

/// Writes its own keys, in batches and alone, under every durability. Returns what must be there at
/// the end.
fn write(
    collection: &Collection,
    writer: u64,
    acknowledged: &AtomicU64,
) -> BTreeMap<Key, Option<Document>> {
    let durabilities = [
        Durability::Sync,
        Durability::None,
        Durability::Async(Duration::from_millis(3)),
    ];
    let mut model = BTreeMap::new();
    let mut random = writer + 1;
    let mut dice = |sides: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % sides
    };
    for round in 1..=ROUNDS {
        let mut batch = Vec::new();
        for _ in 0..=dice(8) {
            let key = key(writer, dice(KEYS));
            if dice(5) == 0 {
                model.insert(key.clone(), None);
                batch.push(Write::delete(key));
            } else {
                let document = document(writer, round);
                model.insert(key.clone(), Some(document.clone()));
                batch.push(Write::put(key, document));
            }
        }
        let durability = durabilities[(round % 3) as usize];
        for result in collection
            .batch()
            .writes(batch)
            .durability(durability)
            .write()
        {
            result.unwrap();
        }
        acknowledged.store(round, Ordering::Release);
    }
    model
}

/// Reads what others write: every result is whole, and never older than what was acknowledged, and
/// views do not change.
fn read(collection: &Collection, acknowledged: &[AtomicU64], done: &AtomicBool) -> u64 {
    let mut looks = 0;
    while !done.load(Ordering::Acquire) || looks == 0 {
        let view = collection.view().unwrap();
        let first: Vec<_> = view.scan(..).unwrap().map(|found| found.unwrap()).collect();
        assert_eq!(first.len() as u64, view.count());
        for found in &first {
            let (writer, round) = (
                field(&found.document, "writer"),
                field(&found.document, "round"),
            );
            assert_eq!(found.document, document(writer, round), "{}", found.key);
            assert!(found.key.to_string().starts_with(&format!("w{writer}-")));
        }
        let keys: Vec<Key> = first.iter().map(|found| found.key.clone()).collect();
        let again = view.get_many(&keys).unwrap();
        assert!(
            again.into_iter().eq(first.into_iter().map(Some)),
            "a view changed"
        );
        // A get returns what was acknowledged before it began, or something newer.
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            let before = acknowledged.load(Ordering::Acquire);
            let newest =
                (0..KEYS).filter_map(|number| collection.get(&key(writer as u64, number)).unwrap());
            let newest = newest
                .map(|found| field(&found.document, "round"))
                .max()
                .unwrap_or(0);
            // A round may delete all its keys, so the newest round seen is near, not equal.
            assert!(
                newest + 30 >= before,
                "round {before} was acknowledged, {newest} is the newest seen"
            );
        }
        looks += 1;
    }
    looks
}

#[test]
fn writers_readers_flushes_and_compactions_at_once_agree_with_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let collection = database.create_collection("many", settings()).unwrap();
    let acknowledged: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);
    let models: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (collection, acknowledged) = (&collection, &acknowledged[writer as usize]);
                scope.spawn(move || write(collection, writer, acknowledged))
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| read(&collection, &acknowledged, &done)))
            .collect();
        let maintainer = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                collection.flush().unwrap();
                collection.compact().unwrap();
                thread::sleep(Duration::from_millis(20));
            }
        });
        let models: Vec<_> = writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect();
        done.store(true, Ordering::Release);
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() > 0));
        maintainer.join().unwrap();
        models
    });
    let expected: BTreeMap<Key, Document> = models
        .into_iter()
        .flatten()
        .filter_map(|(key, document)| Some((key, document?)))
        .collect();
    let check = |collection: &Collection| {
        let found = collection
            .scan(..)
            .unwrap()
            .map(|found| found.map(|found| (found.key, found.document)));
        assert_eq!(
            found.collect::<Result<BTreeMap<_, _>, _>>().unwrap(),
            expected
        );
        assert_eq!(collection.count().unwrap(), expected.len() as u64);
    };
    check(&collection);
    database.close().unwrap();
    drop((database, collection));
    let report = quiredb::operations::verify(
        OsEnv::new().unwrap(),
        Volumes::single(dir.path()),
        &Default::default(),
        &mut |_, _| {},
    )
    .unwrap();
    assert_eq!(report.damage, []);
    check(&open(dir.path()).collection("many").unwrap());
}

#[test]
fn conditional_writes_lose_no_update() {
    let dir = tempfile::tempdir().unwrap();
    let database = open(dir.path());
    let collection = database.create_collection("counters", settings()).unwrap();
    let key = Key::from(1);
    let conflicts = AtomicU64::new(0);
    let add_one = || {
        loop {
            let found = collection.get(&key).unwrap();
            let count = found
                .as_ref()
                .map_or(0, |found| field(&found.document, "count"));
            let next =
                Document::from_json(format!(r#"{{"count":{}}}"#, count + 1).as_bytes()).unwrap();
            let write = Write::put(key.clone(), next);
            let result = collection.write().run(match found {
                Some(found) => write.if_version(found.version),
                None => write.if_absent(),
            });
            match result {
                Ok(_) => return,
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    conflicts.fetch_add(1, Ordering::Relaxed)
                }
                Err(error) => panic!("{error}"),
            };
        }
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| add_one()));
        }
    });
    let found = collection.get(&key).unwrap().unwrap();
    assert_eq!(field(&found.document, "count"), 200);
    assert_eq!(
        found.version.0, 200,
        "a write that was refused left no record"
    );
    println!("{} conflicts", conflicts.load(Ordering::Relaxed));
}

#[test]
fn an_index_follows_while_merges_take_all_their_threads() {
    let env = OsEnv::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let database = Database::builder(dir.path()).env(env.clone()).open();
    let database = database.unwrap();
    let collection = database.create_collection("c", settings()).unwrap();
    let (started, has_started) = mpsc::channel();
    let (end, is_over) = mpsc::channel::<()>();
    let is_over = Arc::new(Mutex::new(is_over));
    for _ in 0..2 {
        let (started, is_over) = (started.clone(), Arc::clone(&is_over));
        // As merges of gigabytes do.
        let job = move || {
            started.send(()).unwrap();
            let _ = is_over.lock().unwrap().recv();
        };
        env.schedule(JobClass::Compaction, Duration::ZERO, Box::new(job));
        has_started.recv().unwrap();
    }
    let lag = || collection.stats().unwrap().index.unwrap().lag_records;
    for round in 0..3 {
        for number in 0..100u64 {
            let key = Key::from(number as i64);
            let write = Write::put(key, document(number, round));
            collection.write().run(write).unwrap();
        }
        let begun = Instant::now();
        while lag() > 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{} behind",
                lag()
            );
            thread::sleep(Duration::from_millis(10));
        }
    }
    drop(end);
    database.close().unwrap();
}
