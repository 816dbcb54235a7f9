//! Splits of wide collections, against a model: rows and versions, writes and batches at every
//! point of a split, schemas that change meanwhile, crashes and faults at its steps.

use super::numbers::Numbers;
use super::open;
use super::splits::{assert_no_leftovers, end_at_steps, plan_end};
use crate::{CollectionSettings, Database, DatabaseOptions, ErrorKind, WideCollection, WriteRates};
use quire_env::SimEnv;
use quire_model::{Document, Key, Position};
use quire_query::{field, find};
use quire_seeded::{Bug, assert_each_is_found};
use quire_wide::{Cell, Change, Condition, Operand, RowWrite, Schema};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const KEYS: u64 = 40;

pub(super) fn schema() -> Schema {
    let json = br#"{"properties": {
        "n": {"type": "integer"},
        "text": {"type": "string", "group": "texts"},
        "links": {"type": "object", "additionalProperties": {"type": "integer"}, "group": "links"}
    }}"#;
    Schema::from_json(json).unwrap()
}

pub(super) fn settings(partitions: u32) -> CollectionSettings {
    CollectionSettings {
        partitions,
        ..CollectionSettings::default()
    }
}

pub(super) fn opened(env: &Arc<SimEnv>) -> Database {
    let options = DatabaseOptions {
        segment_bytes: 4_000,
        ..DatabaseOptions::default()
    };
    let builder = Database::builder("/db").env(env.clone()).options(options);
    builder.open().unwrap()
}

pub(super) fn key(n: u64) -> Key {
    Key::from(n as i64)
}

/// What is known of a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Row {
    n: Option<i64>,
    text: Option<String>,
    links: BTreeMap<String, i64>,
    pub(super) version: Position,
}

pub(super) type Model = BTreeMap<Key, Row>;

/// A random change of a row, and the row after it; none if it is removed.
fn change(numbers: &mut Numbers, key: &Key, before: Option<&Row>) -> (RowWrite, Option<Row>) {
    let n = numbers.below(1000) as i64;
    let mut row = before.cloned().unwrap_or_default();
    let member = format!("m{}", numbers.below(3));
    let write = match numbers.below(6) {
        0 => return (RowWrite::delete(key.clone()), None),
        1 => {
            row = Row {
                n: Some(n),
                ..Row::default()
            };
            RowWrite::put(key.clone()).with(Change::set("n", Cell::Int(n)))
        }
        2 => {
            let text = "kettle ".repeat(n as usize % 40);
            row.text = Some(text.clone());
            RowWrite::upsert(key.clone()).with(Change::set("text", Cell::String(text)))
        }
        3 => {
            row.n = Some(row.n.unwrap_or(0) + n);
            RowWrite::upsert(key.clone()).with(Change::merge("n", Operand::Add(n)))
        }
        4 => {
            row.links.clear();
            row.n = Some(n);
            RowWrite::upsert(key.clone())
                .with(Change::remove_members("links", None, None))
                .with(Change::set("n", Cell::Int(n)))
        }
        _ => {
            *row.links.entry(member.clone()).or_default() += n;
            let add = Change::merge("links", Operand::Add(n));
            RowWrite::upsert(key.clone()).with(add.of_member(member))
        }
    };
    let write = match before {
        Some(row) if numbers.below(3) == 0 => write.condition(Condition::IfVersion(row.version)),
        None if numbers.below(3) == 0 => write.condition(Condition::IfAbsent),
        _ => write,
    };
    (write, Some(row))
}

pub(super) fn write(collection: &WideCollection, model: &mut Model, numbers: &mut Numbers) {
    let key = key(numbers.below(KEYS));
    let (write, after) = change(numbers, &key, model.get(&key));
    let written = collection.write(&write).unwrap();
    take(model, key, after, written.version);
}

fn take(model: &mut Model, key: Key, after: Option<Row>, version: Position) {
    match after {
        Some(row) => {
            let before = model.insert(key, Row { version, ..row });
            assert!(before.is_none_or(|row| row.version < version));
        }
        None => drop(model.remove(&key)),
    }
}

/// A row as its cells say; none if there is none.
pub(super) fn row_of(collection: &WideCollection, key: &Key) -> Option<Row> {
    let cell = |column| collection.cell(key, column, None).unwrap();
    let number = |cell| match cell {
        Cell::Int(n) => n,
        other => panic!("{other:?}"),
    };
    let (n, text) = (cell("n").map(number), cell("text"));
    let members = collection.members(key, "links", None, None).unwrap();
    let members = members.map(|item| item.unwrap());
    let links: BTreeMap<String, i64> = members
        .map(|(member, cell)| (member, number(cell)))
        .collect();
    let Some(found) = collection.get(key).unwrap() else {
        assert!(n.is_none() && text.is_none() && links.is_empty(), "{key}");
        return None;
    };
    Some(Row {
        n,
        text: text.map(|cell| match cell {
            Cell::String(text) => text,
            other => panic!("{other:?}"),
        }),
        links,
        version: found.version,
    })
}

