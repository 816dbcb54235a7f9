//! The requests of one client and their answers, and whether what is found after a crash agrees
//! with them.
//!
//! A client has its own keys and sends one request at a time, so its writes to a partition are in
//! the log of that partition in the order of the requests. After any crash a partition has the
//! state after a prefix of its log. So for each client and partition there must be a number `k`:
//! the first `k` writes are done, the others are not. Each key restricts `k`; if no `k` is left, a
//! promise was broken. Under `sync`, and without a crash, `k` includes every acknowledged write. A
//! write answered with an error other than "full" may be done or not. A batch has one `k` in each
//! partition, as it is one group of the log; but in a wide collection, where each row is one.
//!
//! If partitions are split and merged, the number of them in the book is the greatest that there
//! is: what holds for a partition holds for each part of it. A merge gives documents higher
//! versions.

use super::content;
use super::trouble::{Result, failed};
use quiredb::Key;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Acknowledged, with the version of the document if the answer had it.
    Done(Option<u64>),
    /// Answered with an error that says that nothing was written.
    Refused,
    /// Answered with another error, or not at all.
    Unknown,
}

/// A document that was found: its number and its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) n: u64,
    pub(crate) version: u64,
}

/// Everything found in a database, by key.
pub(crate) type Contents = BTreeMap<String, Held>;

/// Which acknowledged writes must be found.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Promise {
    /// All of them: under `sync`, or if nothing crashed.
    All,
    /// Those acknowledged before this moment.
    Before(Instant),
    /// A prefix, of any length.
    Prefix,
}

#[derive(Debug)]
struct Write {
    key: String,
    /// The document; `None` for a deletion.
    n: Option<u64>,
    /// Writes of one batch have one number.
    batch: u64,
    outcome: Outcome,
    answered: Instant,
}

/// The writes of one client since the last comparison.
#[derive(Debug)]
pub(crate) struct Book {
    client: u64,
    partitions: u32,
    /// Whether documents may have higher versions than those that were told.
    are_merged: bool,
    /// Whether each write of a batch is done or not by itself.
    are_rows: bool,
    /// What the last comparison found.
    base: Contents,
    writes: Vec<Write>,
    /// By key, the indexes of its writes.
    of_key: BTreeMap<String, Vec<usize>>,
    /// Partitions that reported that they take no more writes.
    read_only: BTreeSet<u32>,
}

impl Book {
    pub(crate) fn new(client: u64, partitions: u32) -> Book {
        Book {
            client,
            partitions,
            are_merged: false,
            are_rows: false,
            base: Contents::new(),
            writes: Vec::new(),
            of_key: BTreeMap::new(),
            read_only: BTreeSet::new(),
        }
    }

    /// Notes that partitions may be merged.
    pub(crate) fn are_merged(&mut self) {
        self.are_merged = true;
    }

    /// Notes that the writes are of rows of a wide collection.
    pub(crate) fn are_rows(&mut self) {
        self.are_rows = true;
    }

    /// Whether a version that was found may be one that was told.
    fn may_be_version(&self, told: u64, found: u64) -> bool {
        told == found || self.are_merged && told < found
    }

    /// Whether what was found may be what was there.
    fn may_be(&self, was: Option<Held>, found: Option<Held>) -> bool {
        match (was, found) {
            (Some(was), Some(found)) => {
                was.n == found.n && self.may_be_version(was.version, found.version)
            }
            (was, found) => was == found,
        }
    }

    /// Whether this write could have made what was found.
    fn may_have_made(&self, write: &Write, found: Option<Held>) -> bool {
        match (write.n, found) {
            (None, None) => true,
            (Some(n), Some(held)) => {
                let version_fits = match write.outcome {
                    Outcome::Done(Some(version)) => self.may_be_version(version, held.version),
                    _ => true,
                };
                n == held.n && version_fits
            }
            _ => false,
        }
    }

    /// Notes a write that is about to be sent, and returns its number, for
    /// [`answer`](Book::answer).
    pub(crate) fn request(&mut self, key: &str, n: Option<u64>, batch: u64) -> usize {
        let number = self.writes.len();
        self.of_key.entry(key.to_owned()).or_default().push(number);
        self.writes.push(Write {
            key: key.to_owned(),
            n,
            batch,
            outcome: Outcome::Unknown,
            answered: Instant::now(),
        });
        number
    }

    /// Notes the answer to a write.
    ///
    /// # Errors
    /// If it was acknowledged by a partition that had reported that it takes no more writes.
    pub(crate) fn answer(&mut self, number: usize, outcome: Outcome) -> Result<()> {
        self.answered(number, outcome, Instant::now())
    }

