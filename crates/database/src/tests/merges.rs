//! Merges of partitions, against a model: documents, versions that grow, queries, changes after
//! positions of before, writes at every point of a merge, crashes and faults at its steps.

use super::numbers::Numbers;
use super::open;
use super::splits::{
    Copier, Known, Model, assert_no_leftovers, compare, document, end_at_steps, key, number,
    opened, plan_end, put_or_doubt, settings, write,
};
use crate::{Collection, CollectionSettings, Database, ErrorKind, WriteRates};
use quire_collection::Write;
use quire_env::{Env, SimEnv};
use quire_model::Position;
use quire_seeded::{Bug, assert_each_is_found};
use std::cell::RefCell;
use std::time::Duration;

/// Takes the versions that documents have since a merge, all higher than before.
fn take_versions(collection: &Collection, model: &mut Model) {
    for (key, known) in model.iter_mut() {
        let found = collection
            .get(key)
            .unwrap()
            .expect("a merge keeps documents");
        assert!(known.version < found.version, "versions grow by a merge");
        known.version = found.version;
    }
}

/// One of the numbers of partitions that a collection can get from `now`.
pub(super) fn other_count(numbers: &mut Numbers, now: u32) -> u32 {
    let fewer: Vec<u32> = (1..now)
        .filter(|count| now.is_multiple_of(*count))
        .collect();
    match fewer.get(numbers.below(fewer.len() as u64 + 1) as usize) {
        Some(fewer) => *fewer,
        None => now * (2 + numbers.below(2) as u32),
    }
}

