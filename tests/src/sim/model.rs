//! The plain model: what the log of each partition holds, and which of it must be there.
//!
//! A partition is a list of records; the record at index i has position i + 1. A view at position k
//! must show the state after the first k records, so every query has one right answer, whatever
//! happened to the files. A crash may leave a prefix of the records, with all that was promised
//! durable, and never a part of a batch. A failed batch may have been written or not; that shows
//! later.

use super::document;
use quiredb::{Durability, Key};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Documents (as compact JSON) by key, each with its version.
pub(crate) type State = BTreeMap<Key, (Version, Arc<str>)>;

/// The version of a document.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Version {
    /// The position of its record.
    pub(crate) position: u64,
    /// The one that a writer gave it.
    pub(crate) external: Option<u64>,
}

/// The record of a document; without a document, its deletion.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) document: Option<Arc<str>>,
    /// The external version of the document, or its deletion.
    pub(crate) external: Option<u64>,
}

/// What a partition has that others were merged into: the position before its first record, and its
/// records; `None` for one that was compacted away.
pub(crate) type Merged = (u64, Vec<Option<Record>>);

/// A collection.
#[derive(Debug, Clone)]
pub(crate) struct Collection {
    pub(crate) partitions: Vec<Partition>,
    /// Whether it certainly exists; unknown after a creation or removal that failed.
    pub(crate) certain: bool,
    /// Whether a failed removal, split or merge closed it: then what is not durable may be lost.
    pub(crate) was_closed: bool,
    /// The number of partitions that it has if a split or a merge took effect that failed or met a
    /// crash.
    pub(crate) may_have: Option<u32>,
}

impl Collection {
    pub(crate) fn new(partitions: u32) -> Collection {
        Collection {
            partitions: vec![Partition::default(); partitions as usize],
            certain: true,
            was_closed: false,
            may_have: None,
        }
    }

    /// Notes that it has this number of partitions now. `owner` has the partition of each key. What
    /// was written is durable.
    pub(crate) fn split(&mut self, count: u32, owner: impl Fn(&Key) -> u32) {
        let each = count / self.partitions.len() as u32;
        let part = |number: u32| {
            let mut part = self.partitions[(number / each) as usize].clone();
            part.keep(|key| owner(key) == number);
            part
        };
        self.partitions = (0..count).map(part).collect();
        self.may_have = None;
    }

    /// Notes that partitions were merged, and what the new ones have. `owner` has the new partition
    /// of each key. What was written is durable.
    pub(crate) fn merge(&mut self, merged: Vec<Merged>, owner: impl Fn(&Key) -> u32, when: &str) {
        let each = self.partitions.len() / merged.len();
        let new = (0..).zip(merged).map(|(number, (base, records))| {
            let olds = &self.partitions[number as usize * each..][..each];
            let new = Partition::merged(base, records);
            let (mut state, mut external) = (State::new(), BTreeMap::new());
            for old in olds {
                assert!(
                    old.last() <= base,
                    "{when}: positions after those of before"
                );
                let own = old.state_at(old.last()).into_iter();
                state.extend(own.filter(|(key, _)| !old.is_foreign(key)));
                let own = old.external().into_iter();
                external.extend(own.filter(|(key, _)| !old.is_foreign(key)));
            }
            let without_positions = |state: State| -> BTreeMap<_, _> {
                let entries = state.into_iter();
                let entry = |(key, (version, document)): (Key, (Version, Arc<str>))| {
                    (key, (version.external, document))
                };
                entries.map(entry).collect()
            };
            let found = new.state_at(new.last());
            assert!(found.keys().all(|key| owner(key) == number), "{when}: keys");
            let (found, state) = (without_positions(found), without_positions(state));
            assert_eq!(found, state, "{when}: documents of merged partitions");
            assert_eq!(new.external(), external, "{when}: external versions");
            new
        });
        self.partitions = new.collect();
        self.may_have = None;
    }

