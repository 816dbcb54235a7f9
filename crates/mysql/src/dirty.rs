//! The marks of what must be looked up, in bounded memory.
//!
//! Marks are in two generations: what is looked up now, and what came since the former began.
//! When the former is empty, all changes before it began are in the documents that were given. So a
//! reader can go on there after a kill, however many documents a mark stands for.

use crate::mark::Mark;
use crate::place::Offset;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// About the bytes of marks in a generation at which no more changes are read.
const BYTES_MAX: usize = 16 << 20;

/// About the bytes of a mark beside its texts.
const MARK_BYTES: usize = 150;

/// A position between transactions: its offset, and the ids of the last transactions.
pub(crate) type Between = (Offset, String);

/// What must be looked up.
#[derive(Debug)]
pub(crate) struct Dirty {
    now: Generation,
    later: Generation,
    /// The last end of a transaction before the present generation began.
    through: Between,
    /// The keys of the first related mark are known up to this one, whose parts are SQL.
    known: Option<Vec<String>>,
}

#[derive(Debug, Default)]
struct Generation {
    /// By key: the values of the primary key as SQL, and when the first change was committed.
    keys: BTreeMap<String, (Vec<String>, i64)>,
    /// By join and values: when the first change was committed.
    related: BTreeMap<(usize, Vec<String>), i64>,
    bytes: usize,
}

/// Marks of one join, whose documents must be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Related {
    pub(crate) join: usize,
    /// The values of each mark.
    pub(crate) values: Vec<Vec<String>>,
    /// If it is one mark whose documents are many: those up to this key are known.
    pub(crate) after: Option<Vec<String>>,
}

/// Keys of documents, each with the values of the primary key as SQL.
pub(crate) type Keys = Vec<(String, Vec<String>)>;

impl Dirty {
    /// Nothing to look up at a position.
    pub(crate) fn new(at: Between) -> Dirty {
        Dirty {
            now: Generation::default(),
            later: Generation::default(),
            through: at,
            known: None,
        }
    }

    pub(crate) fn add(&mut self, mark: Mark, time_micros: i64) {
        self.later.add(mark, time_micros);
    }

    /// Whether nothing must be looked up.
    pub(crate) fn is_clean(&self) -> bool {
        self.now.is_empty() && self.later.is_empty()
    }

    /// Whether documents must be given before more changes are read.
    pub(crate) fn is_full(&self) -> bool {
        self.later.bytes >= BYTES_MAX
    }

    /// Begins a generation if the last one is done. `ended` is the last end of a transaction.
    pub(crate) fn turn(&mut self, ended: &Between) {
        if self.now.is_empty() && !self.later.is_empty() {
            self.now = std::mem::take(&mut self.later);
            self.through.clone_from(ended);
        }
    }

    /// Marks whose documents must be found next, `count_max` at most; none as long as enough keys
    /// are known.
    pub(crate) fn related(&self, count_max: usize) -> Option<Related> {
        let is_enough = self.now.bytes >= 2 * BYTES_MAX && !self.now.keys.is_empty();
        let ((join, _), _) = self.now.related.first_key_value().filter(|_| !is_enough)?;
        let count_max = if self.known.is_some() { 1 } else { count_max };
        let same = self.now.related.keys().filter(|(other, _)| other == join);
        Some(Related {
            join: *join,
            values: same
                .take(count_max)
                .map(|(_, values)| values.clone())
                .collect(),
            after: self.known.clone(),
        })
    }

    /// The documents of marks are these; with `rest`, only those up to a key.
    pub(crate) fn found(&mut self, related: &Related, keys: Keys, rest: Option<Vec<String>>) {
        let marks = related.values.iter();
        let marks: Vec<_> = marks.map(|values| (related.join, values.clone())).collect();
        let times = marks.iter().filter_map(|mark| self.now.related.get(mark));
        let time_micros = times.min().copied().unwrap_or(0);
        for (key, parts) in keys {
            self.now.add(Mark::Key { key, parts }, time_micros);
        }
        for mark in marks.iter().filter(|_| rest.is_none()) {
            if self.now.related.remove(mark).is_some() {
                self.now.bytes -= bytes("", &mark.1);
            }
        }
        self.known = rest;
    }

    /// The keys to look up next, `count_max` at most, and when the first change was committed.
    pub(crate) fn keys(&self, count_max: usize) -> Option<(Keys, i64)> {
        let some = self.now.keys.iter().take(count_max);
        let time_micros = some.clone().map(|(_, (_, time))| *time).min()?;
        let keys = some.map(|(key, (parts, _))| (key.clone(), parts.clone()));
        Some((keys.collect(), time_micros))
    }

    /// A document was given, as it is after all changes that were read.
    pub(crate) fn given(&mut self, key: &str) {
        self.now.remove(key);
        self.later.remove(key);
    }

    /// The last end of a transaction before which all changes are in the documents that were given.
    pub(crate) fn settled<'a>(&'a self, ended: &'a Between) -> Option<&'a Between> {
        match (self.now.is_empty(), self.later.is_empty()) {
            (true, true) => Some(ended),
            (true, false) => Some(&self.through),
            (false, _) => None,
        }
    }
}

impl Generation {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.related.is_empty()
    }

    fn add(&mut self, mark: Mark, time_micros: i64) {
        match mark {
            Mark::Key { key, parts } => {
                if let Entry::Vacant(entry) = self.keys.entry(key) {
                    self.bytes += bytes(entry.key(), &parts);
                    entry.insert((parts, time_micros));
                }
            }
            Mark::Related { join, values } => {
                if let Entry::Vacant(entry) = self.related.entry((join, values)) {
                    self.bytes += bytes("", &entry.key().1);
                    entry.insert(time_micros);
                }
            }
        }
    }

    fn remove(&mut self, key: &str) {
        if let Some((parts, _)) = self.keys.remove(key) {
            self.bytes -= bytes(key, &parts);
        }
    }
}

/// About the bytes of a mark.
fn bytes(key: &str, values: &[String]) -> usize {
    MARK_BYTES + key.len() + values.iter().map(String::len).sum::<usize>()
}