    /// As [`answer`](Book::answer), for an answer at another time.
    ///
    /// # Errors
    /// As of [`answer`](Book::answer).
    pub(crate) fn answered(&mut self, number: usize, outcome: Outcome, at: Instant) -> Result<()> {
        let write = &mut self.writes[number];
        write.outcome = outcome;
        write.answered = at;
        let partition = partition_of(&write.key, self.partitions);
        // A partition can answer without writing that there was nothing to delete.
        let is_written = write.n.is_some() || outcome != Outcome::Done(None);
        let is_done = matches!(outcome, Outcome::Done(_)) && is_written;
        if is_done && self.read_only.contains(&partition) {
            return failed(format!(
                "{} in partition {partition}, which had said to be read-only: {}",
                write.key,
                shown(write.n, outcome)
            ));
        }
        Ok(())
    }

    /// Notes that the partition of this write reported that it takes no more.
    pub(crate) fn is_read_only(&mut self, number: usize) {
        let key = &self.writes[number].key;
        self.read_only.insert(partition_of(key, self.partitions));
    }

    /// The number of writes acknowledged since the last comparison.
    pub(crate) fn acknowledged(&self) -> u64 {
        let done = |write: &&Write| matches!(write.outcome, Outcome::Done(_));
        self.writes.iter().filter(done).count() as u64
    }

    /// Checks that a key may hold what a read found now; the client has no other request under way.
    ///
    /// # Errors
    /// If it may not.
    pub(crate) fn check_read(&self, key: &str, found: Option<Held>) -> Result<()> {
        for number in self.of_key.get(key).into_iter().flatten().rev() {
            let write = &self.writes[*number];
            if write.outcome == Outcome::Refused {
                continue;
            }
            if self.may_have_made(write, found) {
                return Ok(());
            }
            if let Outcome::Done(_) = write.outcome {
                let wrote = shown(write.n, write.outcome);
                return failed(format!("{key} is {found:?}; last acknowledged: {wrote}"));
            }
        }
        match self.base.get(key).copied() {
            base if self.may_be(base, found) => Ok(()),
            base => failed(format!("{key} is {found:?} and should be {base:?}")),
        }
    }

    /// Compares the contents of the whole database, after a crash or at rest, with the writes so
    /// far. If they agree, later comparisons start from these contents. Returns the number of
    /// acknowledged writes compared.
    ///
    /// # Errors
    /// If they do not agree; the message says where.
    pub(crate) fn settle(&mut self, all: &Contents, promise: Promise) -> Result<u64> {
        let prefix = content::prefix(self.client);
        let own = all.range(prefix.clone()..);
        let own = own.take_while(|(key, _)| key.starts_with(&prefix));
        let own: Contents = own.map(|(key, held)| (key.clone(), *held)).collect();
        for (key, held) in &own {
            if !self.of_key.contains_key(key) && !self.base.contains_key(key) {
                return failed(format!("{key} is {held:?} and was never written"));
            }
        }
        for (key, held) in &self.base {
            let found = own.get(key).copied();
            if !self.of_key.contains_key(key) && !self.may_be(Some(*held), found) {
                return failed(format!("{key} was {held:?}, untouched, and is {found:?}"));
            }
        }
        for partition in 0..self.partitions {
            self.settle_partition(partition, &own, promise)?;
        }
        if !self.are_rows {
            self.check_batches(&own)?;
        }
        let acknowledged = self.acknowledged();
        self.base = own;
        self.writes.clear();
        self.of_key.clear();
        self.read_only.clear();
        Ok(acknowledged)
    }

