//! The model of the wide collection: what each partition must hold.
//!
//! Moves between tiers and groups are records too, and the log keeps no records that the tables
//! have. So positions do not tell which writes are there: the rows do. A partition has the rows
//! that a crash must leave, and the writes since. A crash leaves a prefix of these, and each write
//! with all its cells. So does a batch that failed.

use super::row::{Answer, Row, Rows, Write, is_same};
use quiredb::{Effect, Key};
use std::collections::BTreeMap;
use std::time::Duration;

/// The wide collection.
#[derive(Debug, Clone)]
pub(crate) struct Wide {
    pub(crate) partitions: Vec<Partition>,
    /// As of a plain [`Collection`](crate::sim::model::Collection), as are the next two.
    pub(crate) certain: bool,
    pub(crate) was_closed: bool,
    pub(crate) may_have: Option<u32>,
}

impl Wide {
    pub(crate) fn new(partitions: u32) -> Wide {
        Wide {
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
            part.all_durable();
            part.base.retain(|key, _| owner(key) == number);
            part.records
                .retain(|record| owner(&record.write.key) == number);
            part
        };
        self.partitions = (0..count).map(part).collect();
        self.may_have = None;
    }

    /// Notes that neighbouring partitions were merged, and that the new ones have these rows. What
    /// was written is durable.
    pub(crate) fn merge(&mut self, found: &[Rows], when: &str) {
        let each = self.partitions.len() / found.len();
        let merged = self.partitions.chunks(each).zip(found);
        let merged = merged.map(|(olds, found)| Partition::merged(olds, found, when));
        self.partitions = merged.collect();
        self.may_have = None;
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.partitions.iter().any(Partition::is_in_doubt)
    }

    /// All rows. Nothing may be in doubt.
    pub(crate) fn rows(&self) -> Rows {
        let partitions = self.partitions.iter();
        let rows = partitions.flat_map(|partition| partition.rows(partition.records.len()));
        rows.collect()
    }
}

/// A write that changed its row, or may have.
#[derive(Debug, Clone)]
struct Record {
    write: Write,
    /// Of the row after it, if it is known.
    version: Option<u64>,
    /// Whether it was to be durable before it was visible.
    sync: bool,
    /// When background work makes it durable, with all before it.
    due: Option<Duration>,
}

/// A partition: see the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Partition {
    /// The rows that a crash must leave.
    base: Rows,
    /// Writes after those of the base, in order.
    records: Vec<Record>,
    /// The number of the records that were acknowledged or seen. The others are of one batch that
    /// is in doubt.
    certain: usize,
}

impl Partition {
    /// One that others were merged into, which has these rows. All have higher versions.
    fn merged(olds: &[Partition], found: &Rows, when: &str) -> Partition {
        let mut new = Partition::default();
        for mut old in olds.iter().cloned() {
            old.all_durable();
            new.base.extend(old.base);
            new.records.extend(old.records);
        }
        let mut versions = BTreeMap::new();
        for (key, row) in &mut new.base {
            versions.insert(key.clone(), row.version.take());
        }
        new.cut(found, when);
        new.all_durable();
        for (key, row) in &mut new.base {
            row.version = found.get(key).and_then(|row| row.version);
            let before = versions.get(key).copied().flatten();
            assert!(before < row.version, "{when}: the version of {key}");
        }
        new
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.certain < self.records.len()
    }

    pub(crate) fn is_untouched(&self) -> bool {
        self.base.is_empty() && self.records.is_empty()
    }

    /// The rows after the first `end` records.
    fn rows(&self, end: usize) -> Rows {
        let mut rows = self.base.clone();
        let records = self.records[..end].iter();
        records.for_each(|record| record.apply(&mut rows));
        rows
    }

    /// The row of a key after all records.
    fn row(&self, key: &Key) -> Option<Row> {
        let records = self.records.iter();
        let records = records.filter(|record| record.write.key == *key);
        let row = self.base.get(key).cloned();
        records.fold(row, |row, record| record.after(row))
    }

    /// The version of a row now, if there is one.
    pub(crate) fn version(&self, key: &Key) -> Option<u64> {
        self.row(key)?.version
    }