/// Compares all ways to read with the model.
pub(super) fn compare(collection: &WideCollection, model: &Model) {
    assert_eq!(collection.count().unwrap(), model.len() as u64);
    let keys: Vec<Key> = (0..KEYS).map(key).collect();
    let many = collection.get_many(&keys, None, 1 << 20).unwrap();
    for (key, of_many) in keys.iter().zip(many) {
        let found = collection.get(key).unwrap();
        let row = model.get(key);
        let shown = found.map(|found| (found.document.to_json(), found.version));
        let of_many = match of_many.unwrap() {
            quire_collection::Within::Found(found) => {
                Some((found.document.to_json(), found.version))
            }
            _ => None,
        };
        assert_eq!(shown, of_many, "{key}");
        assert_eq!(
            shown.map(|(_, version)| version),
            row.map(|row| row.version)
        );
        assert_eq!(row_of(collection, key).as_ref(), row, "{key}");
    }
    let mut scanned: Vec<Key> = collection
        .rows()
        .unwrap()
        .map(|row| row.unwrap().key)
        .collect();
    scanned.sort();
    assert!(scanned.iter().eq(model.keys()));
    for n in model.values().filter_map(|row| row.n).take(3) {
        let page = collection
            .query(find(field("n").eq(n)).with_count())
            .unwrap();
        let expected = model.values().filter(|row| row.n == Some(n)).count();
        assert_eq!(page.count, Some(expected as u64));
    }
    for partition in collection.partitions().iter() {
        partition.check(&mut |problem| panic!("{problem}")).unwrap();
    }
}

/// A collection from its beginning on, over several splits. Gives the number of partitions.
fn life(seed: u64) -> u32 {
    let env = SimEnv::new(seed);
    let database = opened(&env);
    let mut numbers = Numbers(seed * 0x9e37_79b9 + 1);
    let first = 1 + numbers.below(3) as u32;
    let created = database.create_wide_collection("c", schema(), settings(first));
    let collection = created.unwrap();
    let mut model = Model::new();
    for round in 0..3 {
        for _ in 0..numbers.below(100) {
            write(&collection, &mut model, &mut numbers);
            match numbers.below(30) {
                0 => collection.flush().unwrap(),
                1 => collection.compact().unwrap(),
                2 => drop(env.run_due()),
                3 => env.advance(Duration::from_millis(100)),
                _ => {}
            }
        }
        let old_view = collection.view().unwrap();
        let (old_model, now) = (model.clone(), collection.settings().partitions);
        let factor = 2 + numbers.below(2) as u32;
        let give_up = numbers.below(4) == 0;
        let state = RefCell::new((&mut model, &mut numbers));
        // What a batch has written is durable by the split, or by its end.
        let mut batch = collection.batch();
        let in_batch = key(KEYS + round);
        let of_batch = RowWrite::put(in_batch.clone()).with(Change::set("n", Cell::Int(-1)));
        batch.write(&of_batch).unwrap();
        let watch = |_| {
            let (model, numbers) = &mut *state.borrow_mut();
            for _ in 0..numbers.below(4) {
                write(&collection, model, numbers);
            }
            match numbers.below(20) {
                0 => collection.flush().unwrap(),
                1 => collection.compact().unwrap(),
                2 => drop(env.run_due()),
                3 => {
                    let column = format!("c{}", numbers.below(1 << 40));
                    let altered = database.alter_wide_collection("c", |schema| {
                        schema.with_column(&column, quire_wide::ColumnType::Int, "more")
                    });
                    altered.unwrap();
                }
                _ => {}
            }
            !(give_up && numbers.below(10) == 0)
        };
        match database.split_collection("c", now * factor, &watch) {
            Ok(()) => assert_eq!(collection.positions().len() as u32, now * factor),
            Err(error) => assert!(give_up && error.kind() == ErrorKind::Closed, "{error}"),
        }
        assert!(batch.finish().is_empty());
        collection.delete(&in_batch).unwrap();
        compare(&collection, &model);
        // A view of before shows what was there.
        for (key, row) in &old_model {
            let found = old_view.get(key).unwrap().unwrap();
            assert_eq!(found.version, row.version);
        }
    }
    let (partitions, identity) = (collection.settings().partitions, collection.identity());
    drop((collection, database));
    let database = opened(&env);
    let collection = database.wide_collection("c").unwrap();
    assert_eq!(collection.settings().partitions, partitions);
    assert_eq!(collection.identity(), identity);
    compare(&collection, &model);
    for _ in 0..30 {
        write(&collection, &mut model, &mut numbers);
    }
    collection.compact().unwrap();
    compare(&collection, &model);
    partitions
}

