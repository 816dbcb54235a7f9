//! Merges of wide collections, against a model: rows and versions that grow, writes and schemas
//! that change at every point of a merge, readers of changes, crashes and faults at its steps.

use super::merges::other_count;
use super::numbers::Numbers;
use super::open;
use super::splits::{assert_no_leftovers, end_at_steps, plan_end};
use super::wide_splits::{
    Model, Row, compare, key, opened, row_of, schema, settings, write, write_or_doubt,
};
use crate::{CollectionSettings, Database, ErrorKind, WideCollection, WriteRates};
use quire_env::SimEnv;
use quire_model::{Key, Position};
use quire_seeded::{Bug, assert_each_is_found};
use quire_wide::{Cell, Change, ColumnType, RowAction, RowWrite};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

/// Takes the versions that rows have since a merge, all higher than before.
fn take_versions(collection: &WideCollection, model: &mut Model) {
    for (key, row) in model.iter_mut() {
        let found = collection.get(key).unwrap().expect("a merge keeps rows");
        assert!(row.version < found.version, "versions grow by a merge");
        row.version = found.version;
    }
}

/// Adds a column, or has one be in another group.
fn alter(database: &Database, numbers: &mut Numbers) {
    let column = format!("c{}", numbers.below(1 << 40));
    let group = ["texts", "links", "more", "default"][numbers.below(4) as usize];
    let is_added = numbers.below(3) == 0;
    let altered = database.alter_wide_collection("c", |schema| match is_added {
        true => schema.with_column(&column, ColumnType::Int, "more"),
        false => {
            let schema = schema.with_column(&column, ColumnType::Int, "more")?;
            schema.with_moved("n", group)
        }
    });
    altered.unwrap();
}

