//! Tails of wide collections: they have every change once, over splits and openings.

use super::numbers::Numbers;
use crate::{CollectionSettings, Database, DatabaseOptions, ErrorKind, Tail, WideCollection};
use quire_env::SimEnv;
use quire_model::{Key, Position};
use quire_wide::{
    Cell, CellEvent, Change, Operand, RowAction, RowCell, RowChange, RowWrite, Schema,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const KEYS: u64 = 12;
const SECS: u64 = 10_000_000;

fn schema() -> Schema {
    let json = br#"{"properties": {
        "n": {"type": "integer"},
        "links": {"type": "object", "additionalProperties": {"type": "integer"}, "group": "links"}
    }}"#;
    Schema::from_json(json).unwrap()
}

fn settings(partitions: u32) -> CollectionSettings {
    CollectionSettings {
        partitions,
        log_retention_secs: SECS,
        ..CollectionSettings::default()
    }
}

fn opened(env: &Arc<SimEnv>) -> Database {
    let options = DatabaseOptions {
        segment_bytes: 2_000,
        scrub_period: None,
        ..DatabaseOptions::default()
    };
    let builder = Database::builder("/db").env(env.clone()).options(options);
    builder.open().unwrap()
}

type Row = BTreeMap<(String, String), i64>;

/// Someone who tails a collection, and the rows that he knows by it.
#[derive(Debug, Clone)]
struct Reader {
    seen: Vec<Position>,
    rows: BTreeMap<Key, Row>,
    /// The versions of the changes, in their order.
    versions: Vec<(Key, Position)>,
}

impl Reader {
    fn new(collection: &WideCollection) -> Reader {
        Reader {
            seen: vec![Position(0); collection.positions().len()],
            rows: BTreeMap::new(),
            versions: Vec::new(),
        }
    }

    /// Reads at most `limit` changes.
    fn read(&mut self, collection: &WideCollection, limit: usize) {
        let mut tail: Tail<RowChange> = collection.tail_after(&self.seen).unwrap();
        for change in tail.by_ref().take(limit) {
            self.take(change.unwrap());
        }
        self.seen = tail.seen();
    }

