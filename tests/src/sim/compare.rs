//! Comparisons of a database with the model: documents, logs, verifications and answers.

use super::document;
use super::history;
use super::model::{self, Answer, Collection, Decider, Merged, Record, State, Version};
use super::queries::check_queries;
use quire_env::SimEnv;
use quiredb::operations::VerifyReport;
use quiredb::{
    Change, CollectionSettings, Condition, Database, Document, Durability, Effect, ErrorKind,
    Found, Key, Position, Result, View, Volumes, Write, Written,
};
use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;

/// Verifies a closed database and compares the counts with the model, and with that of wide rows.
///
/// # Errors
/// If it can't be done.
pub(crate) fn verify_env<'a>(
    env: &Arc<SimEnv>,
    volumes: &Volumes,
    collections: impl Iterator<Item = &'a Collection>,
    rows: usize,
) -> Result<()> {
    let report = may_verify(env, volumes)?;
    assert_eq!(report.damage, []);
    let partitions: Vec<_> = collections
        .flat_map(|collection| &collection.partitions)
        .collect();
    let documents = partitions
        .iter()
        .map(|partition| partition.state_at(partition.last()).len());
    let documents = documents.sum::<usize>() + rows;
    let written: u64 = partitions.iter().map(|partition| partition.written()).sum();
    let needed: u64 = partitions.iter().map(|partition| partition.needed()).sum();
    assert_eq!(report.documents, documents as u64, "documents");
    assert!(
        (needed..=written).contains(&report.records),
        "{} records of {written}, of which {needed} are needed",
        report.records
    );
    Ok(())
}

/// The result of a verification of a closed database.
///
/// # Errors
/// If it can't be done.
pub(crate) fn may_verify(env: &Arc<SimEnv>, volumes: &Volumes) -> Result<VerifyReport> {
    quiredb::operations::verify(
        env.clone(),
        volumes.clone(),
        &Default::default(),
        &mut |_, _| {},
    )
}

/// Checks that a database into which the log of a collection was written, in order, answers as the
/// collection must.
///
/// # Errors
/// If the log can't be read.
pub(crate) fn rebuild(
    collection: &quiredb::Collection,
    positions: &[u64],
    expected: &State,
) -> Result<()> {
    let database = Database::builder("/new").env(SimEnv::new(0)).open();
    let rebuilt = database
        .unwrap()
        .create_collection(
            collection.name(),
            CollectionSettings::clone(&collection.settings()),
        )
        .unwrap();
    for change in collection.tail(Position(1))? {
        let Change {
            key,
            document,
            external,
            ..
        } = change?;
        let write = match document {
            Some(document) => Write::put(key, document),
            None => Write::delete(key),
        };
        let write = Write {
            condition: external.map_or(Condition::Always, Condition::ExternalOrEqual),
            ..write
        };
        let written = rebuilt
            .batch()
            .writes(vec![write])
            .durability(Durability::None)
            .write();
        assert!(written[0].is_ok(), "{written:?}");
    }
    rebuilt.flush().unwrap();
    let view = rebuilt.view().unwrap();
    let records: u64 = positions_of(&view).iter().sum();
    let written: u64 = positions.iter().sum();
    assert!(records <= written, "{records} records of {written}");
    check_documents(&view, expected);
    Ok(())
}

/// Checks that a view of a database made from a log shows these documents. Where superseded
/// versions had been removed, versions differ.
pub(crate) fn check_documents(view: &View, expected: &State) {
    let found = view.scan(..).unwrap().map(|found| entry(found.unwrap()));
    let without_positions = |(key, (version, document)): (Key, (Version, Arc<str>))| {
        (key, (version.external, document))
    };
    let found: BTreeMap<Key, (Option<u64>, Arc<str>)> = found.map(without_positions).collect();
    let expected = expected.clone().into_iter();
    let expected: BTreeMap<Key, (Option<u64>, Arc<str>)> =
        expected.map(without_positions).collect();
    assert_eq!(found, expected, "documents");
    assert_eq!(view.count(), expected.len() as u64, "count");
}

/// Whether there is a catalog on the disk.
pub(crate) fn database_exists(env: &SimEnv) -> bool {
    env.files()
        .iter()
        .any(|file| file == Path::new("/db/CATALOG"))
}

pub(crate) fn positions_of(view: &View) -> Vec<u64> {
    view.positions().iter().map(|position| position.0).collect()
}

/// Checks that a view shows exactly these documents.
///
/// # Errors
/// If it can't be read. What was read before the error is right.
pub(crate) fn check_view(view: &View, expected: &State) -> Result<()> {
    assert_eq!(view.count(), expected.len() as u64, "count");
    check_scan(view, .., expected)?;
    let keys: Vec<_> = (0..document::KEYS).map(document::key).collect();
    for (key, found) in keys.iter().zip(view.get_many(&keys)?) {
        let found = found.map(|found| entry(found).1);
        assert_eq!(found.as_ref(), expected.get(key), "get_many {key}");
    }
    let middle = &keys[7];
    let found = view.get(middle)?.map(|found| entry(found).1);
    assert_eq!(found.as_ref(), expected.get(middle), "get {middle}");
    check_scan(view, middle.., expected)?;
    check_scan(view, ..=middle, expected)?;
    check_queries(view, expected)
}

