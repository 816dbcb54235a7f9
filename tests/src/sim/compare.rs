//! What a database says, beside what the model says: documents, logs, verifications and answers.

use super::document;
use super::history;
use super::model::{self, Answer, Collection, Decider, Record, State};
use quire_env::{Env, SimEnv};
use quiredb::{Document, Effect, Error, ErrorKind, Key, Position, View, Volumes, Write, Written};
use std::path::Path;
use std::sync::Arc;

/// Verifies a closed database and compares the counts with the model.
pub(crate) fn verify_env<'a>(
    env: &Arc<SimEnv>,
    volumes: &Volumes,
    collections: impl Iterator<Item = &'a Collection>,
) {
    if !database_exists(env) {
        return;
    }
    let report = quiredb::verify(env.clone(), volumes.clone(), &mut |_, _| {}).unwrap();
    assert_eq!(report.damage, []);
    let partitions: Vec<_> = collections
        .flat_map(|collection| &collection.partitions)
        .collect();
    let documents: usize = partitions
        .iter()
        .map(|partition| partition.state_at(partition.last()).len())
        .sum();
    let records: u64 = partitions.iter().map(|partition| partition.last()).sum();
    assert_eq!(
        (report.documents, report.records),
        (documents as u64, records)
    );
}

pub(crate) fn database_exists(env: &Arc<SimEnv>) -> bool {
    env.exists(Path::new("/db/CATALOG")).unwrap()
}

pub(crate) fn positions_of(view: &View) -> Vec<u64> {
    view.positions().iter().map(|position| position.0).collect()
}

/// A view shows exactly this.
pub(crate) fn check_view(view: &View, expected: &State) {
    assert_eq!(view.count(), expected.len() as u64, "count");
    let scanned: State = view
        .scan(..)
        .unwrap()
        .map(|found| entry(found.unwrap()))
        .collect();
    assert_same(&scanned, expected, "scan");
    let order: Vec<_> = view
        .scan(..)
        .unwrap()
        .map(|found| found.unwrap().key)
        .collect();
    assert!(order.is_sorted(), "a scan is in key order: {order:?}");
    let keys: Vec<_> = (0..document::KEYS).map(document::key).collect();
    for (key, found) in keys.iter().zip(view.get_many(&keys).unwrap()) {
        let found = found.map(|found| entry(found).1);
        assert_eq!(found.as_ref(), expected.get(key), "get_many {key}");
    }
    let middle = &keys[7];
    assert_eq!(
        view.get(middle)
            .unwrap()
            .map(|found| entry(found).1)
            .as_ref(),
        expected.get(middle),
        "get {middle}"
    );
    let upper: State = view
        .scan(middle..)
        .unwrap()
        .map(|found| entry(found.unwrap()))
        .collect();
    let expected_upper = expected
        .range(middle..)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_same(&upper, &expected_upper, "scan of a range");
}

pub(crate) fn entry(found: quiredb::Found) -> (Key, (u64, Arc<str>)) {
    (
        found.key,
        (found.version.0, found.document.to_json().into()),
    )
}

/// Like `assert_eq`, but shows only what differs.
pub(crate) fn assert_same(found: &State, expected: &State, what: &str) {
    for key in found.keys().chain(expected.keys()) {
        assert_eq!(found.get(key), expected.get(key), "{what}: document {key}");
    }
}

/// The log gives every record, in order: what was written is what can be rebuilt.
pub(crate) fn check_tail(collection: &quiredb::Collection, model: &Collection, positions: &[u64]) {
    for (number, (partition, position)) in model.partitions.iter().zip(positions).enumerate() {
        let found = records_after(collection, number, 0, *position);
        assert!(
            found == partition.records,
            "the log of partition {number} holds {found:?}, not {partition:?}"
        );
    }
}

/// The records of a partition's log, after `seen` and up to `last`.
pub(crate) fn records_after(
    collection: &quiredb::Collection,
    partition: usize,
    seen: u64,
    last: u64,
) -> Vec<Record> {
    // The others are skipped: nobody has that many.
    let mut from = vec![Position(u64::MAX - 1); collection.settings().partitions as usize];
    from[partition] = Position(seen);
    let mut records = Vec::new();
    for change in collection.tail_after(&from).unwrap() {
        let change = change.unwrap();
        assert_eq!(
            (change.partition as usize, change.version.0),
            (partition, seen + 1 + records.len() as u64)
        );
        let document = change.document.map(|document| document.to_json().into());
        records.push(Record {
            key: change.key,
            document,
        });
    }
    assert_eq!(
        seen + records.len() as u64,
        last,
        "the log ends where the view does"
    );
    records
}

/// A write of a history with its document and condition filled in.
pub(crate) fn concrete(write: &history::Write, serial: u64, decider: &Decider) -> model::Write {
    let key = document::key(write.key);
    let version = decider.version(&key).unwrap_or(0);
    let condition = match write.condition {
        history::Condition::Always => model::Condition::Always,
        history::Condition::IfAbsent => model::Condition::IfAbsent,
        history::Condition::IfCurrent => model::Condition::IfVersion(version),
        history::Condition::IfStale => model::Condition::IfVersion(version + 1),
    };
    let action = match write.action {
        history::Action::Put { bytes } => {
            model::Action::Put(document::document(serial, bytes).to_string().into())
        }
        history::Action::Patch { shape } => model::Action::Patch(document::patch(serial, shape)),
        history::Action::Delete => model::Action::Delete,
    };
    model::Write {
        key,
        action,
        condition,
    }
}

pub(crate) fn real(write: &model::Write) -> Write {
    let key = write.key.clone();
    let parse = |text: &str| Document::from_json(text.as_bytes()).unwrap();
    let real = match &write.action {
        model::Action::Put(document) => Write::put(key, parse(document)),
        model::Action::Patch(patch) => Write::patch(key, parse(&patch.to_string())),
        model::Action::Delete => Write::delete(key),
    };
    match write.condition {
        model::Condition::Always => real,
        model::Condition::IfAbsent => real.if_absent(),
        model::Condition::IfVersion(version) => real.if_version(Position(version)),
    }
}

pub(crate) fn answer(result: &Result<Written, Error>) -> Answer {
    match result {
        Ok(Written {
            effect, version, ..
        }) => match effect {
            Effect::Created => Answer::Created(version.0),
            Effect::Updated => Answer::Updated(version.0),
            Effect::Deleted => Answer::Deleted(version.0),
            Effect::Unchanged => Answer::Unchanged(version.0),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Answer::NotFound,
        Err(_) => Answer::Conflict,
    }
}