    /// The answer that a write must get now.
    pub(crate) fn answer(&self, write: &Write) -> Answer {
        write.apply(self.row(&write.key).as_ref()).0
    }

    /// Notes a write that was done and has this version, or has failed: then it is the last of its
    /// batch. It is in doubt until it is acknowledged.
    pub(crate) fn write(&mut self, write: Write, version: Option<u64>, sync: bool) {
        self.records.push(Record {
            write,
            version,
            sync,
            due: None,
        });
    }

    /// Notes that the writes that were done are acknowledged, and become durable by `due`.
    pub(crate) fn acknowledge(&mut self, due: Option<Duration>) {
        let has_failed = |record: &Record| record.version.is_none();
        let failed = self.records[self.certain..].iter().position(has_failed);
        self.certain = failed.map_or(self.records.len(), |at| self.certain + at);
        if let Some(record) = self.records[..self.certain].last_mut() {
            record.due = due;
        }
    }

    /// Notes that background work was done up to `now`.
    pub(crate) fn background_done(&mut self, now: Duration) {
        let is_due = |record: &Record| record.due.is_some_and(|due| due <= now);
        let due = self.records[..self.certain].iter().rposition(is_due);
        self.durable(due.map_or(0, |last| last + 1));
    }

    /// Notes that a crash leaves all writes that are certain.
    pub(crate) fn all_durable(&mut self) {
        self.durable(self.certain);
    }

    /// Notes that a crash leaves the first `count` records.
    fn durable(&mut self, count: usize) {
        for record in self.records.drain(..count) {
            record.apply(&mut self.base);
        }
        self.certain -= count;
    }

    /// Notes that no write in doubt can appear any more.
    pub(crate) fn no_more(&mut self) {
        self.records.truncate(self.certain);
    }

    /// Compares what was read with what must be there, which decides writes in doubt. Those that
    /// were seen were then as durable as was requested.
    pub(crate) fn found(&mut self, found: &Rows, when: &str) {
        let before = self.certain;
        self.decide(found, before, when);
        let seen = &self.records[before..self.certain];
        if seen.last().is_some_and(|last| last.sync) {
            self.all_durable();
        }
    }

    /// Checks that a crash may have left these rows, and drops the writes that are gone.
    pub(crate) fn cut(&mut self, found: &Rows, when: &str) {
        self.decide(found, 0, when);
        self.no_more();
    }

    /// Finds how many records are there, at least `first`, by the rows that were found.
    fn decide(&mut self, found: &Rows, first: usize, when: &str) {
        let mut ends = (first..=self.records.len()).rev();
        let end = ends.find(|end| wrong_row(&self.rows(*end), found).is_none());
        self.certain = end.unwrap_or_else(|| {
            let expected = self.rows(self.records.len());
            let key = wrong_row(&expected, found).unwrap();
            let (row, must) = (found.get(&key), self.base.get(&key));
            let mut records = self.records.clone();
            records.retain(|record| record.write.key == key);
            panic!(
                "{when}: no prefix of the writes made these rows: {key} is {row:?}; it was \
                 {must:?}, then {records:?} came"
            );
        });
        // A write that failed, and is there all the same.
        for record in &mut self.records[first..self.certain] {
            let row = found.get(&record.write.key);
            record.version = record.version.or(row.and_then(|row| row.version));
        }
    }
}

/// A key whose row is not the one found.
fn wrong_row(rows: &Rows, found: &Rows) -> Option<Key> {
    let mut keys = rows.keys().chain(found.keys());
    let wrong = keys.find(|key| !is_same(rows.get(key), found.get(key)));
    wrong.cloned()
}

impl Record {
    /// The row after it.
    fn after(&self, row: Option<Row>) -> Option<Row> {
        let (answer, after) = self.write.apply(row.as_ref());
        match answer {
            Ok(Effect::Unchanged) | Err(_) => after,
            Ok(_) => after.map(|row| row.with_version(self.version)),
        }
    }

    fn apply(&self, rows: &mut Rows) {
        match self.after(rows.remove(&self.write.key)) {
            Some(row) => rows.insert(self.write.key.clone(), row),
            None => None,
        };
    }
}
