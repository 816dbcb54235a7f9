//! The model of the wide collection: what each partition must hold.
//!
//! Moves between tiers and groups are records too, and the log keeps no records that the tables
//! have. So positions do not tell which writes are there: the rows do. A partition has the rows
//! that a crash must leave, and the writes since. A crash leaves a prefix of these. One that failed
//! is in doubt: it is there with all its cells, or not at all.

use super::row::{Row, Rows, Write, is_same};
use quiredb::{Effect, ErrorKind, Key};
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
            part.durable = part.records.len();
            part
        };
        self.partitions = (0..count).map(part).collect();
        self.may_have = None;
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.partitions.iter().any(Partition::is_in_doubt)
    }

    /// All rows. Nothing may be in doubt.
    pub(crate) fn rows(&self) -> Rows {
        let rows = self.partitions.iter().flat_map(Partition::rows);
        rows.collect()
    }
}

/// A write that changed its row, or may have.
#[derive(Debug, Clone)]
struct Record {
    write: Write,
    /// Of the row after it, if it is known.
    version: Option<u64>,
    /// Whether it is there: it was acknowledged, or seen.
    certain: bool,
    /// Whether it was to be durable before it was visible.
    sync: bool,
    /// When background work makes it durable, with all before it.
    due: Option<Duration>,
}

/// What a row may be, and the indexes of the records that made it so.
#[derive(Debug)]
struct Outcome {
    row: Option<Row>,
    done: Vec<usize>,
}

/// A partition: see the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Partition {
    /// Durable rows.
    base: Rows,
    /// Writes after those of the base, in order.
    records: Vec<Record>,
    /// The number of the records that a crash must leave, if they are certain.
    durable: usize,
}