    /// The documents that a view at these positions must show.
    pub(crate) fn state_at(&self, positions: &[u64]) -> State {
        let states = self
            .partitions
            .iter()
            .zip(positions)
            .map(|(partition, position)| partition.state_at(*position));
        states.flatten().collect()
    }
}

/// A batch that failed.
#[derive(Debug, Clone)]
struct InDoubt {
    writes: Vec<Write>,
    /// Whether some of its writes may have failed on their own, as they could not read.
    in_part: bool,
    /// Whether it was to be durable before it was visible.
    sync: bool,
}

/// A partition: see the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Partition {
    /// The position before that of the first record: since a merge partitions begin late.
    base: u64,
    /// The acknowledged records: views show all of them.
    pub(crate) records: Vec<Record>,
    /// Positions of records that belong to other partitions since a split, or are not known.
    foreign: BTreeSet<u64>,
    /// Positions where batches end.
    ends: BTreeSet<u64>,
    /// Failed batches, any of which may follow the records, each whole or not at all.
    in_doubt: Vec<InDoubt>,
    /// The last position that a crash must leave.
    pub(crate) durable: u64,
    /// Positions that become durable by background work alone, and the time by which they do.
    pub(crate) durable_by: Vec<(u64, Duration)>,
}

impl Partition {
    /// The position of the last record.
    pub(crate) fn last(&self) -> u64 {
        self.base + self.records.len() as u64
    }

    /// One that others were merged into. See [`Collection::merge`].
    fn merged(base: u64, records: Vec<Option<Record>>) -> Partition {
        let mut merged = Partition {
            base,
            ..Partition::default()
        };
        for record in records {
            let known = record.unwrap_or_else(|| {
                merged.foreign.insert(merged.last() + 1);
                Record {
                    key: Key::from(-1),
                    document: None,
                    external: None,
                }
            });
            merged.records.push(known);
        }
        merged.durable = merged.last();
        merged.ends.insert(merged.last());
        merged
    }

    /// The position before that of the first record.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// How many records it was written, and whether one holds the position where it begins.
    pub(crate) fn written(&self) -> u64 {
        self.records.len() as u64 + u64::from(self.base > 0)
    }

    /// Whether all records of a key belong to another partition.
    fn is_foreign(&self, key: &Key) -> bool {
        let own = (self.base + 1..).zip(&self.records);
        let mut own = own.filter(|(position, _)| !self.foreign.contains(position));
        own.all(|(_, record)| record.key != *key)
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        !self.in_doubt.is_empty()
    }

    pub(crate) fn is_untouched(&self) -> bool {
        self.records.is_empty() && self.in_doubt.is_empty()
    }

    pub(crate) fn state_at(&self, position: u64) -> State {
        let mut state = State::new();
        for (record, position) in self.records.iter().zip(self.base + 1..=position) {
            if self.foreign.contains(&position) {
                continue;
            }
            let version = Version {
                position,
                external: record.external,
            };
            match &record.document {
                Some(document) => state.insert(record.key.clone(), (version, document.clone())),
                None => state.remove(&record.key),
            };
        }
        state
    }

    /// The newest external version of each key that had one.
    fn external(&self) -> BTreeMap<Key, u64> {
        let version = |record: &Record| Some((record.key.clone(), record.external?));
        self.records.iter().filter_map(version).collect()
    }

    /// Whether the record at a position must be in the log, compacted or not: it is the newest of
    /// its document, or its deletion, and belongs to this partition.
    pub(crate) fn is_needed(&self, position: u64) -> bool {
        let (before, after) = self.records.split_at((position - self.base) as usize);
        let Some(record) = before.last() else {
            return false;
        };
        let is_newest = || after.iter().all(|later| later.key != record.key);
        !self.foreign.contains(&position) && (record.document.is_none() || is_newest())
    }

    /// The number of records that must be in the log.
    pub(crate) fn needed(&self) -> u64 {
        let needed = (self.base + 1..=self.last()).filter(|position| self.is_needed(*position));
        needed.count() as u64
    }