    /// Looks for a `k`.
    fn settle_partition(&self, partition: u32, own: &Contents, promise: Promise) -> Result<()> {
        let is_here = |write: &Write| {
            write.outcome != Outcome::Refused
                && partition_of(&write.key, self.partitions) == partition
        };
        let writes: Vec<&Write> = self.writes.iter().filter(|write| is_here(write)).collect();
        let mut by_key: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, write) in writes.iter().enumerate() {
            by_key.entry(&write.key).or_default().push(at);
        }
        let must = |write: &Write| match (write.outcome, promise) {
            (Outcome::Done(_), Promise::All) => true,
            (Outcome::Done(_), Promise::Before(moment)) => write.answered < moment,
            _ => false,
        };
        let least = writes
            .iter()
            .rposition(|write| must(write))
            .map_or(0, |at| at + 1);
        // For each `k`, the number of keys that allow it.
        let mut allows = vec![0_i64; writes.len() + 2];
        for (key, numbers) in &by_key {
            let found = own.get(*key).copied();
            let ranges = self.ranges(key, numbers, &writes, found);
            if !ranges.iter().any(|(_, most)| *most >= least) {
                let history = self.history(key, numbers, &writes);
                return failed(format!(
                    "{key} in partition {partition} is {found:?}: acknowledged writes are gone, \
                     or it was never that: {history}"
                ));
            }
            for (from, most) in ranges {
                allows[from] += 1;
                allows[most + 1] -= 1;
            }
        }
        let (mut allowed_by, mut nearest) = (0, 0);
        for (k, change) in allows.iter().enumerate().take(writes.len() + 1) {
            allowed_by += change;
            let is_between = !self.are_rows && k > 0 && k < writes.len();
            let cuts_batch = is_between && writes[k - 1].batch == writes[k].batch;
            if allowed_by == by_key.len() as i64 && k >= least && !cuts_batch {
                return Ok(());
            }
            nearest = nearest.max(allowed_by);
        }
        failed(format!(
            "partition {partition} is no prefix of what client {} wrote to it: \
             {} writes, {least} of them must be there; at most {nearest} of {} \
             keys agree on how far it got",
            self.client,
            writes.len(),
            by_key.len()
        ))
    }

    /// The values of `k`, as ranges with their ends, under which a key would be as it was found.
    /// Ranges of one key do not overlap.
    fn ranges(
        &self,
        key: &str,
        numbers: &[usize],
        writes: &[&Write],
        found: Option<Held>,
    ) -> Vec<(usize, usize)> {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        let mut add = |from: usize, after: &[usize]| {
            let done = |at: &&usize| matches!(writes[**at].outcome, Outcome::Done(_));
            let most = after.iter().find(done).copied().unwrap_or(writes.len());
            match ranges.last_mut() {
                Some(last) if last.1 >= from => last.1 = last.1.max(most),
                _ => ranges.push((from, most)),
            }
        };
        if self.may_be(self.base.get(key).copied(), found) {
            add(0, numbers);
        }
        for (place, at) in numbers.iter().enumerate() {
            if self.may_have_made(writes[*at], found) {
                add(at + 1, &numbers[place + 1..]);
            }
        }
        ranges
    }

    /// A batch whose answer is not known is done in a partition as a whole or not at all.
    fn check_batches(&self, own: &Contents) -> Result<()> {
        let mut batches: BTreeMap<(u64, u32), Halves<'_>> = BTreeMap::new();
        for (number, write) in self.writes.iter().enumerate() {
            let is_last = self.of_key.get(&write.key).and_then(|of_key| of_key.last());
            // A key that was written again proves nothing; deletes and missing keys look alike.
            let Some(n) = write.n.filter(|_| is_last == Some(&number)) else {
                continue;
            };
            if write.outcome != Outcome::Unknown {
                continue;
            }
            let partition = partition_of(&write.key, self.partitions);
            let (done, left) = batches.entry((write.batch, partition)).or_default();
            if own.get(&write.key).is_some_and(|held| held.n == n) {
                *done = Some(&write.key);
            } else {
                *left = Some(&write.key);
            }
        }
        for ((_, partition), (done, left)) in batches {
            if let (Some(done), Some(left)) = (done, left) {
                return failed(format!(
                    "a batch is there in part: in partition {partition}, {done} was written and \
                     {left} was not"
                ));
            }
        }
        Ok(())
    }

    /// The last writes to a key, for a message.
    fn history(&self, key: &str, numbers: &[usize], writes: &[&Write]) -> String {
        let mut history = format!("it was {:?}", self.base.get(key));
        for at in numbers.iter().rev().take(6).rev() {
            let write = writes[*at];
            history.push_str(&format!("; write {at}: {}", shown(write.n, write.outcome)));
        }
        history
    }
}

/// A key of a batch that was written, and one that was not.
type Halves<'a> = (Option<&'a str>, Option<&'a str>);

fn shown(n: Option<u64>, outcome: Outcome) -> String {
    match n {
        Some(n) => format!("document {n} {outcome:?}"),
        None => format!("deleted {outcome:?}"),
    }
}

/// The partition of a key, by the rule of the database.
fn partition_of(key: &str, partitions: u32) -> u32 {
    let hash = Key::parse(key).map_or(0, |key| key.hash64());
    ((u128::from(hash) * u128::from(partitions)) >> 64) as u32
}

#[cfg(test)]
mod tests;