/// Checks that a scan of a range shows the documents in it, in the order of keys.
fn check_scan(view: &View, range: impl RangeBounds<Key> + Clone, expected: &State) -> Result<()> {
    let found = view.scan(range.clone())?.collect::<Result<Vec<Found>>>()?;
    assert!(
        found.is_sorted_by(|one, next| one.key < next.key),
        "a scan is in key order: {found:?}"
    );
    let found: State = found.into_iter().map(entry).collect();
    let expected: State = expected
        .iter()
        .filter(|(key, _)| range.contains(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_same(&found, &expected, "scan");
    Ok(())
}

pub(crate) fn entry(found: quiredb::Found) -> (Key, (Version, Arc<str>)) {
    let version = Version {
        position: found.version.0,
        external: found.external,
    };
    (found.key, (version, found.document.to_json().into()))
}

/// Like `assert_eq`, but shows only what differs.
pub(crate) fn assert_same(found: &State, expected: &State, what: &str) {
    for key in found.keys().chain(expected.keys()) {
        assert_eq!(found.get(key), expected.get(key), "{what}: document {key}");
    }
}

/// Checks that the log returns every record, in order, except superseded ones that compaction has
/// removed: then everything can be rebuilt from it. If it was compacted just now, as `whole` says,
/// it returns no superseded record.
///
/// # Errors
/// If it can't be read.
pub(crate) fn check_tail(
    collection: &quiredb::Collection,
    model: &Collection,
    positions: &[u64],
    whole: bool,
) -> Result<()> {
    for (number, (partition, position)) in model.partitions.iter().zip(positions).enumerate() {
        let base = partition.base();
        let found = records_after(collection, number, base, *position)?;
        let records = partition.records.iter().zip(&found);
        for (at, (written, found)) in records.enumerate() {
            let position = base + at as u64 + 1;
            let needed = partition.is_needed(position);
            let right = match found {
                Some(found) => found == written && (needed || !whole),
                None => !needed,
            };
            assert!(
                right,
                "the log of partition {number} holds {found:?} at {position}, not {written:?}, \
                 needed: {needed}"
            );
        }
    }
    Ok(())
}

/// The records of the log of a partition, after `seen` and up to `last`; `None` where one was
/// removed or belongs to another partition.
///
/// # Errors
/// If it can't be read.
pub(crate) fn records_after(
    collection: &quiredb::Collection,
    partition: usize,
    seen: u64,
    last: u64,
) -> Result<Vec<Option<Record>>> {
    // The others are skipped: no partition has that many.
    let mut from = vec![Position(u64::MAX - 1); collection.settings().partitions as usize];
    from[partition] = Position(seen);
    let mut records = Vec::new();
    for change in collection.tail_after(&from)? {
        let change = change?;
        let version = change.version.0;
        assert_eq!(
            change.partition as usize, partition,
            "the partition of a change"
        );
        assert!(
            version > seen + records.len() as u64 && version <= last,
            "a change at {version}, after {seen} and {} more, up to {last}",
            records.len()
        );
        records.resize((version - seen - 1) as usize, None);
        let document = change.document.map(|document| document.to_json().into());
        records.push(Some(Record {
            key: change.key,
            document,
            external: change.external,
        }));
    }
    // The last ones may belong to other partitions since a split.
    records.resize((last - seen) as usize, None);
    Ok(records)
}

/// What the partitions have that others were merged into, up to these positions.
///
/// # Errors
/// If they can't be read.
pub(crate) fn merged_records(
    collection: &quiredb::Collection,
    positions: &[u64],
) -> Result<Vec<Merged>> {
    let mut firsts: Vec<u64> = positions.iter().map(|last| last + 1).collect();
    for change in collection.tail(Position(1))? {
        let change = change?;
        let first = &mut firsts[change.partition as usize];
        *first = change.version.0.min(*first);
    }
    let ends = firsts.into_iter().zip(positions).enumerate();
    ends.map(|(number, (first, last))| {
        let records = records_after(collection, number, first - 1, *last)?;
        Ok((first - 1, records))
    })
    .collect()
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
        history::Condition::External { step } => {
            let now = decider.external(&key).unwrap_or(1);
            model::Condition::External((now + u64::from(step)).saturating_sub(1))
        }
        history::Condition::ExternalOrEqual { step } => {
            let now = decider.external(&key).unwrap_or(1);
            model::Condition::ExternalOrEqual((now + u64::from(step)).saturating_sub(1))
        }
    };
    let action = match write.action {
        history::Action::Put { bytes } => model::Action::Put(
            document::document(serial, bytes as usize)
                .to_string()
                .into(),
        ),
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
        model::Condition::External(version) => real.external(version),
        model::Condition::ExternalOrEqual(version) => Write {
            condition: Condition::ExternalOrEqual(version),
            ..real
        },
        model::Condition::IfAbsent => real.if_absent(),
        model::Condition::IfVersion(version) => real.if_version(Position(version)),
    }
}

pub(crate) fn answer(result: &Result<Written>) -> Answer {
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