    /// Leaves the records of other keys to other partitions.
    fn keep(&mut self, owns: impl Fn(&Key) -> bool) {
        assert!(!self.is_in_doubt(), "nothing that is in doubt is split");
        let all = (self.base + 1..).zip(&self.records);
        let others = all.filter(|(_, record)| !owns(&record.key));
        self.foreign.extend(others.map(|(position, _)| position));
        self.durable = self.last();
        self.durable_by.clear();
    }

    /// Adds the records of an acknowledged batch.
    pub(crate) fn write(&mut self, records: Vec<Record>) {
        if !records.is_empty() {
            self.records.extend(records);
            self.ends.insert(self.last());
        }
    }

    /// Notes a batch that may have been written or not; `in_part` if some of its writes may be
    /// missing.
    pub(crate) fn doubt(&mut self, writes: Vec<Write>, durability: Durability, in_part: bool) {
        let mut decider = Decider::new(self);
        for write in &writes {
            decider.decide(write);
        }
        if in_part || !decider.records.is_empty() {
            self.in_doubt.push(InDoubt {
                writes,
                in_part,
                sync: durability == Durability::Sync,
            });
        }
    }

    /// The following records that are those of a batch in doubt, as they were written.
    fn matching(&self, batch: &InDoubt, rest: &[Option<Record>]) -> Vec<Record> {
        let mut decider = Decider::new(self);
        for write in &batch.writes {
            let before = decider.clone();
            decider.decide(write);
            if batch.in_part && !begins_with(rest, &decider.records) {
                decider = before;
            }
        }
        match begins_with(rest, &decider.records) {
            true => decider.records,
            false => Vec::new(),
        }
    }

    /// Notes that the partition continues with `more` records after its last: each batch in doubt
    /// is there, in order, or is not. Those `seen` while the database was open were then as durable
    /// as was requested. A missing record was superseded by one that is there, and removed.
    pub(crate) fn found(&mut self, more: &[Option<Record>], seen: bool, when: &str) {
        let mut rest = more;
        while !rest.is_empty() {
            assert!(
                self.is_in_doubt(),
                "{when}: records that nobody wrote, or half a batch: {rest:?}"
            );
            let batch = self.in_doubt.remove(0);
            let records = self.matching(&batch, rest);
            rest = &rest[records.len()..];
            if seen && batch.sync && !records.is_empty() {
                self.write(records);
                self.durable = self.last();
            } else {
                self.write(records);
            }
        }
    }

    /// Notes that no batch in doubt can appear any more.
    pub(crate) fn no_more(&mut self) {
        self.in_doubt.clear();
    }

    /// Notes that background work was done up to `now`.
    pub(crate) fn background_done(&mut self, now: Duration) {
        for (position, _) in self.durable_by.extract_if(.., |(_, due)| *due <= now) {
            self.durable = self.durable.max(position);
        }
    }

    /// Checks that a crash may have cut the partition to `position`, and drops the records after
    /// it.
    pub(crate) fn cut(&mut self, position: u64, when: &str) {
        assert!(
            position >= self.durable,
            "{when}: position {position}, but {} was promised to stay",
            self.durable
        );
        let is_end = position == self.base || self.ends.contains(&position);
        assert!(
            is_end,
            "{when}: position {position} is inside a batch; batches end at {:?}",
            self.ends
        );
        self.records.truncate((position - self.base) as usize);
        self.ends.retain(|end| *end <= position);
        self.foreign.retain(|foreign| *foreign <= position);
        self.durable_by.clear();
        self.in_doubt.clear();
    }
}

/// Whether what was found begins with these records, except those that later ones supersede.
fn begins_with(found: &[Option<Record>], records: &[Record]) -> bool {
    let superseded = |at: usize, record: &Record| {
        let mut later = found[at + 1..].iter().flatten();
        record.document.is_some() && later.any(|later| later.key == record.key)
    };
    let mut pairs = found.iter().zip(records).enumerate();
    found.len() >= records.len()
        && pairs.all(|(at, (found, record))| match found {
            Some(found) => found == record,
            None => superseded(at, record),
        })
}

