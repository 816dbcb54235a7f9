//! Splits of partitions, against a model: documents and versions, queries, changes after positions
//! of before, writes at every point of a split, crashes and faults at its steps.

use super::numbers::Numbers;
use super::open;
use crate::{Collection, CollectionSettings, Database, DatabaseOptions, ErrorKind};
use quire_collection::{Condition, Write};
use quire_env::{Env, Fault, SimEnv};
use quire_model::{Document, Key, Position};
use quire_query::{field, find};
use quire_seeded::{Bug, assert_each_is_found};
use quire_store::Durability;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(super) const KEYS: u64 = 60;

pub(super) fn document(n: u64) -> Document {
    let text = "a kettle ".repeat(n as usize % 9);
    Document::from_json(format!(r#"{{"n":{n},"text":"{text}"}}"#).as_bytes()).unwrap()
}

pub(super) fn key(n: u64) -> Key {
    Key::from(n as i64)
}

/// What is known of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) n: u64,
    pub(super) version: Position,
    pub(super) external: Option<u64>,
    pub(super) expires: Option<i64>,
}

pub(super) type Model = BTreeMap<Key, Known>;

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

/// A random write, and what is known after it.
pub(super) fn write(collection: &Collection, model: &mut Model, numbers: &mut Numbers, now: i64) {
    let (key, n) = (key(numbers.below(KEYS)), numbers.below(1000));
    let old = model.get(&key).copied();
    let mut write = match numbers.below(4) {
        0 => Write::delete(key.clone()),
        1 if old.is_some() => Write::patch(key.clone(), document(n)),
        _ => Write::put(key.clone(), document(n)),
    };
    let is_delete = write.action == quire_collection::Action::Delete;
    let mut expires = match write.action {
        quire_collection::Action::Patch(_) => old.and_then(|old| old.expires),
        _ => None,
    };
    if numbers.below(5) == 0 && !is_delete {
        expires = Some(now + 1_000_000_000_000);
        write = write.expiring(quire_collection::Expiry::At(now + 1_000_000_000_000));
    }
    if numbers.below(6) == 0 {
        write.condition = Condition::External(1_000_000 + numbers.below(1_000_000));
    } else if let Some(old) = old
        && numbers.below(3) == 0
    {
        write.condition = Condition::IfVersion(old.version);
    }
    match collection.write().run(write) {
        Ok(_) if is_delete => drop(model.remove(&key).is_some()),
        Ok(written) => {
            assert!(
                old.is_none_or(|old| old.version <= written.version),
                "versions of a document grow"
            );
            let (version, external) = (written.version, written.external);
            let known = Known {
                n,
                version,
                external,
                expires,
            };
            model.insert(key, known);
        }
        Err(error) if error.kind() == ErrorKind::Conflict => {}
        Err(error) => panic!("{error}"),
    }
}

/// Compares all ways to read with the model.
pub(super) fn compare(collection: &Collection, model: &Model) {
    let view = collection.view().unwrap();
    assert_eq!(view.count(), model.len() as u64);
    let keys: Vec<Key> = (0..KEYS).map(key).collect();
    let many = collection.get_many(&keys).unwrap();
    for (key, of_many) in keys.iter().zip(many) {
        let found = collection.get(key).unwrap();
        let known = |found: &quire_collection::Found| Known {
            n: number(&found.document),
            version: found.version,
            external: found.external,
            expires: found.expires_micros,
        };
        assert_eq!(found.as_ref().map(known), model.get(key).copied(), "{key}");
        assert_eq!(of_many.as_ref().map(known), model.get(key).copied());
    }
    let scanned = view.scan(..).unwrap().map(|found| found.unwrap().key);
    assert!(scanned.eq(model.keys().cloned()));
    for n in model.values().map(|known| known.n).take(5) {
        let query = find(field("n").eq(n as i64)).with_count();
        let page = collection.query(query).unwrap();
        let expected = model.values().filter(|known| known.n == n).count();
        assert_eq!(page.count, Some(expected as u64));
    }
    for partition in collection.partitions().iter() {
        let mut wrong = |found| panic!("{found:?}");
        partition.check(&mut wrong).unwrap();
    }
}

pub(super) fn number(document: &Document) -> u64 {
    match document.get("n") {
        Some(quire_model::ValueRef::Int(n)) => n as u64,
        other => panic!("{other:?}"),
    }
}

/// One who copies a collection by its changes, and keeps positions for long.
#[derive(Default)]
pub(super) struct Copier {
    seen: Option<Vec<Position>>,
    copied: BTreeMap<Key, (u64, Position)>,
}

impl Copier {
    pub(super) fn read(&mut self, collection: &Collection) {
        let mut tail = match &self.seen {
            Some(seen) => collection.tail_after(seen).unwrap(),
            None => collection.tail(Position(1)).unwrap(),
        };
        for change in tail.by_ref() {
            let change = change.unwrap();
            let was = self.copied.get(&change.key);
            assert!(was.is_none_or(|(_, version)| *version < change.version));
            match change.document {
                Some(document) => {
                    let copied = (number(&document), change.version);
                    self.copied.insert(change.key, copied);
                }
                None => drop(self.copied.remove(&change.key)),
            }
        }
        assert_eq!(tail.seen(), collection.positions());
        self.seen = Some(tail.seen());
    }

    /// As [`compare`](Copier::compare), without versions: one that is level does not see that they
    /// have grown by a merge.
    pub(super) fn compare_contents(&self, model: &Model) {
        let copied = self.copied.iter().map(|(key, (n, _))| (key, *n));
        assert!(copied.eq(model.iter().map(|(key, known)| (key, known.n))));
    }

    fn compare(&self, model: &Model) {
        let copied = self.copied.iter();
        let known = model.iter().map(|(key, it)| (key, &it.n, &it.version));
        assert!(
            copied
                .map(|(key, (n, version))| (key, n, version))
                .eq(known)
        );
    }
}

/// A collection from its beginning on, over several splits. Gives the number of partitions.
fn life(seed: u64) -> u32 {
    let env = SimEnv::new(seed);
    let mut database = opened(&env);
    let mut numbers = Numbers(seed * 0x9e37_79b9 + 1);
    let first = 1 + numbers.below(3) as u32;
    let mut collection = database.create_collection("c", settings(first)).unwrap();
    let (mut model, mut copier) = (Model::new(), Copier::default());
    let held = collection.clone();
    for _ in 0..4 {
        for _ in 0..numbers.below(120) {
            write(&collection, &mut model, &mut numbers, env.now_micros());
            match numbers.below(30) {
                0 => collection.flush().unwrap(),
                1 => collection.compact().unwrap(),
                2 => copier.read(&collection),
                3 => drop(env.run_due()),
                4 => env.advance(Duration::from_millis(100)),
                _ => {}
            }
        }
        let old_view = collection.view().unwrap();
        let (old_model, now) = (model.clone(), collection.settings().partitions);
        let factor = 2 + numbers.below(2) as u32;
        let give_up = numbers.below(4) == 0;
        let state = RefCell::new((&mut model, &mut numbers, &mut copier));
        let watch = |_| {
            let (model, numbers, copier) = &mut *state.borrow_mut();
            for _ in 0..numbers.below(4) {
                write(&collection, model, numbers, env.now_micros());
            }
            match numbers.below(20) {
                0 => collection.flush().unwrap(),
                1 => collection.compact().unwrap(),
                2 => copier.read(&collection),
                _ => {}
            }
            !(give_up && numbers.below(10) == 0)
        };
        let split = database.split_collection("c", now * factor, &watch);
        match split {
            Ok(()) => assert_eq!(collection.positions().len() as u32, now * factor),
            Err(error) => assert!(give_up && error.kind() == ErrorKind::Closed, "{error}"),
        }
        compare(&collection, &model);
        // A view of before shows what was there.
        assert_eq!(old_view.count(), old_model.len() as u64);
        for (key, known) in &old_model {
            let found = old_view.get(key).unwrap().unwrap();
            assert_eq!(
                (number(&found.document), found.version),
                (known.n, known.version)
            );
        }
        drop(old_view);
        if numbers.below(2) == 0 && first == 1 {
            continue;
        }
        copier.read(&collection);
        copier.compare(&model);
    }
    let (partitions, identity) = (held.settings().partitions, held.identity());
    drop(held);
    drop((collection, database));
    database = opened(&env);
    collection = database.collection("c").unwrap();
    assert_eq!(collection.settings().partitions, partitions);
    assert_eq!(collection.identity(), identity);
    compare(&collection, &model);
    for _ in 0..50 {
        write(&collection, &mut model, &mut numbers, env.now_micros());
    }
    collection.compact().unwrap();
    compare(&collection, &model);
    copier.read(&collection);
    copier.compare(&model);
    partitions
}

#[test]
fn a_collection_is_split_while_it_is_written_and_nobody_misses_a_change() {
    let partitions: u32 = (1..=40).map(life).sum();
    assert!(partitions > 40 * 8, "{partitions} partitions");
}

/// Has the machine crash, or fail once, at a step from now on, if one is given. Gives the number of
/// operations before.
pub(super) fn plan_end(env: &SimEnv, step: Option<u64>, is_crash: bool) -> u64 {
    let first = env.operations();
    if let Some(step) = step {
        match is_crash {
            true => env.crash_at(first + step),
            false => env.fail_at(first + step, Fault::Eio),
        }
    }
    first
}

/// Puts a random document durably. Gives its key and its number if it is not known whether it was
/// written.
pub(super) fn put_or_doubt(
    collection: &Collection,
    model: &mut Model,
    numbers: &mut Numbers,
) -> Option<(Key, u64)> {
    let (key, n) = (key(numbers.below(KEYS)), numbers.below(1000));
    let put = collection.write().durability(Durability::Sync);
    let Ok(written) = put.put_at(&key, &document(n)) else {
        return Some((key, n));
    };
    let known = Known {
        n,
        version: written.version,
        external: written.external,
        expires: None,
    };
    model.insert(key, known);
    None
}

/// Checks that the directory of one collection is left.
pub(super) fn assert_no_leftovers(env: &SimEnv) {
    let leftovers = env.list(std::path::Path::new("/db")).unwrap();
    let is_dir = |name: &&String| name.starts_with('c') && name[1..].parse::<u32>().is_ok();
    assert_eq!(leftovers.iter().filter(is_dir).count(), 1, "{leftovers:?}");
}

/// A split with writes meanwhile that a crash or a fault ends at `step`. What was acknowledged is
/// there, before and after the split. False once there is no such step.
fn broken_split(step: Option<u64>, is_crash: bool, seed: u64) -> u64 {
    let env = SimEnv::new(7);
    let database = open(&env).unwrap();
    let collection = database.create_collection("c", settings(2)).unwrap();
    let (mut model, mut numbers) = (Model::new(), Numbers(77));
    for _ in 0..50 {
        write(&collection, &mut model, &mut numbers, env.now_micros());
    }
    collection.compact().unwrap();
    write(&collection, &mut model, &mut numbers, env.now_micros());
    let first = plan_end(&env, step, is_crash);
    let unknown = RefCell::new(None);
    let acknowledged = RefCell::new((&mut model, &mut numbers));
    let watch = |_| {
        if unknown.borrow().is_some() {
            return false;
        }
        let (model, numbers) = &mut *acknowledged.borrow_mut();
        *unknown.borrow_mut() = put_or_doubt(&collection, model, numbers);
        true
    };
    let split = database.split_collection("c", 4, &watch);
    let steps = env.operations() - first;
    if split.is_ok() && unknown.borrow().is_none() && step.is_none() {
        compare(&collection, &model);
        write(&collection, &mut model, &mut numbers, env.now_micros());
    }
    let unknown = unknown.into_inner();
    let is_split = split.map(drop);
    drop((collection, database));
    let env = env.after_crash(seed);
    let database = open(&env).unwrap();
    let collection = database.collection("c").unwrap();
    let partitions = collection.settings().partitions;
    assert!(partitions == 4 || partitions == 2 && is_split.is_err());
    if let Some((key, n)) = unknown {
        let found = collection.get(&key).unwrap();
        if let Some(found) = found.filter(|found| number(&found.document) == n) {
            let known = Known {
                n,
                version: found.version,
                external: found.external,
                expires: None,
            };
            model.insert(key, known);
        }
    }
    compare(&collection, &model);
    for _ in 0..5 {
        write(&collection, &mut model, &mut numbers, env.now_micros());
    }
    let twice = database.split_collection("c", partitions * 2, &|_| true);
    twice.unwrap();
    assert_eq!(collection.positions().len() as u32, partitions * 2);
    compare(&collection, &model);
    assert_no_leftovers(&env);
    steps
}

/// Ends what `broken` does at each of its last steps, by a crash and by a fault in turns. It has
/// more steps than `least`.
pub(super) fn end_at_steps(last: u64, least: u64, broken: fn(Option<u64>, bool, u64) -> u64) {
    let steps = broken(None, false, 0);
    assert!(steps > least, "{steps} steps");
    for step in steps.saturating_sub(last)..steps {
        broken(Some(step), step % 2 == 0, step);
    }
}

#[test]
fn a_crash_or_a_fault_at_any_step_of_a_split_loses_nothing() {
    end_at_steps(u64::MAX, 100, broken_split);
}

#[test]
fn bugs_of_splits_are_found() {
    assert_each_is_found(Bug::OF_SPLITS, || {
        (1..=8).for_each(|seed| assert!(life(seed) > 0));
        // The old partitions are closed and removed in the last ones.
        end_at_steps(120, 100, broken_split);
    });
}

#[test]
fn a_split_is_due_by_the_setting_once_a_partition_is_large() {
    let database = open(&SimEnv::new(1)).unwrap();
    let settings = CollectionSettings {
        split_bytes: 1 << 20,
        codec: crate::Codec::None,
        ..settings(1)
    };
    let collection = database.create_collection("c", settings).unwrap();
    let put = |numbers: std::ops::Range<u64>| {
        let text = "x".repeat(1000);
        let document = Document::from_json(format!(r#"{{"text":"{text}"}}"#).as_bytes()).unwrap();
        let writes = numbers.map(|n| Write::put(key(n), document.clone()));
        let written = collection.batch().writes(writes).write();
        assert!(written.iter().all(Result::is_ok));
    };
    put(0..500);
    assert_eq!(database.partitions_due("c").unwrap(), None);
    put(500..1500);
    assert_eq!(database.partitions_due("c").unwrap(), Some(2));
    database.split_collection("c", 2, &|_| true).unwrap();
    assert_eq!(database.partitions_due("c").unwrap(), None);
    put(1500..3500);
    assert_eq!(database.partitions_due("c").unwrap(), Some(4));
}

#[test]
fn a_split_that_can_not_be_is_refused_and_changes_nothing() {
    let database = open(&SimEnv::new(1)).unwrap();
    let collection = database.create_collection("c", settings(2)).unwrap();
    collection.put_at(&key(1), &document(1)).unwrap();
    for (partitions, says) in [
        (0, "multiple"),
        (2, "4 for example"),
        (3, "3"),
        (2048, "1024"),
    ] {
        let refused = database.split_collection("c", partitions, &|_| true);
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let twice = |_| {
        let second = database.split_collection("c", 4, &|_| true).unwrap_err();
        assert!(second.to_string().contains("already"), "{second}");
        false
    };
    let stopped = database.split_collection("c", 4, &twice).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Closed);
    assert_eq!(collection.settings().partitions, 2);
    database.split_collection("c", 4, &|_| true).unwrap();
    // Positions of now and of before are good, and no others.
    for count in [1, 2, 3, 4, 5, 8] {
        let tail = collection.tail_after(&vec![Position(0); count]);
        assert_eq!(tail.is_ok(), [2, 4].contains(&count), "{count}");
    }

    let shrinks = |_| {
        let settings = CollectionSettings {
            retention_bytes: 4 << 16,
            ..CollectionSettings::clone(&collection.settings())
        };
        drop(database.change_settings("c", settings).unwrap());
        true
    };
    let error = database.split_collection("c", 8, &shrinks).unwrap_err();
    assert!(error.to_string().contains("retention_bytes"), "{error}");
    let restored = CollectionSettings {
        retention_bytes: 0,
        ..CollectionSettings::clone(&collection.settings())
    };
    database.change_settings("c", restored.clone()).unwrap();
    let changed = CollectionSettings {
        index: crate::IndexedFields::none(),
        ..restored
    };
    let changes = |_| {
        let changed = changed.clone();
        if collection.settings().partitions == 4 {
            drop(database.change_settings("c", changed).unwrap());
        }
        true
    };
    database.split_collection("c", 8, &changes).unwrap();
    assert!(collection.settings().index.is_none());
    assert_eq!(collection.partition_stats().unwrap().len(), 8);

    let drops = |_| {
        let _ = database.drop_collection("c");
        true
    };
    assert!(database.split_collection("c", 16, &drops).is_err());
    assert_eq!(database.collections(), Vec::<String>::new());
}