    fn take(&mut self, change: RowChange) {
        self.versions.push((change.key.clone(), change.version));
        let at = |cell: &RowCell| {
            let member = cell.member.clone().unwrap_or_default();
            (cell.column.clone(), member)
        };
        let int = |cell: &Cell| match cell {
            Cell::Int(number) => *number,
            other => panic!("{other:?}"),
        };
        match change.action {
            RowAction::Delete => drop(self.rows.remove(&change.key)),
            RowAction::Put(cells) => {
                let cells = cells.iter().map(|cell| (at(cell), int(&cell.cell)));
                self.rows.insert(change.key, cells.collect());
            }
            RowAction::Patch(events) => {
                let row = self.rows.get_mut(&change.key).expect("it is there");
                for event in events {
                    match event {
                        CellEvent::Set(cell) => drop(row.insert(at(&cell), int(&cell.cell))),
                        CellEvent::Merged {
                            column,
                            member,
                            operand: Operand::Add(step),
                        } => *row.entry((column, member.unwrap_or_default())).or_default() += step,
                        CellEvent::MembersRemoved { column, .. } => {
                            row.retain(|(name, _), _| *name != column);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
    }
}

/// Does a write, and returns its key and version, if it wrote something.
fn write(collection: &WideCollection, numbers: &mut Numbers) -> Option<(Key, Position)> {
    let key = Key::from(numbers.below(KEYS) as i64);
    let n = numbers.below(1000) as i64;
    let member = format!("m{}", numbers.below(3));
    let add = Change::merge("links", Operand::Add(n)).of_member(member);
    let write = match numbers.below(5) {
        0 => RowWrite::delete(key.clone()),
        1 => RowWrite::put(key.clone())
            .with(Change::set("n", Cell::Int(n)))
            .with(add),
        2 => RowWrite::upsert(key.clone())
            .with(Change::remove("links"))
            .with(Change::set("n", Cell::Int(n))),
        3 => RowWrite::upsert(key.clone()).with(Change::merge("n", Operand::Add(n))),
        _ => RowWrite::upsert(key.clone()).with(add),
    };
    let written = collection.write(&write).unwrap();
    let is_written = written.effect != quire_collection::Effect::Unchanged;
    is_written.then_some((key, written.version))
}

/// The rows of a collection.
fn rows(collection: &WideCollection) -> BTreeMap<Key, Row> {
    let row = |key: Key| {
        collection.get(&key).unwrap()?;
        let mut row = Row::new();
        let plain = collection.cell(&key, "n", None).unwrap();
        let members = collection.members(&key, "links", None, None).unwrap();
        let members = members.map(|item| item.unwrap());
        let cells = plain.map(|cell| (("n".to_string(), String::new()), cell));
        let members = members.map(|(member, cell)| (("links".to_string(), member), cell));
        for (at, cell) in cells.into_iter().chain(members) {
            if let Cell::Int(number) = cell {
                row.insert(at, number);
            }
        }
        Some((key, row))
    };
    let keys = (0..KEYS).map(|key| Key::from(key as i64));
    keys.filter_map(row).collect()
}

/// A collection from its beginning on, over splits and openings, beside someone who tails it in
/// steps of any size.
fn life(seed: u64) {
    let env = SimEnv::new(seed);
    let mut numbers = Numbers(seed * 0x9e37_79b9 + 1);
    let mut database = opened(&env);
    let first = 1 + numbers.below(2) as u32;
    let created = database.create_wide_collection("c", schema(), settings(first));
    let mut collection = created.unwrap();
    let mut reader = Reader::new(&collection);
    let (mut written, mut old_readers) = (Vec::new(), vec![reader.clone()]);
    for round in 0..3 {
        for _ in 0..numbers.below(60) {
            written.extend(write(&collection, &mut numbers));
            match numbers.below(20) {
                0 => collection.flush().unwrap(),
                1 => drop(env.run_due()),
                2 => env.advance(Duration::from_secs(30)),
                3 => reader.read(&collection, numbers.below(10) as usize),
                _ => {}
            }
        }
        old_readers.push(reader.clone());
        match round {
            1 => {
                database.close().unwrap();
                database = opened(&env);
                collection = database.wide_collection("c").unwrap();
            }
            _ => {
                let parts = collection.positions().len() as u32 * 2;
                let state = RefCell::new((&mut written, &mut numbers, &mut reader));
                let watch = |_| {
                    let (written, numbers, reader) = &mut *state.borrow_mut();
                    written.extend(write(&collection, numbers));
                    reader.read(&collection, numbers.below(4) as usize);
                    true
                };
                database.split_collection("c", parts, &watch).unwrap();
            }
        }
        old_readers.push(reader.clone());
    }
    old_readers.push(reader);
    written.sort();
    let rows = rows(&collection);
    for mut reader in old_readers {
        reader.read(&collection, usize::MAX);
        assert_eq!(reader.rows, rows, "seed {seed}");
        reader.versions.sort();
        assert_eq!(reader.versions, written, "seed {seed}");
        reader.read(&collection, usize::MAX);
        assert_eq!(reader.versions.len(), written.len(), "seed {seed}");
    }
}

#[test]
fn a_tail_has_every_change_once_over_splits_and_openings() {
    (1..30).for_each(life);
}

#[test]
fn changes_are_kept_where_a_setting_says_so() {
    let env = SimEnv::new(7);
    let database = opened(&env);
    let kept = |secs| CollectionSettings {
        log_retention_secs: secs,
        partitions: 1,
        ..CollectionSettings::default()
    };
    let plain = database.create_collection("plain", kept(1)).unwrap_err();
    assert!(plain.to_string().contains("log_retention_secs"), "{plain}");

    let created = database.create_wide_collection("c", schema(), kept(0));
    let collection = created.unwrap();
    let put = |n| {
        let write = RowWrite::upsert(Key::from(1)).with(Change::set("n", Cell::Int(n)));
        collection.write(&write).unwrap().version
    };
    put(1);
    let error = collection.tail(Position(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("log_retention_secs"), "{error}");

    database.set_log_retention("c", 60).unwrap();
    assert_eq!(collection.settings().log_retention_secs, 60);
    let second = put(2);
    let changes: Vec<_> = collection.tail(Position(1)).unwrap().collect();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].as_ref().unwrap().version, second);
    // Also after an opening.
    database.close().unwrap();
    let database = opened(&env);
    let collection = database.wide_collection("c").unwrap();
    assert_eq!(collection.tail(Position(1)).unwrap().count(), 1);
    database.set_log_retention("c", 0).unwrap();
    assert!(collection.tail(Position(1)).is_err());
    let missing = database.set_log_retention("none", 1).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    database
        .create_collection("plain", Default::default())
        .unwrap();
    let plain = database.set_log_retention("plain", 1).unwrap_err();
    assert_eq!(plain.kind(), ErrorKind::Invalid);
}