impl Partition {
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.records.iter().any(|record| !record.certain)
    }

    pub(crate) fn is_untouched(&self) -> bool {
        self.base.is_empty() && self.records.is_empty()
    }

    fn rows(&self) -> Rows {
        let mut rows = self.base.clone();
        self.records
            .iter()
            .for_each(|record| record.apply(&mut rows));
        rows
    }

    /// What the row of a key may be after the first `end` records.
    fn possible(&self, key: &Key, end: usize) -> Vec<Outcome> {
        let mut all = vec![Outcome {
            row: self.base.get(key).cloned(),
            done: Vec::new(),
        }];
        let records = self.records[..end].iter().enumerate();
        for (index, record) in records.filter(|(_, record)| record.write.key == *key) {
            let after = |before: &Outcome| Outcome {
                row: record.after(before.row.as_ref()),
                done: before.done.iter().copied().chain([index]).collect(),
            };
            let after: Vec<Outcome> = all.iter().map(after).collect();
            match record.certain {
                true => all = after,
                false => all.extend(after),
            }
        }
        all
    }

    /// The version of a row now, if there is one.
    pub(crate) fn version(&self, key: &Key) -> Option<u64> {
        let rows = self.possible(key, self.records.len());
        rows.last()
            .and_then(|outcome| outcome.row.as_ref()?.version)
    }

    /// Whether this may be the version of a row; 0 of none.
    pub(crate) fn may_have(&self, key: &Key, version: u64) -> bool {
        let rows = self.possible(key, self.records.len());
        let mut rows = rows.iter().map(|outcome| outcome.row.as_ref());
        rows.any(|row| {
            row.map_or(version == 0, |row| {
                row.version.is_none_or(|of| of == version)
            })
        })
    }

    /// Whether this may be the answer to a write.
    pub(crate) fn may_answer(&self, write: &Write, answer: Result<Effect, ErrorKind>) -> bool {
        let rows = self.possible(&write.key, self.records.len());
        let mut answers = rows
            .iter()
            .map(|outcome| write.apply(outcome.row.as_ref()).0);
        answers.any(|expected| expected == answer)
    }

    /// Notes a write that was done and has this version, or one in doubt.
    pub(crate) fn write(&mut self, write: Write, version: Option<u64>, sync: bool) {
        self.records.push(Record {
            write,
            version,
            certain: version.is_some(),
            sync,
            due: None,
        });
    }

    /// The number of writes that are not in the base.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Notes that the writes from this one on were not acknowledged.
    pub(crate) fn doubt_from(&mut self, first: usize) {
        for record in &mut self.records[first..] {
            record.certain = false;
        }
    }

    /// Notes that all writes become durable by then.
    pub(crate) fn durable_by(&mut self, due: Duration) {
        if let Some(record) = self.records.last_mut() {
            record.due = Some(due);
        }
    }

    /// Notes that background work was done up to `now`.
    pub(crate) fn background_done(&mut self, now: Duration) {
        let is_due = |record: &Record| record.due.is_some_and(|due| due <= now);
        if let Some(last) = self.records.iter().rposition(is_due) {
            self.durable = self.durable.max(last + 1);
            self.fold();
        }
    }

    /// Notes that a crash leaves all writes.
    pub(crate) fn all_durable(&mut self) {
        self.durable = self.records.len();
        self.fold();
    }

    /// Notes that no write in doubt can appear any more.
    pub(crate) fn no_more(&mut self) {
        self.keep(|_, record| record.certain);
    }

    /// Compares what was read with what must be there, which decides writes in doubt.
    pub(crate) fn found(&mut self, found: &Rows, when: &str) {
        self.decide(found, when);
        let seen = |record: &Record| record.certain && record.sync;
        let seen = self.records.iter().rposition(seen);
        self.durable = self.durable.max(seen.map_or(0, |last| last + 1));
        self.fold();
    }

    /// Checks that a crash may have left these rows, and drops the writes that are gone.
    pub(crate) fn cut(&mut self, found: &Rows, when: &str) {
        let mut ends = (self.durable..=self.records.len()).rev();
        if let Some(end) = ends.find(|end| self.wrong_row(found, *end).is_none()) {
            self.records.truncate(end);
        }
        self.decide(found, when);
        self.no_more();
    }

    /// A key whose row can't be the one found after the first `end` records.
    fn wrong_row(&self, found: &Rows, end: usize) -> Option<Key> {
        let written = self.records.iter().map(|record| &record.write.key);
        let mut keys = self.base.keys().chain(written).chain(found.keys());
        let wrong = keys.find(|key| {
            let mut rows = self.possible(key, end).into_iter();
            !rows.any(|outcome| is_same(outcome.row.as_ref(), found.get(key)))
        });
        wrong.cloned()
    }

    /// Marks the records in doubt that are there by what was found. Those before a later one that
    /// is certain are never there if they are not now.
    fn decide(&mut self, found: &Rows, when: &str) {
        let end = self.records.len();
        if let Some(key) = self.wrong_row(found, end) {
            let rows = self.possible(&key, end);
            let found = found.get(&key);
            panic!("{when}: row {key} is {found:?}, and not one of {rows:?}");
        }
        if !self.is_in_doubt() {
            return;
        }
        for index in 0..end {
            let key = self.records[index].write.key.clone();
            let rows = self.possible(&key, end);
            let is_found = |outcome: &&Outcome| is_same(outcome.row.as_ref(), found.get(&key));
            let done = rows
                .iter()
                .rfind(is_found)
                .map(|outcome| outcome.done.clone());
            let done = done.unwrap_or_default();
            if !self.records[index].certain && done.contains(&index) {
                let is_last = done.last() == Some(&index);
                let version = found.get(&key).and_then(|row| row.version);
                let record = &mut self.records[index];
                record.certain = true;
                record.version = record.version.or(version.filter(|_| is_last));
            }
        }
        let last = self.records.iter().rposition(|record| record.certain);
        self.keep(|index, record| record.certain || last.is_none_or(|last| index > last));
    }

    /// Drops other records.
    fn keep(&mut self, keeps: impl Fn(usize, &Record) -> bool) {
        let (mut index, mut durable) = (0, 0);
        let before = self.durable;
        self.records.retain(|record| {
            let is_kept = keeps(index, record);
            durable += usize::from(is_kept && index < before);
            index += 1;
            is_kept
        });
        self.durable = durable;
    }

    /// Moves durable records to the base, up to one in doubt.
    fn fold(&mut self) {
        let durable = self.records[..self.durable].iter();
        let certain = durable.take_while(|record| record.certain).count();
        for record in self.records.drain(..certain) {
            record.apply(&mut self.base);
        }
        self.durable -= certain;
    }
}

impl Record {
    /// The row after it.
    fn after(&self, row: Option<&Row>) -> Option<Row> {
        let (answer, after) = self.write.apply(row);
        match answer {
            Ok(Effect::Unchanged) | Err(_) => after,
            Ok(_) => after.map(|row| row.with_version(self.version)),
        }
    }

    fn apply(&self, rows: &mut Rows) {
        match self.after(rows.get(&self.write.key)) {
            Some(row) => rows.insert(self.write.key.clone(), row),
            None => rows.remove(&self.write.key),
        };
    }
}
