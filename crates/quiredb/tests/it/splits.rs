//! Splits and merges beside threads that write, read, query and follow changes, on the real
//! machine; splits of wide collections too.

use quiredb::query::{field, find};
use quiredb::wide::{Cell, Change, Operand, RowWrite, Schema, WideCollection};
use quiredb::{
    Collection, CollectionSettings, Database, Document, Durability, ErrorKind, Key, Position,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const WRITERS: u64 = 3;
const KEYS: u64 = 200;

/// The key of a writer, and how often its document was written.
fn document(writer: u64, n: u64) -> Document {
    let padding = "x".repeat(n as usize % 300);
    let json = format!(r#"{{"writer":{writer},"n":{n},"padding":"{padding}"}}"#);
    Document::from_json(json.as_bytes()).unwrap()
}

fn key(writer: u64, number: u64) -> Key {
    Key::parse(&format!("{writer}-{number}")).unwrap()
}

fn n_of(document: &Document) -> u64 {
    let Some(quiredb::ValueRef::Int(n)) = document.get("n") else {
        unreachable!("each document has its number")
    };
    n as u64
}

/// Writes its documents again and again until it is told to stop. Returns how often.
fn write(songs: &Collection, writer: u64, stop: &AtomicBool, floor: &AtomicU64) -> u64 {
    let mut n = 0;
    let mut versions = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) || n < 3 {
        n += 1;
        for part in (0..KEYS).collect::<Vec<_>>().chunks(50) {
            let mut batch = songs.batch().durability(Durability::None);
            for number in part {
                batch.put_at(&key(writer, *number), &document(writer, n));
            }
            for (number, written) in part.iter().zip(batch.write()) {
                let version = written.unwrap().version;
                let before = versions.insert(*number, version);
                assert!(before.is_none_or(|before| before < version));
            }
        }
        floor.store(n, Ordering::Release);
    }
    n
}

/// Reads what a writer has written: never less than was acknowledged before.
fn read(songs: &Collection, writer: u64, stop: &AtomicBool, floor: &AtomicU64) {
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number = (number + 7) % KEYS;
        let least = floor.load(Ordering::Acquire);
        if least == 0 {
            continue;
        }
        let found = songs.get(&key(writer, number)).unwrap().unwrap();
        assert!(n_of(&found.document) >= least);
        let keys = [key(writer, 0), key(writer, number)];
        let many = songs.get_many(&keys).unwrap();
        assert!(
            many.iter()
                .all(|one| n_of(&one.as_ref().unwrap().document) >= least)
        );
        let query = find(field("writer").eq(writer as i64))
            .limit(1)
            .with_count();
        assert_eq!(songs.query(query).unwrap().count, Some(KEYS));
    }
}

/// Copies the collection by its changes, from positions that it keeps.
fn follow(songs: &Collection, stop: &AtomicBool) -> (Vec<Position>, BTreeMap<Key, u64>) {
    let (mut seen, mut copied) = (vec![Position(0); 2], BTreeMap::new());
    loop {
        let is_last = stop.load(Ordering::Acquire);
        let mut tail = songs.tail_after(&seen).unwrap();
        for change in tail.by_ref() {
            let change = change.unwrap();
            copied.insert(change.key, n_of(&change.document.unwrap()));
        }
        seen = tail.seen();
        if is_last {
            return (seen, copied);
        }
        songs.wait_for_change(&seen, std::time::Duration::from_millis(20));
    }
}

#[test]
fn threads_that_write_and_read_see_one_collection_all_through_its_splits_and_merges() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path()).unwrap();
    let settings = CollectionSettings {
        partitions: 2,
        ..CollectionSettings::default()
    };
    let songs = database.create_collection("songs", settings).unwrap();
    let readers_stop = AtomicBool::new(false);
    let (stop, floors) = (AtomicBool::new(false), [(); 3].map(|()| AtomicU64::new(0)));
    let (written, seen, copied) = std::thread::scope(|scope| {
        let (songs, stop, readers_stop) = (&songs, &stop, &readers_stop);
        let start = |writer: u64| {
            let floor = &floors[writer as usize];
            scope.spawn(move || read(songs, writer, readers_stop, floor));
            scope.spawn(move || write(songs, writer, stop, floor))
        };
        let writers: Vec<_> = (0..WRITERS).map(start).collect();
        let follower = scope.spawn(move || follow(songs, readers_stop));
        for partitions in [4, 12, 2, 6, 3, 24] {
            let done = match (partitions as usize) < songs.positions().len() {
                true => database.merge_collection("songs", partitions, &|_| true),
                false => database.split_collection("songs", partitions, &|_| true),
            };
            done.unwrap();
            assert_eq!(songs.positions().len(), partitions as usize);
        }
        stop.store(true, Ordering::Release);
        let written = writers.into_iter().map(|one| one.join().unwrap());
        let written: Vec<u64> = written.collect();
        readers_stop.store(true, Ordering::Release);
        let (seen, copied) = follower.join().unwrap();
        (written, seen, copied)
    });
    assert_eq!(seen, songs.positions());
    assert_eq!(songs.count().unwrap(), WRITERS * KEYS);
    drop(songs);
    database.close().unwrap();
    let database = Database::open(dir.path()).unwrap();
    let songs = database.collection("songs").unwrap();
    assert_eq!(songs.settings().partitions, 24);
    for (writer, written) in (0..).zip(written) {
        for number in 0..KEYS {
            let found = songs.get(&key(writer, number)).unwrap().unwrap();
            assert_eq!(n_of(&found.document), written);
            assert_eq!(copied[&key(writer, number)], written);
        }
    }
    let again = database.split_collection("songs", 24, &|_| true);
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Invalid);
}