#[test]
fn a_wide_collection_is_split_while_it_is_written() {
    let partitions: u32 = (1..=25).map(life).sum();
    assert!(partitions > 25 * 6, "{partitions} partitions");
}

/// Writes a random row. Gives its key, and what it is then, if it is not known whether it was
/// written.
pub(super) fn write_or_doubt(
    collection: &WideCollection,
    model: &mut Model,
    numbers: &mut Numbers,
) -> Option<(Key, Option<Row>)> {
    let key = key(numbers.below(KEYS));
    let (write, after) = change(numbers, &key, model.get(&key));
    let Ok(written) = collection.write(&write) else {
        return Some((key, after));
    };
    take(model, key, after, written.version);
    None
}

/// A split with writes meanwhile that a crash or a fault ends at `step`. What was acknowledged is
/// there, before and after the split. Gives the number of steps.
fn broken_split(step: Option<u64>, is_crash: bool, seed: u64) -> u64 {
    let env = SimEnv::new(7);
    let database = open(&env).unwrap();
    let created = database.create_wide_collection("c", schema(), settings(1));
    let collection = created.unwrap();
    let (mut model, mut numbers) = (Model::new(), Numbers(77));
    for _ in 0..30 {
        write(&collection, &mut model, &mut numbers);
    }
    collection.flush().unwrap();
    write(&collection, &mut model, &mut numbers);
    let first = plan_end(&env, step, is_crash);
    let unknown = RefCell::new(None);
    let acknowledged = RefCell::new((&mut model, &mut numbers));
    let watch = |_| {
        if unknown.borrow().is_some() {
            return false;
        }
        let (model, numbers) = &mut *acknowledged.borrow_mut();
        *unknown.borrow_mut() = write_or_doubt(&collection, model, numbers);
        true
    };
    let split = database.split_collection("c", 2, &watch);
    let steps = env.operations() - first;
    let unknown = unknown.into_inner();
    let is_split = split.map(drop);
    drop((collection, database));
    let env = env.after_crash(seed);
    let database = open(&env).unwrap();
    let collection = database.wide_collection("c").unwrap();
    let partitions = collection.settings().partitions;
    assert!(partitions == 2 || partitions == 1 && is_split.is_err());
    if let Some((key, after)) = unknown {
        let found = collection.get(&key).unwrap().map(|found| found.version);
        if found != model.get(&key).map(|row| row.version) {
            take(&mut model, key, after, found.unwrap_or_default());
        }
    }
    compare(&collection, &model);
    for _ in 0..5 {
        write(&collection, &mut model, &mut numbers);
    }
    let twice = database.split_collection("c", partitions * 2, &|_| true);
    twice.unwrap();
    assert_eq!(collection.positions().len() as u32, partitions * 2);
    compare(&collection, &model);
    assert_no_leftovers(&env);
    steps
}

#[test]
fn a_crash_or_a_fault_at_any_step_of_a_split_loses_no_row() {
    end_at_steps(u64::MAX, 100, broken_split);
}

#[test]
fn bugs_of_splits_are_found_in_wide_collections() {
    let bugs: Vec<Bug> = Bug::OF_SPLITS
        .iter()
        .copied()
        .filter(|bug| *bug != Bug::SplitPositionNotHeld)
        .collect();
    assert_each_is_found(&bugs, || {
        (1..=4).for_each(|seed| assert!(life(seed) > 0));
        end_at_steps(120, 100, broken_split);
    });
}

#[test]
fn a_split_that_can_not_be_is_refused_and_one_is_due_by_the_setting() {
    let database = open(&SimEnv::new(1)).unwrap();
    let large = CollectionSettings {
        split_bytes: 1 << 20,
        ..settings(2)
    };
    let created = database.create_wide_collection("c", schema(), large);
    let collection = created.unwrap();
    let document = Document::from_json(br#"{"n":1}"#).unwrap();
    collection.put(&key(1), &document).unwrap();
    for (partitions, says) in [(3, "multiple"), (2, "multiple"), (2048, "1024")] {
        let refused = database.split_collection("c", partitions, &|_| true);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(says), "{refused}");
    }
    assert!(
        database
            .all_partitions_due(&mut WriteRates::default())
            .is_empty()
    );
    let mut numbers = Numbers(5);
    for n in 0..2_000 {
        let text: String = (0..100)
            .map(|_| format!("{:x}", numbers.below(u64::MAX)))
            .collect();
        let text = Change::set("text", Cell::String(text));
        collection.write(&RowWrite::put(key(n)).with(text)).unwrap();
    }
    collection.flush().unwrap();
    assert_eq!(
        database.all_partitions_due(&mut WriteRates::default()),
        [("c".to_string(), 4)]
    );
    database.split_collection("c", 4, &|_| true).unwrap();
    assert_eq!(collection.count().unwrap(), 2_000);
}