/// A collection that is split and merged, while it is written, by turns. Gives the number of
/// merges.
fn life(seed: u64) -> u64 {
    let env = SimEnv::new(seed);
    let mut database = opened(&env);
    let mut numbers = Numbers(seed * 0x9e37_79b9 + 1);
    let first = [6, 8, 4][numbers.below(3) as usize];
    let mut collection = database.create_collection("c", settings(first)).unwrap();
    let mut model = Model::new();
    // One reads often, one now and then, and one only in the end.
    let mut copiers: [Copier; 3] = Default::default();
    let mut merges = 0;
    for _ in 0..5 {
        for _ in 0..numbers.below(120) {
            write(&collection, &mut model, &mut numbers, env.now_micros());
            match numbers.below(30) {
                0 => collection.flush().unwrap(),
                1 => collection.compact().unwrap(),
                2 => copiers[0].read(&collection),
                3 => drop(env.run_due()),
                4 => env.advance(Duration::from_millis(100)),
                _ => {}
            }
        }
        let now = collection.settings().partitions;
        let (old_view, old_model) = (collection.view().unwrap(), model.clone());
        let count = other_count(&mut numbers, now);
        let give_up = numbers.below(5) == 0;
        let state = RefCell::new((&mut model, &mut numbers, &mut copiers));
        let watch = |_| {
            let (model, numbers, copiers) = &mut *state.borrow_mut();
            for _ in 0..numbers.below(4) {
                write(&collection, model, numbers, env.now_micros());
            }
            match numbers.below(20) {
                0 => collection.flush().unwrap(),
                1 => collection.compact().unwrap(),
                2 => copiers[0].read(&collection),
                3 => env.advance(Duration::from_millis(100)),
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
        assert_eq!(old_view.count(), old_model.len() as u64);
        for (key, known) in &old_model {
            let found = old_view.get(key).unwrap().unwrap();
            let found = (number(&found.document), found.version);
            assert_eq!(
                found,
                (known.n, known.version),
                "a view shows what was there"
            );
        }
        if numbers.below(2) == 0 {
            copiers[1].read(&collection);
        }
        copiers[0].read(&collection);
        copiers[0].compare_contents(&model);
    }
    let (partitions, identity) = (collection.settings().partitions, collection.identity());
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
    for copier in &mut copiers {
        copier.read(&collection);
        copier.compare_contents(&model);
    }
    merges
}

#[test]
fn partitions_are_merged_while_they_are_written_and_nobody_misses_a_change() {
    let merges: u64 = (1..=40).map(life).sum();
    assert!(merges > 60, "{merges} merges");
}

/// A merge with writes meanwhile that a crash or a fault ends at `step`. What was acknowledged is
/// there, before and after the merge. Gives the number of steps.
fn broken_merge(step: Option<u64>, is_crash: bool, seed: u64) -> u64 {
    let env = SimEnv::new(7);
    let database = open(&env).unwrap();
    let collection = database.create_collection("c", settings(4)).unwrap();
    let (mut model, mut numbers) = (Model::new(), Numbers(77));
    for _ in 0..50 {
        write(&collection, &mut model, &mut numbers, env.now_micros());
    }
    collection.compact().unwrap();
    write(&collection, &mut model, &mut numbers, env.now_micros());
    let mut copier = Copier::default();
    copier.read(&collection);
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
    let merged = database.merge_collection("c", 2, &watch);
    let steps = env.operations() - first;
    let unknown = unknown.into_inner();
    drop((collection, database));
    let env = env.after_crash(seed);
    let database = open(&env).unwrap();
    let collection = database.collection("c").unwrap();
    let partitions = collection.settings().partitions;
    assert!(partitions == 2 || partitions == 4 && merged.is_err());
    if let Some((key, n)) = unknown {
        let found = collection.get(&key).unwrap();
        if let Some(found) = found.filter(|found| number(&found.document) == n) {
            let known = Known {
                n,
                version: Position(0),
                external: found.external,
                expires: None,
            };
            model.insert(key, known);
        }
    }
    for (key, known) in &mut model {
        let found = collection
            .get(key)
            .unwrap()
            .expect("what was written is there");
        assert!(known.version <= found.version);
        known.version = found.version;
    }
    compare(&collection, &model);
    for _ in 0..5 {
        write(&collection, &mut model, &mut numbers, env.now_micros());
    }
    copier.read(&collection);
    copier.compare_contents(&model);
    database.merge_collection("c", 1, &|_| true).unwrap();
    assert_eq!(collection.positions().len(), 1);
    take_versions(&collection, &mut model);
    compare(&collection, &model);
    copier.read(&collection);
    copier.compare_contents(&model);
    assert_no_leftovers(&env);
    steps
}

#[test]
fn a_crash_or_a_fault_at_any_step_of_a_merge_loses_nothing() {
    end_at_steps(u64::MAX, 50, broken_merge);
}

#[test]
fn bugs_of_merges_are_found() {
    assert_each_is_found(Bug::OF_MERGES, || {
        (1..=8).for_each(|seed| assert!(life(seed) > 0));
        // The old partitions are closed and removed in the last ones.
        end_at_steps(120, 50, broken_merge);
    });
}

#[test]
fn a_reader_that_is_level_sees_nothing_again_and_one_far_behind_not_much() {
    let database = opened(&SimEnv::new(3));
    let collection = database.create_collection("c", settings(4)).unwrap();
    let put = |numbers: std::ops::Range<u64>| {
        for from in numbers.step_by(100) {
            let writes = (from..from + 100).map(|n| Write::put(key(n), document(n)));
            let written = collection.batch().writes(writes).write();
            assert!(written.iter().all(Result::is_ok));
        }
    };
    let mut seen = Vec::new();
    for part in 0..10 {
        put(part * 5_000..(part + 1) * 5_000);
        seen.push(collection.positions());
    }
    database.merge_collection("c", 2, &|_| true).unwrap();
    for (part, seen) in seen.iter().enumerate() {
        let missed = 5_000 * (9 - part);
        let found = collection.tail_after(seen).unwrap().count();
        assert!(missed <= found, "{part}: {found} of {missed}");
        // A step of the merge is 16,384 records of each of the two.
        assert!(
            found <= 2 * missed + 2 * 16_384,
            "{part}: {found} of {missed}"
        );
    }
    let level = collection.tail_after(&seen[9]).unwrap();
    assert_eq!(level.count(), 0);
    assert_eq!(collection.tail(Position(1)).unwrap().count(), 50_000);
}

#[test]
fn small_partitions_are_due_to_be_merged_but_for_those_there_were_at_first() {
    let database = open(&SimEnv::new(1)).unwrap();
    let limited = CollectionSettings {
        split_bytes: 1 << 20,
        codec: crate::Codec::None,
        ..settings(2)
    };
    let collection = database.create_collection("c", limited).unwrap();
    let text = "x".repeat(1000);
    let text = quire_model::Document::from_json(format!(r#"{{"text":"{text}"}}"#).as_bytes());
    let text = text.unwrap();
    let batch = |writes: Vec<Write>| {
        let written = collection.batch().writes(writes).write();
        assert!(written.iter().all(Result::is_ok));
    };
    // As small as can be, and there were no others before.
    assert_eq!(database.partitions_due("c").unwrap(), None);
    batch(
        (0..5000)
            .map(|n| Write::put(key(n), text.clone()))
            .collect(),
    );
    assert_eq!(database.partitions_due("c").unwrap(), Some(4));
    database.split_collection("c", 4, &|_| true).unwrap();
    assert_eq!(database.partitions_due("c").unwrap(), Some(8));
    database.split_collection("c", 8, &|_| true).unwrap();
    assert_eq!(database.partitions_due("c").unwrap(), None);
    batch((100..5000).map(|n| Write::delete(key(n))).collect());
    collection.compact().unwrap();
    assert_eq!(
        database.all_partitions_due(&mut WriteRates::default()),
        [("c".to_string(), 4)]
    );
    database.merge_collection("c", 4, &|_| true).unwrap();
    assert_eq!(database.partitions_due("c").unwrap(), Some(2));
    database.merge_collection("c", 2, &|_| true).unwrap();
    assert_eq!(database.partitions_due("c").unwrap(), None);
    // What is overwritten makes a log large for a while, and is no reason for a split.
    for _ in 0..60 {
        batch((0..100).map(|n| Write::put(key(n), text.clone())).collect());
    }
    let log_bytes = |partition: &quire_collection::Partition| partition.stats().log.disk_bytes;
    assert!(collection.partitions().iter().map(log_bytes).sum::<u64>() > 2 << 20);
    assert_eq!(database.partitions_due("c").unwrap(), None);
    assert_eq!(collection.view().unwrap().count(), 100);
}

#[test]
fn a_partition_that_is_written_fast_is_due_to_be_split_and_merged_once_it_is_slow() {
    let env = SimEnv::new(1);
    let database = opened(&env);
    let by_rate = CollectionSettings {
        split_rate: 40,
        ..settings(1)
    };
    let collection = database.create_collection("c", by_rate.clone()).unwrap();
    let mut rates = WriteRates::default();
    let mut due_after = |secs: u64, writes: u64| {
        for n in 0..writes {
            collection.put_at(&key(n), &document(n)).unwrap();
        }
        env.advance(Duration::from_secs(secs));
        let due = database.all_partitions_due(&mut rates);
        due.into_iter().map(|(_, count)| count).next()
    };
    assert_eq!(due_after(1, 10_000), None);
    assert_eq!(due_after(20, 2_000), None);
    assert_eq!(due_after(20, 2_000), Some(2));
    // It is not split because of what was written long ago.
    assert_eq!(due_after(40, 0), None);
    assert_eq!(due_after(40, 2_000), Some(2));
    database.split_collection("c", 2, &|_| true).unwrap();
    assert_eq!(due_after(10, 500), None);
    let also_by_size = CollectionSettings {
        split_bytes: 1 << 30,
        partitions: 2,
        ..by_rate
    };
    database.change_settings("c", also_by_size).unwrap();
    assert_eq!(due_after(10, 100), None);
    // Small, and not written as slowly as it takes.
    assert_eq!(due_after(30, 2_000), None);
    assert_eq!(due_after(40, 300), Some(1));
    assert_eq!(database.partitions_due("c").unwrap(), None);
    database.merge_collection("c", 1, &|_| true).unwrap();
    assert_eq!(due_after(40, 10), None);
    assert_eq!(due_after(40, 10), None);
}

#[test]
fn a_merge_that_can_not_be_is_refused_and_changes_nothing() {
    let database: Database = open(&SimEnv::new(1)).unwrap();
    let collection = database.create_collection("c", settings(6)).unwrap();
    collection.put_at(&key(1), &document(1)).unwrap();
    for partitions in [0, 4, 5, 6, 12] {
        let error = database
            .merge_collection("c", partitions, &|_| true)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("divides"), "{error}");
    }
    let twice = |_| {
        let second = database.merge_collection("c", 3, &|_| true).unwrap_err();
        assert!(second.to_string().contains("already"), "{second}");
        false
    };
    let stopped = database.merge_collection("c", 2, &twice).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Closed);
    assert_eq!(collection.settings().partitions, 6);
    database.merge_collection("c", 2, &|_| true).unwrap();
    // Positions of now and of before are good, and no others.
    for count in [1, 2, 3, 4, 6, 12] {
        let tail = collection.tail_after(&vec![Position(0); count]);
        assert_eq!(tail.is_ok(), [2, 6].contains(&count), "{count}");
    }
}
