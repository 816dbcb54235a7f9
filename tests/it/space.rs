//! Steady overwrites on real files: the log takes at most 1.5 times what is live in it, and every
//! answer is right.

use crate::quire;
use quiredb::{
    Collection, CollectionSettings, Database, DatabaseBuilder, DatabaseOptions, Document,
    Durability, IndexedFields, Key, SimEnv, Volumes, Write,
};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const DOCUMENTS: u64 = 6_000;
const OVERWRITES: u64 = 10 * DOCUMENTS;
const BATCH: u64 = 100;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// A document of about 1 KB that does not compress well, by its number and version.
fn document(number: u64, version: u64) -> Document {
    let mut state = (number << 20 | version).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let text: String = (0..60)
        .map(|_| format!("{:016x}", random(&mut state)))
        .collect();
    Document::from_json(format!(r#"{{"version":{version},"text":"{text}"}}"#).as_bytes()).unwrap()
}

fn key(number: u64) -> Key {
    Key::from(number as i64)
}

fn write(collection: &Collection, batch: impl Iterator<Item = (u64, u64)>) {
    let batch = batch.map(|(number, version)| Write::put(key(number), document(number, version)));
    for result in collection
        .batch()
        .writes(batch)
        .durability(Durability::None)
        .write()
    {
        result.unwrap();
    }
}

fn check(collection: &Collection, versions: &[u64]) {
    let view = collection.view().unwrap();
    assert_eq!(view.count(), DOCUMENTS);
    for (number, version) in (0..).zip(versions) {
        let found = view.get(&key(number)).unwrap().unwrap();
        assert_eq!(
            found.document,
            document(number, *version),
            "document {number}"
        );
    }
}

fn open(path: &Path) -> Database {
    let options = DatabaseOptions {
        segment_bytes: 256 << 10,
        replay_bytes_max: 512 << 10,
        ..DatabaseOptions::default()
    };
    Database::builder(path).options(options).open().unwrap()
}

#[test]
fn steady_overwrites_take_at_most_one_and_a_half_times_what_is_live() {
    let dir = tempfile::tempdir_in(quire::target_dir()).unwrap();
    let database = open(dir.path());
    let settings = CollectionSettings {
        partitions: 1,
        index: IndexedFields::none(),
        ..CollectionSettings::default()
    };
    let collection = database.create_collection("c", settings).unwrap();
    let mut versions = vec![0; DOCUMENTS as usize];
    for from in (0..DOCUMENTS).step_by(BATCH as usize) {
        write(&collection, (from..from + BATCH).map(|number| (number, 0)));
    }
    let at_first = collection.view().unwrap();
    let mut state = 7;
    for from in (0..OVERWRITES).step_by(BATCH as usize) {
        let batch: Vec<_> = (from..from + BATCH)
            .map(|at| (random(&mut state) % DOCUMENTS, at + 1))
            .collect();
        for (number, version) in &batch {
            versions[*number as usize] = *version;
        }
        write(&collection, batch.into_iter());
    }
    collection.flush().unwrap();
    // The background work that is left is bounded: no more is written.
    let log_bytes = |collection: &Collection| collection.stats().unwrap().log_bytes;
    let deadline = Instant::now() + Duration::from_secs(120);
    let (mut taken, mut still) = (log_bytes(&collection), 0);
    while still < 10 && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(500));
        let now = log_bytes(&collection);
        still = if now == taken { still + 1 } else { 0 };
        taken = now;
    }
    let stats = collection.stats().unwrap();
    assert!(
        stats.log_segments_compacted > 0 && stats.log_held_bytes > 0,
        "{stats:?}"
    );
    assert_eq!(stats.background_errors, Vec::<String>::new());
    check(&collection, &versions);
    // A view stays the same after any compaction.
    for number in (0..DOCUMENTS).step_by(7) {
        let found = at_first.get(&key(number)).unwrap().unwrap();
        assert_eq!(
            found.document,
            document(number, 0),
            "document {number} at first"
        );
    }
    drop(at_first);
    assert_eq!(collection.stats().unwrap().log_held_bytes, 0);

    collection.compact().unwrap();
    let live = log_bytes(&collection);
    println!(
        "{taken} bytes of log before the last compaction, {live} after it: {:.2} times; {} given \
         back in all",
        taken as f64 / live as f64,
        stats.log_reclaimed_bytes
    );
    assert!(
        taken * 2 <= live * 3,
        "{taken} bytes of log, {live} of them live"
    );
    assert_eq!(collection.stats().unwrap().log_dead_bytes, 0);
    check(&collection, &versions);
    drop(collection);
    database.close().unwrap();
    drop(database);

    let database = open(dir.path());
    check(&database.collection("c").unwrap(), &versions);
    database.close().unwrap();
}

#[test]
fn what_is_superseded_is_written_out_so_that_it_can_be_reclaimed() {
    let flushes = |log_live_percent| {
        let env = SimEnv::new(1);
        let options = DatabaseOptions {
            log_live_percent,
            ..DatabaseOptions::default()
        };
        let volumes = Volumes::single("/db");
        let database = DatabaseBuilder::on(&volumes)
            .env(env.clone())
            .options(options)
            .open()
            .unwrap();
        let settings = CollectionSettings {
            partitions: 1,
            index: IndexedFields::none(),
            ..CollectionSettings::default()
        };
        let collection = database.create_collection("c", settings).unwrap();
        for version in 0..200 {
            write(&collection, (0..BATCH).map(|number| (number, version)));
        }
        env.run_due();
        collection.stats().unwrap().flushes
    };
    // 20 MB, of which next to nothing is live; far from any other reason to flush.
    assert_eq!((flushes(0), flushes(70)), (0, 1));
}

/// Bytes that the system has allocated for the files below a directory, reserved room included.
fn allocated_bytes(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let bytes = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => allocated_bytes(&entry.path()),
        false => entry.metadata().unwrap().blocks() * 512,
    });
    bytes.sum()
}

#[test]
fn tiny_documents_over_many_partitions_take_room_in_proportion() {
    const PARTITIONS: u32 = 1_024;
    let dir = tempfile::tempdir_in(quire::target_dir()).unwrap();
    let database = Database::builder(dir.path()).open().unwrap();
    let settings = CollectionSettings {
        partitions: PARTITIONS,
        ..CollectionSettings::default()
    };
    let collection = database.create_collection("c", settings).unwrap();
    let begun = Instant::now();
    let tiny = Document::from_json(b"{\"n\":1}").unwrap();
    let writes = (0..2_000).map(|number| Write::put(key(number), tiny.clone()));
    let results = collection
        .batch()
        .writes(writes)
        .durability(Durability::None)
        .write();
    assert!(results.iter().all(Result::is_ok));
    let taken = allocated_bytes(dir.path());
    println!(
        "2,000 documents over {PARTITIONS} partitions: {} KiB, {:?}",
        taken >> 10,
        begun.elapsed()
    );
    // 8.7 GB when each log file reserved what a large one needs.
    assert!(taken < 256 << 20, "{taken} bytes");
    assert_eq!(collection.count().unwrap(), 2_000);
    database.close().unwrap();
}