/// A collection that is split and merged, while it is written, by turns. Gives the number of
/// merges.
fn life(seed: u64) -> u64 {
    let env = SimEnv::new(seed);
    let database = opened(&env);
    let mut numbers = Numbers(seed * 0x9e37_79b9 + 1);
    let first = [6, 4, 2][numbers.below(3) as usize];
    let mut of_first = settings(first);
    of_first.log_retention_secs = [0, 1_000_000][numbers.below(2) as usize];
    let created = database.create_wide_collection("c", schema(), of_first);
    let collection = created.unwrap();
    let (mut model, mut merges) = (Model::new(), 0);
    for _ in 0..4 {
        for _ in 0..numbers.below(100) {
            write(&collection, &mut model, &mut numbers);
            match numbers.below(30) {
                0 => collection.flush().unwrap(),
                1 => collection.compact().unwrap(),
                2 => drop(env.run_due()),
                3 => env.advance(Duration::from_millis(100)),
                4 => alter(&database, &mut numbers),
                _ => {}
            }
        }
        let now = collection.settings().partitions;
        let (old_view, old_model) = (collection.view().unwrap(), model.clone());
        let count = other_count(&mut numbers, now);
        let give_up = numbers.below(5) == 0;
        let state = RefCell::new((&mut model, &mut numbers));
        let watch = |_| {
            let (model, numbers) = &mut *state.borrow_mut();
            for _ in 0..numbers.below(4) {
                write(&collection, model, numbers);
            }
            match numbers.below(20) {
                0 => collection.flush().unwrap(),
                1 => collection.compact().unwrap(),
                2 => drop(env.run_due()),
                3 => env.advance(Duration::from_millis(100)),
                4 => alter(&database, numbers),
                _ => {}
            }
            !(give_up && numbers.below(10) == 0)
        };
        let done = match count < now {
            true => database.merge_collection("c", count, &watch),
            false => database.split_collection("c", count, &watch),
        };
        match done {
            Ok(()) => {
                assert_eq!(collection.positions().len() as u32, count);
                if count < now {
                    take_versions(&collection, &mut model);
                    merges += 1;
                }
            }
            Err(error) => assert!(give_up && error.kind() == ErrorKind::Closed, "{error}"),
        }
        compare(&collection, &model);
        for (key, row) in &old_model {
            let found = old_view.get(key).unwrap().unwrap();
            assert_eq!(found.version, row.version, "a view shows what was there");
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
    merges
}

#[test]
fn partitions_of_a_wide_collection_are_merged_while_they_are_written() {
    let merges: u64 = (1..=40).map(life).sum();
    assert!(merges > 40, "{merges} merges");
}

/// A merge with writes meanwhile that a crash or a fault ends at `step`. What was acknowledged is
/// there, before and after the merge. Gives the number of steps.
fn broken_merge(step: Option<u64>, is_crash: bool, seed: u64) -> u64 {
    let env = SimEnv::new(7);
    let database = open(&env).unwrap();
    let mut of_four = settings(4);
    of_four.log_retention_secs = 1_000_000;
    let created = database.create_wide_collection("c", schema(), of_four);
    let collection = created.unwrap();
    let (mut model, mut numbers) = (Model::new(), Numbers(77));
    for _ in 0..40 {
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
    let merged = database.merge_collection("c", 2, &watch);
    let steps = env.operations() - first;
    let unknown = unknown.into_inner();
    drop((collection, database));
    let env = env.after_crash(seed);
    let database = open(&env).unwrap();
    let collection = database.wide_collection("c").unwrap();
    let partitions = collection.settings().partitions;
    assert!(partitions == 2 || partitions == 4 && merged.is_err());
    if let Some((key, after)) = unknown {
        let found = row_of(&collection, &key);
        let with_version = |mut row: Row| {
            row.version = found.as_ref().map_or(Position(0), |found| found.version);
            row
        };
        let is_it = |row: Option<Row>| found == row.map(with_version);
        assert!(is_it(model.remove(&key)) || is_it(after), "one of the two");
        model.extend(found.map(|row| (key, row)));
    }
    for (key, row) in &mut model {
        let found = collection.get(key).unwrap().expect("it was written");
        assert!(partitions == 2 || found.version == row.version);
        row.version = found.version.max(row.version);
    }
    compare(&collection, &model);
    for _ in 0..5 {
        write(&collection, &mut model, &mut numbers);
    }
    database.merge_collection("c", 1, &|_| true).unwrap();
    assert_eq!(collection.positions().len(), 1);
    take_versions(&collection, &mut model);
    compare(&collection, &model);
    assert_no_leftovers(&env);
    steps
}

#[test]
fn a_crash_or_a_fault_at_any_step_of_a_merge_loses_no_row() {
    end_at_steps(u64::MAX, 100, broken_merge);
}

#[test]
fn bugs_of_merges_are_found_in_wide_collections() {
    assert_each_is_found(Bug::OF_MERGES, || {
        (1..=8).for_each(|seed| assert!(life(seed) > 0));
        (1..=8).for_each(readers);
        end_at_steps(120, 100, broken_merge);
    });
}

/// What was done to each row, in order: its stamp, or none if it was removed.
type Done = BTreeMap<Key, Vec<Option<i64>>>;

/// Someone who reads changes, and what he knows of each row.
#[derive(Debug, Clone)]
struct Reader {
    seen: Vec<Position>,
    done: Done,
    /// The versions of the last changes.
    versions: BTreeMap<Key, Position>,
}

impl Reader {
    /// Reads at most this number of changes. `all` is what was done: he misses none, and may see
    /// some once more.
    fn read(&mut self, collection: &WideCollection, limit: usize, all: &Done) {
        let mut tail = collection.tail_after(&self.seen).unwrap();
        let mut read = Done::new();
        for change in tail.by_ref().take(limit) {
            let change = change.unwrap();
            let stamp = |cell: &Cell| match cell {
                Cell::Int(stamp) => *stamp,
                other => panic!("{other:?}"),
            };
            let stamp = match &change.action {
                RowAction::Delete => None,
                RowAction::Put(cells) => cells.first().map(|one| stamp(&one.cell)),
                RowAction::Patch(events) => match &events[0] {
                    quire_wide::CellEvent::Set(one) => Some(stamp(&one.cell)),
                    other => panic!("{other:?}"),
                },
            };
            self.versions.insert(change.key.clone(), change.version);
            read.entry(change.key).or_default().push(stamp);
        }
        self.seen = tail.seen();
        for (key, read) in read {
            let (known, all) = (self.done.entry(key.clone()).or_default(), &all[&key]);
            // Where what was read begins: not after what he knows.
            let begins = (0..=known.len())
                .rev()
                .find(|at| all[*at..].starts_with(&read));
            let begins =
                begins.unwrap_or_else(|| panic!("{key}: {read:?} after {known:?} of {all:?}"));
            known.truncate(begins);
            known.extend(read);
            *known = all[..known.len()].to_vec();
        }
    }
}

/// A collection that is split, merged and opened again beside readers.
fn readers(seed: u64) {
    let env = SimEnv::new(seed);
    let mut numbers = Numbers(seed * 0x9e37_79b9 + 1);
    let mut database = opened(&env);
    let kept = CollectionSettings {
        log_retention_secs: 10_000_000,
        ..settings([6, 4][numbers.below(2) as usize])
    };
    let created = database.create_wide_collection("c", schema(), kept);
    let mut collection = created.unwrap();
    let mut done = Done::new();
    let mut reader = Reader {
        seen: collection.positions(),
        done: Done::new(),
        versions: BTreeMap::new(),
    };
    let mut readers = vec![reader.clone()];
    let mut stamp = 0;
    let mut write = |collection: &WideCollection, numbers: &mut Numbers, done: &mut Done| {
        let key = key(numbers.below(12));
        stamp += 1;
        let set = Change::set("n", Cell::Int(stamp));
        let (write, stamp) = match numbers.below(4) {
            0 => (RowWrite::delete(key.clone()), None),
            1 => (RowWrite::put(key.clone()).with(set), Some(stamp)),
            _ => (RowWrite::upsert(key.clone()).with(set), Some(stamp)),
        };
        let written = collection.write(&write).unwrap();
        if written.effect != quire_collection::Effect::Unchanged {
            done.entry(key).or_default().push(stamp);
        }
    };
    for _ in 0..4 {
        for _ in 0..numbers.below(60) {
            write(&collection, &mut numbers, &mut done);
            match numbers.below(20) {
                0 => collection.flush().unwrap(),
                1 => drop(env.run_due()),
                2 => env.advance(Duration::from_secs(30)),
                3 => reader.read(&collection, numbers.below(10) as usize, &done),
                _ => {}
            }
        }
        readers.push(reader.clone());
        let now = collection.settings().partitions;
        let count = other_count(&mut numbers, now);
        let state = RefCell::new((&mut done, &mut numbers, &mut reader, &mut write));
        let watch = |_| {
            let (done, numbers, reader, write) = &mut *state.borrow_mut();
            write(&collection, numbers, done);
            reader.read(&collection, numbers.below(4) as usize, done);
            true
        };
        match count < now {
            true => database.merge_collection("c", count, &watch).unwrap(),
            false => database.split_collection("c", count, &watch).unwrap(),
        }
        readers.push(reader.clone());
        if numbers.below(3) == 0 {
            database.close().unwrap();
            database = opened(&env);
            collection = database.wide_collection("c").unwrap();
        }
    }
    readers.push(reader);
    for mut reader in readers {
        reader.read(&collection, usize::MAX, &done);
        assert_eq!(reader.done, done, "seed {seed}");
        for (key, version) in &reader.versions {
            if let Some(found) = collection.get(key).unwrap() {
                assert!(found.version >= *version, "seed {seed}, {key}");
            }
        }
        assert_eq!(collection.tail_after(&reader.seen).unwrap().count(), 0);
    }
    // From the beginning: each change once, and the version of the last is that of its row.
    let mut all = Reader {
        seen: vec![Position(0); collection.positions().len()],
        done: Done::new(),
        versions: BTreeMap::new(),
    };
    let changes = collection.tail_after(&all.seen).unwrap().count();
    assert_eq!(changes, done.values().flatten().count(), "seed {seed}");
    all.read(&collection, usize::MAX, &done);
    assert_eq!(all.done, done, "seed {seed}");
    for (key, version) in &all.versions {
        if let Some(found) = collection.get(key).unwrap() {
            assert_eq!(found.version, *version, "seed {seed}, {key}");
        }
    }
}

#[test]
fn no_reader_misses_a_change_over_merges() {
    (1..=40).for_each(readers);
}

#[test]
fn a_reader_that_is_level_sees_nothing_again_and_one_from_before_the_kept_log_is_told() {
    let database = opened(&SimEnv::new(3));
    let created = database.create_wide_collection("c", schema(), settings(4));
    let collection = created.unwrap();
    let put = |numbers: std::ops::Range<u64>| {
        for n in numbers {
            let set = Change::set("n", Cell::Int(n as i64));
            collection.write(&RowWrite::put(key(n)).with(set)).unwrap();
        }
    };
    put(0..1_000);
    let early = collection.positions();
    put(1_000..2_000);
    database.set_log_retention("c", 1_000_000).unwrap();
    let kept = collection.positions();
    put(2_000..4_000);
    let late = collection.positions();
    put(4_000..4_500);
    let level = collection.positions();
    let count = |seen: &[Position]| {
        let changes = collection.tail_after(seen)?;
        Ok(changes.collect::<crate::Result<Vec<_>>>()?.len())
    };
    let gone = |seen: &[Position]| {
        let error: crate::Error = count(seen).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
    };
    gone(&early);
    assert_eq!(count(&[Position(0); 4]).unwrap(), 2_500);
    database.merge_collection("c", 2, &|_| true).unwrap();
    assert_eq!(count(&level).unwrap(), 0);
    // There are marks every 1,024 changes of each of the two.
    let missed = count(&late).unwrap();
    assert!((500..=2_500).contains(&missed), "{missed}");
    gone(&early);
    gone(&[Position(1); 4]);
    assert_eq!(count(&[Position(0); 4]).unwrap(), 2_500);
    assert_eq!(count(&[Position(0); 2]).unwrap(), 2_500);
    assert_eq!(count(&kept).unwrap(), 2_500);
    put(5_000..5_100);
    assert_eq!(count(&level).unwrap(), 100);
}

#[test]
fn small_wide_partitions_are_due_to_be_merged() {
    let database = open(&SimEnv::new(1)).unwrap();
    let limited = CollectionSettings {
        split_bytes: 1 << 20,
        ..settings(2)
    };
    let created = database.create_wide_collection("c", schema(), limited);
    let collection = created.unwrap();
    assert_eq!(database.partitions_due("c").unwrap(), None);
    database.split_collection("c", 4, &|_| true).unwrap();
    assert_eq!(
        database.all_partitions_due(&mut WriteRates::default()),
        [("c".to_string(), 2)]
    );
    database.merge_collection("c", 2, &|_| true).unwrap();
    assert_eq!(database.partitions_due("c").unwrap(), None);
    let error = database.merge_collection("c", 3, &|_| true).unwrap_err();
    assert!(error.to_string().contains("divides"), "{error}");
    assert_eq!(collection.count().unwrap(), 0);
}