/// Counts up in the rows of a writer until it is told to stop, by single writes and by batches in
/// turns. Returns how far.
fn count_up(pages: &WideCollection, writer: u64, stop: &AtomicBool, floor: &AtomicU64) -> u64 {
    let mut n = 0;
    let mut versions = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) || n < 3 {
        n += 1;
        let row = |number: u64| {
            let text = Cell::String("x".repeat((n + number) as usize % 300));
            let add = || Change::merge("counts", Operand::Add(1)).of_member("n");
            let row = RowWrite::upsert(key(writer, number)).with(add());
            row.with(Change::set("text", text))
        };
        let mut take = |number: u64, version: Position| {
            let before = versions.insert(number, version);
            assert!(before.is_none_or(|before| before < version));
        };
        if n % 2 == 0 {
            for number in 0..KEYS {
                take(number, pages.write(&row(number)).unwrap().version);
            }
        } else {
            let mut batch = pages.batch();
            for number in 0..KEYS {
                take(number, batch.write(&row(number)).unwrap().version);
            }
            assert!(batch.finish().is_empty());
        }
        floor.store(n, Ordering::Release);
    }
    n
}

/// Reads what a writer has counted: never less than was acknowledged before.
fn read_counts(pages: &WideCollection, writer: u64, stop: &AtomicBool, floor: &AtomicU64) {
    let count = |key: &Key| {
        let Some(Cell::Int(n)) = pages.cell(key, "counts", Some("n")).unwrap() else {
            unreachable!("each row has its count")
        };
        n as u64
    };
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number = (number + 7) % KEYS;
        let least = floor.load(Ordering::Acquire);
        if least == 0 {
            continue;
        }
        assert!(count(&key(writer, number)) >= least);
        let found = pages.get(&key(writer, number)).unwrap().unwrap();
        assert!(found.document.get("text").is_some());
        let query = find(field("counts.n").gte(least as i64)).with_count();
        assert!(pages.query(query).unwrap().count.unwrap() >= KEYS);
    }
}

#[test]
fn threads_that_count_in_a_wide_collection_lose_nothing_in_its_splits() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path()).unwrap();
    let schema = Schema::from_json(
        br#"{"properties": {
            "text": {"type": "string", "group": "texts"},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}}
        }}"#,
    );
    let settings = CollectionSettings {
        partitions: 1,
        durability: Durability::None,
        ..CollectionSettings::default()
    };
    let made = database.create_wide_collection("pages", schema.unwrap(), settings);
    let pages = made.unwrap();
    let readers_stop = AtomicBool::new(false);
    let (stop, floors) = (AtomicBool::new(false), [(); 3].map(|()| AtomicU64::new(0)));
    let counted: Vec<u64> = std::thread::scope(|scope| {
        let (pages, stop, readers_stop) = (&pages, &stop, &readers_stop);
        let start = |writer: u64| {
            let floor = &floors[writer as usize];
            scope.spawn(move || read_counts(pages, writer, readers_stop, floor));
            scope.spawn(move || count_up(pages, writer, stop, floor))
        };
        let writers: Vec<_> = (0..WRITERS).map(start).collect();
        for (partitions, group) in [(2, "moved"), (6, "again"), (12, "texts")] {
            // Its cells move in the background while the partitions are split.
            let moved =
                database.alter_wide_collection("pages", |schema| schema.with_moved("text", group));
            moved.unwrap();
            let split = database.split_collection("pages", partitions, &|_| true);
            split.unwrap();
            assert_eq!(pages.positions().len(), partitions as usize);
        }
        stop.store(true, Ordering::Release);
        let counted = writers.into_iter().map(|one| one.join().unwrap());
        let counted = counted.collect();
        readers_stop.store(true, Ordering::Release);
        counted
    });
    assert_eq!(pages.count().unwrap(), WRITERS * KEYS);
    drop(pages);
    database.close().unwrap();
    let database = Database::open(dir.path()).unwrap();
    let pages = database.wide_collection("pages").unwrap();
    assert_eq!(pages.settings().partitions, 12);
    pages.move_columns().unwrap();
    for (writer, counted) in (0..).zip(counted) {
        for number in 0..KEYS {
            let cell = pages.cell(&key(writer, number), "counts", Some("n"));
            assert_eq!(cell.unwrap(), Some(Cell::Int(counted as i64)));
        }
    }
}
