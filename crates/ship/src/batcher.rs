//! Cuts the changes of a topic into bulks.
//!
//! # Invariants
//! 1. A bulk has one change of a key at most: a later one takes the place of an earlier one, as in
//!    a compacted topic.
//! 2. While a bulk with a key is under way, no other bulk has the key. So sinks see the changes of
//!    a key in order, though bulks overtake each other and parts of them are sent again.
//! 3. The cursor of the ledger is after the last bulk before which all bulks are settled.

use crate::change::{Change, Cursor};
use serde_json::Value;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// The most bulks that are settled or under way behind one that is not settled.
const LEDGER_MAX: usize = 1024;

/// Changes to send together.
#[derive(Debug)]
pub(crate) struct Bulk {
    pub(crate) number: u64,
    pub(crate) changes: Vec<Change>,
    pub(crate) bytes: usize,
}

/// What waits to be sent, and what is under way.
#[derive(Debug)]
pub(crate) struct Batcher {
    waiting: VecDeque<Change>,
    waiting_bytes: usize,
    keys: HashSet<Arc<str>>,
    ledger: VecDeque<Entry>,
    under_way: usize,
    /// The number of the ledger's first entry.
    first: u64,
    /// After the last change that was cut into a bulk.
    cut: Cursor,
    settled: Settled,
}

/// How far all is settled.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settled {
    pub(crate) cursor: Cursor,
    pub(crate) mark: Option<Value>,
    pub(crate) changes: u64,
    /// When the last change was committed at the source.
    pub(crate) time_micros: i64,
}

#[derive(Debug)]
struct Entry {
    after: Settled,
    is_settled: bool,
}

impl Batcher {
    /// A batcher of what comes after a cursor, where the sink has this mark.
    pub(crate) fn new(cursor: Cursor, mark: Option<Value>) -> Batcher {
        Batcher {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            keys: HashSet::new(),
            ledger: VecDeque::new(),
            under_way: 0,
            first: 0,
            cut: cursor.clone(),
            settled: Settled {
                cursor,
                mark,
                ..Settled::default()
            },
        }
    }

    /// Goes on after a cursor: what comes has other partitions than what was settled.
    pub(crate) fn begin_at(&mut self, cursor: Cursor) {
        assert!(
            self.is_level(),
            "partitions have one numbering in all that waits and is under way"
        );
        self.cut.clone_from(&cursor);
        self.settled.cursor = cursor;
    }

    /// Adds changes that were read.
    pub(crate) fn add(&mut self, changes: Vec<Change>) {
        self.waiting_bytes += changes.iter().map(Change::bytes).sum::<usize>();
        self.waiting.extend(changes);
    }

    /// Bytes that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Bulks that are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Whether nothing waits and nothing is under way.
    pub(crate) fn is_level(&self) -> bool {
        self.waiting.is_empty() && self.ledger.is_empty()
    }

    /// How far all is settled.
    pub(crate) fn settled(&self) -> &Settled {
        &self.settled
    }

    /// The next bulk, of about `bytes_max` bytes; a smaller one only if `is_partial` or if the next
    /// change must wait for one under way. None if there is none to send now, or if too many are
    /// behind one that is not settled.
    pub(crate) fn cut(&mut self, bytes_max: usize, is_partial: bool) -> Option<Bulk> {
        let is_full = self.ledger.len() >= LEDGER_MAX;
        if is_full || (self.waiting_bytes < bytes_max && !is_partial) {
            return None;
        }
        let mut places: HashMap<Arc<str>, usize> = HashMap::new();
        let mut changes: Vec<Change> = Vec::new();
        let (mut bytes, mut read, mut time_micros) = (0, 0, 0);
        while bytes < bytes_max
            && let Some(next) = self.waiting.front()
            && !self.keys.contains(&next.key)
            && let Some(next) = self.waiting.pop_front()
        {
            self.waiting_bytes -= next.bytes();
            self.cut.advance(next.partition, next.position);
            (read, time_micros) = (read + 1, next.time_micros);
            bytes += next.bytes();
            match places.get(&next.key) {
                Some(place) => {
                    bytes -= changes[*place].bytes();
                    changes[*place] = next;
                }
                None => {
                    places.insert(Arc::clone(&next.key), changes.len());
                    changes.push(next);
                }
            }
        }
        if changes.is_empty() {
            return None;
        }
        self.keys.extend(places.into_keys());
        self.under_way += 1;
        let number = self.first + self.ledger.len() as u64;
        self.ledger.push_back(Entry {
            after: Settled {
                cursor: self.cut.clone(),
                mark: None,
                changes: read,
                time_micros,
            },
            is_settled: false,
        });
        Some(Bulk {
            number,
            changes,
            bytes,
        })
    }