/// The answer that a write must get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Created(u64),
    Updated(u64),
    Deleted(u64),
    Unchanged(u64),
    Conflict,
    NotFound,
}

/// Decides the writes of a batch to one partition, as the partition must.
#[derive(Debug, Clone)]
pub(crate) struct Decider {
    state: State,
    /// The newest external version of each key that had one, whether or not it has a document.
    external: BTreeMap<Key, u64>,
    last: u64,
    pub(crate) records: Vec<Record>,
}

/// A write with everything filled in. A patch is a document that is merged.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    pub(crate) key: Key,
    pub(crate) action: Action,
    pub(crate) condition: Condition,
}

#[derive(Debug, Clone)]
pub(crate) enum Action {
    Put(Arc<str>),
    Patch(Value),
    Delete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    Always,
    IfAbsent,
    IfVersion(u64),
    External(u64),
    ExternalOrEqual(u64),
}

impl Decider {
    pub(crate) fn new(partition: &Partition) -> Decider {
        let last = partition.last();
        Decider {
            state: partition.state_at(last),
            external: partition.external(),
            last,
            records: Vec::new(),
        }
    }

    /// The version that a document has now.
    pub(crate) fn version(&self, key: &Key) -> Option<u64> {
        self.state.get(key).map(|(version, _)| version.position)
    }

    /// The external version that a document, or its deletion, has now.
    pub(crate) fn external(&self, key: &Key) -> Option<u64> {
        self.external.get(key).copied()
    }

    pub(crate) fn decide(&mut self, write: &Write) -> Answer {
        let now = self.state.get(&write.key).cloned();
        let holds = match write.condition {
            Condition::Always => true,
            Condition::IfAbsent => now.is_none(),
            Condition::IfVersion(version) => now
                .as_ref()
                .is_some_and(|(found, _)| found.position == version),
            Condition::External(given) => self.external(&write.key).is_none_or(|now| now < given),
            Condition::ExternalOrEqual(given) => {
                self.external(&write.key).is_none_or(|now| now <= given)
            }
        };
        if !holds {
            return Answer::Conflict;
        }
        let given = match write.condition {
            Condition::External(given) | Condition::ExternalOrEqual(given) => Some(given),
            Condition::Always | Condition::IfAbsent | Condition::IfVersion(_) => None,
        };
        match (&write.action, now) {
            (Action::Put(document), None) => {
                Answer::Created(self.record(&write.key, Some(document.clone()), given))
            }
            (Action::Put(document), Some(_)) => {
                Answer::Updated(self.record(&write.key, Some(document.clone()), given))
            }
            (Action::Patch(_), None) => Answer::NotFound,
            (Action::Patch(patch), Some((version, old))) => {
                let mut new = serde_json::from_str(&old).unwrap();
                document::merge(&mut new, patch);
                // Compared as text: the order of fields belongs to a document.
                match new.to_string() {
                    new if *new == *old && given.is_none() => Answer::Unchanged(version.position),
                    new => Answer::Updated(self.record(&write.key, Some(new.into()), given)),
                }
            }
            (Action::Delete, None) if given.is_none() => Answer::Unchanged(0),
            (Action::Delete, None) => Answer::Unchanged(self.record(&write.key, None, given)),
            (Action::Delete, Some(_)) => Answer::Deleted(self.record(&write.key, None, given)),
        }
    }

    fn record(&mut self, key: &Key, document: Option<Arc<str>>, given: Option<u64>) -> u64 {
        self.last += 1;
        let external = given.or(self.external(key).map(|version| version + 1));
        if let Some(version) = external {
            self.external.insert(key.clone(), version);
        }
        let version = Version {
            position: self.last,
            external,
        };
        match &document {
            Some(document) => self.state.insert(key.clone(), (version, document.clone())),
            None => self.state.remove(key),
        };
        self.records.push(Record {
            key: key.clone(),
            document,
            external,
        });
        self.last
    }
}