    /// Takes back a bulk that is settled, with the mark of the sink after it.
    pub(crate) fn settle(&mut self, bulk: &Bulk, mark: Option<Value>) {
        for change in &bulk.changes {
            let was = self.keys.remove(&change.key);
            assert!(was, "a key is in one bulk under way");
        }
        let entry = bulk.number.checked_sub(self.first);
        let entry = entry.and_then(|index| self.ledger.get_mut(index as usize));
        if let Some(entry) = entry {
            assert!(!entry.is_settled, "a bulk is settled once");
            entry.is_settled = true;
            self.under_way -= 1;
            entry.after.mark = mark;
        }
        while self.ledger.front().is_some_and(|entry| entry.is_settled)
            && let Some(entry) = self.ledger.pop_front()
        {
            self.first += 1;
            let changes = self.settled.changes + entry.after.changes;
            self.settled = Settled {
                changes,
                ..entry.after
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn change(position: u64, key: u8) -> Change {
        Change {
            partition: 0,
            position,
            time_micros: 0,
            key: key.to_string().into(),
            document: (!key.is_multiple_of(3)).then(|| "{}".into()),
        }
    }

    #[test]
    fn bulks_behind_one_that_is_not_settled_are_bounded() {
        let mut batcher = Batcher::new(Cursor::default(), None);
        batcher.add((1..=2000).map(|n| change(n, u8::from(n > 1))).collect());
        let stuck = batcher.cut(1, true).unwrap();
        let mut others = 0;
        while let Some(bulk) = batcher.cut(1, true) {
            assert_eq!(batcher.under_way(), 2);
            batcher.settle(&bulk, None);
            assert_eq!(batcher.under_way(), 1);
            others += 1;
        }
        assert_eq!(others, 1023);
        batcher.settle(&stuck, None);
        assert_eq!(batcher.settled().changes, 1024);
        assert!(batcher.cut(1, true).is_some());
    }

    proptest! {
        // Bulks are settled in any order, and after each the sink has what the cursor says.
        #[test]
        fn keys_stay_in_order_and_the_cursor_is_never_ahead(
            keys in prop::collection::vec(0..20_u8, 1..200),
            choices in prop::collection::vec((any::<bool>(), 1..2000_usize, any::<u8>()), 1..600),
        ) {
            let mut batcher = Batcher::new(Cursor::default(), None);
            let all: Vec<Change> = (1..).zip(&keys).map(|(n, key)| change(n, *key)).collect();
            batcher.add(all.clone());
            let mut under_way: Vec<Bulk> = Vec::new();
            let mut sink: BTreeMap<Arc<str>, u64> = BTreeMap::new();
            let ends = (0..2000).map(|n| (n % 2 == 0, 500, 0));
            for (cuts, bytes, pick) in choices.into_iter().chain(ends) {
                if cuts {
                    under_way.extend(batcher.cut(bytes, true));
                } else if !under_way.is_empty() {
                    let bulk = under_way.swap_remove(pick as usize % under_way.len());
                    for change in &bulk.changes {
                        let before = sink.insert(change.key.clone(), change.position);
                        prop_assert!(before.is_none_or(|before| before < change.position));
                    }
                    batcher.settle(&bulk, None);
                }
                let at = batcher.settled().cursor.position(0);
                for change in all.iter().filter(|change| change.position <= at) {
                    prop_assert!(sink.get(&change.key).is_some_and(|has| *has >= change.position));
                }
            }
            prop_assert!(batcher.is_level());
            prop_assert_eq!(batcher.settled().changes, keys.len() as u64);
            prop_assert_eq!(batcher.settled().cursor.position(0), keys.len() as u64);
        }
    }
}
