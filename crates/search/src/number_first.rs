//! [`FirstKeys`]: the documents of a column of numbers that come first in an order, kept while the
//! column changes.
//!
//! The first ten of many documents that match are mostly among the first thousand of all.
//!
//! A *sort key* is made of a document's key: the first document of the order has the least.
//!
//! # Invariants
//! 1. A document is there if its sort key is below the bound, and only then; with the key that it
//!    has now.
//! 2. There are at most twice [`KEPT`] documents: past that the bound is moved forward.
//! 3. A bound never moves back. Where too few documents are left, all are looked at anew.

use quire_model::ordered::Direction;
use quire_query::{NO_ORDINAL, WantedFirst};
use std::ops::Range;

/// Documents that are kept, about.
pub(super) const KEPT: usize = 4096;

/// No sort key is as high: one is made of a key, and [`NO_ORDINAL`] is none.
const UNBOUNDED: u64 = u64::MAX;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct FirstKeys {
    direction: Direction,
    /// Sort keys and documents; the first one of the order is the last one here, as most of what is
    /// new comes first.
    sorted: Vec<(u64, u32)>,
    bound: u64,
    /// How many there were when all documents were looked at.
    found: usize,
}

impl FirstKeys {
    /// Those of all documents, by their keys.
    pub(super) fn of(direction: Direction, keys: impl Iterator<Item = (u32, u64)>) -> FirstKeys {
        let mut first = FirstKeys {
            direction,
            sorted: Vec::new(),
            bound: UNBOUNDED,
            found: 0,
        };
        for (doc, key) in keys {
            if let Some(sort_key) = first.sort_key_inside(key) {
                first.sorted.push((sort_key, doc));
                if first.sorted.len() == 2 * KEPT {
                    first.shorten();
                }
            }
        }
        if first.sorted.len() > KEPT {
            first.shorten();
        }
        first.sorted.sort_unstable_by(|one, other| other.cmp(one));
        first.found = first.sorted.len();
        first
    }

    /// Bytes of memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        (self.sorted.capacity() * size_of::<(u64, u32)>() + size_of::<FirstKeys>()) as u64
    }

    /// The sort key of a key that is below the bound.
    fn sort_key_inside(&self, key: u64) -> Option<u64> {
        let sort_key = match self.direction {
            _ if key == NO_ORDINAL => return None,
            Direction::Ascending => key,
            Direction::Descending => NO_ORDINAL - 1 - key,
        };
        (sort_key < self.bound).then_some(sort_key)
    }

    /// Leaves out what comes last, so that about [`KEPT`] are left, in no order.
    fn shorten(&mut self) {
        if let Some(last) = self.sorted.len().checked_sub(1) {
            let (_, (bound, _), _) = self.sorted.select_nth_unstable(KEPT.min(last));
            self.bound = *bound;
        }
        let bound = self.bound;
        self.sorted.retain(|(sort_key, _)| *sort_key < bound);
    }

    /// A document has another key now.
    pub(super) fn set(&mut self, doc: u32, before: u64, now: u64) {
        let (before, now) = (self.sort_key_inside(before), self.sort_key_inside(now));
        if before == now {
            return;
        }
        if let Some(place) = before.map(|sort_key| self.place(sort_key, doc)) {
            debug_assert_eq!(
                self.sorted.get(place).map(|(_, doc)| *doc),
                Some(doc),
                "a document below the bound is there"
            );
            self.sorted.remove(place);
        }
        if let Some(sort_key) = now {
            let place = self.place(sort_key, doc);
            self.sorted.insert(place, (sort_key, doc));
        }
        if self.sorted.len() >= 2 * KEPT {
            self.shorten();
            self.sorted.sort_unstable_by(|one, other| other.cmp(one));
        }
    }

    /// Where a document of a sort key is, or would be.
    fn place(&self, sort_key: u64, doc: u32) -> usize {
        let is_later = |one: &(u64, u32)| *one > (sort_key, doc);
        self.sorted.partition_point(is_later)
    }

    /// Whether half of the documents have left, so that a look at all of them may be worth it.
    pub(super) fn is_thin(&self) -> bool {
        self.bound != UNBOUNDED && self.sorted.len() < self.found / 2
    }

    /// Whether it has few documents since many share the value at the bound.
    pub(super) fn are_level(&self) -> bool {
        self.bound != UNBOUNDED && self.found < KEPT / 2
    }

    /// The first `docs_min` documents of the order, and all that are level with the last of them;
    /// all if there are fewer. `None` if it has too few to know.
    pub(super) fn first(&self, docs_min: u64) -> Option<impl Iterator<Item = u32>> {
        let docs_min = usize::try_from(docs_min).unwrap_or(usize::MAX);
        let from_last = self.sorted.len().checked_sub(docs_min);
        let start = match from_last {
            None if self.bound != UNBOUNDED => return None,
            None => 0,
            Some(place) => match self.sorted.get(place) {
                None => self.sorted.len(),
                Some((last, _)) => self.sorted.partition_point(|(sort_key, _)| sort_key > last),
            },
        };
        let docs = self.sorted.get(start..).unwrap_or_default();
        Some(docs.iter().map(|(_, doc)| *doc))
    }

    /// Those of some documents that come first in the order, and all that are level with the last
    /// of these. `None` if they are not among the first documents that are tested and those level
    /// with the last of them.
    pub(super) fn first_of(&self, wanted: WantedFirst<'_>) -> Option<Vec<u32>> {
        let (mut hits, mut last) = (Vec::new(), None);
        let has_enough = |hits: &Vec<u32>| hits.len() as u64 >= wanted.hits_min;
        for (tested, (sort_key, doc)) in (0..).zip(self.sorted.iter().rev()) {
            if last != Some(*sort_key) && (has_enough(&hits) || tested >= wanted.tested_max) {
                break;
            }
            last = Some(*sort_key);
            if wanted.docs.contains(*doc) {
                hits.push(*doc);
            }
        }
        // Below the bound all that are level with one that is there are there.
        has_enough(&hits).then_some(hits)
    }

    /// The documents with one of these keys, if all of them are there.
    pub(super) fn between(&self, keys: Range<u64>) -> Option<impl Iterator<Item = u32>> {
        let last = keys.end.checked_sub(1).filter(|last| keys.start <= *last)?;
        let [one, other] = [keys.start, last].map(|key| self.sort_key_inside(key));
        let (one, other) = (one?, other?);
        let (first, last) = (one.min(other), one.max(other));
        let start = self
            .sorted
            .partition_point(|(sort_key, _)| *sort_key > last);
        let end = self
            .sorted
            .partition_point(|(sort_key, _)| *sort_key >= first);
        let docs = self.sorted.get(start..end).unwrap_or_default();
        Some(docs.iter().map(|(_, doc)| *doc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use quire_index::DocSet;

    /// All documents by sort key.
    fn sorted(direction: Direction, keys: &[u64]) -> Vec<(u64, u32)> {
        let there = (0..).zip(keys).filter(|(_, key)| **key != NO_ORDINAL);
        let mut sorted: Vec<_> = match direction {
            Direction::Ascending => there.map(|(doc, key)| (*key, doc)).collect(),
            Direction::Descending => there.map(|(doc, key)| (!*key, doc)).collect(),
        };
        sorted.sort_unstable();
        sorted
    }

    proptest! {
        #[test]
        fn the_first_are_those_of_all_documents_however_they_change(
            descends in any::<bool>(),
            spread in prop_oneof![Just(3_u64), Just(50_000)],
            seeds in vec(any::<u64>(), 3 * KEPT),
            count in prop_oneof![0..50_usize, Just(3 * KEPT)],
            changes in vec((any::<usize>(), any::<u64>(), 0..3_u32), 0..400),
            wanted in vec(0..5_000_usize, 8),
        ) {
            let direction = match descends {
                true => Direction::Descending,
                false => Direction::Ascending,
            };
            let key_of = |seed: u64| match seed % (spread + 9) {
                key if key < spread => key,
                0..5 => 0,
                _ => NO_ORDINAL,
            };
            let mut keys: Vec<u64> = seeds.into_iter().take(count).map(key_of).collect();
            let mut first = FirstKeys::of(direction, (0_u32..).zip(keys.iter().copied()));
            for (place, seed, how) in changes {
                if keys.is_empty() {
                    break;
                }
                let place = place % keys.len();
                // Some come before all others, or leave.
                let now = match (how, direction) {
                    (0, _) => key_of(seed),
                    (1, Direction::Ascending) => seed % 5,
                    (1, Direction::Descending) => spread + seed % 5,
                    _ => NO_ORDINAL,
                };
                let place = match how {
                    2 => first.sorted.last().map_or(place, |(_, doc)| *doc as usize),
                    _ => place,
                };
                first.set(place as u32, keys[place], now);
                keys[place] = now;
            }
            let all = sorted(direction, &keys);
            prop_assert!(first.sorted.len() < 2 * KEPT);
            for wanted in wanted {
                let Some(found) = first.first(wanted as u64) else {
                    prop_assert!(first.sorted.len() < wanted && all.len() > first.sorted.len());
                    continue;
                };
                let last = wanted.checked_sub(1).map(|last| last.min(all.len().saturating_sub(1)));
                let last = last.and_then(|last| all.get(last));
                let expected = all.iter().filter(|one| last.is_some_and(|last| one.0 <= last.0));
                let mut expected: Vec<u32> = expected.map(|(_, doc)| *doc).collect();
                let mut found: Vec<u32> = found.collect();
                found.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(found, expected);
                let among: DocSet = (0..keys.len() as u32).filter(|doc| doc % 7 < 2).collect();
                let (hits_min, tested_max) = (wanted % 40, wanted / 3);
                let wanted_first = WantedFirst {
                    docs: &among,
                    hits_min: hits_min as u64,
                    tested_max: tested_max as u64,
                };
                let wanted_docs = all.iter().filter(|(_, doc)| among.contains(*doc));
                let wanted_docs: Vec<_> = wanted_docs.collect();
                match first.first_of(wanted_first) {
                    Some(mut found) => {
                        let last = hits_min.checked_sub(1).map(|last| wanted_docs[last].0);
                        let level = wanted_docs.iter().filter(|one| Some(one.0) <= last);
                        let mut expected: Vec<u32> = level.map(|(_, doc)| *doc).collect();
                        found.sort_unstable();
                        expected.sort_unstable();
                        prop_assert_eq!(found, expected);
                    }
                    None => {
                        let tested = all.iter().take(tested_max);
                        let hits = tested.filter(|one| among.contains(one.1)).count();
                        let is_known = first.first(tested_max as u64).is_some();
                        prop_assert!(!is_known || hits < hits_min);
                    }
                }
                let (low, end) = (wanted as u64, wanted as u64 * 3);
                if let Some(found) = first.between(low..end) {
                    let mut found: Vec<u32> = found.collect();
                    found.sort_unstable();
                    let inside = (0_u32..).zip(&keys).filter(|(_, key)| (low..end).contains(key));
                    prop_assert_eq!(found, inside.map(|(doc, _)| doc).collect::<Vec<u32>>());
                }
            }
        }
    }

    #[test]
    fn what_has_left_is_looked_for_anew() {
        let keys: Vec<u64> = (0..3 * KEPT as u64).collect();
        let mut first = FirstKeys::of(Direction::Ascending, (0..).zip(keys));
        assert!(first.first(KEPT as u64).is_some() && first.first(KEPT as u64 + 1).is_none());
        for key in 0..KEPT as u64 / 2 {
            assert!(!first.is_thin());
            first.set(key as u32, key, NO_ORDINAL);
        }
        first.set(KEPT as u32 / 2, KEPT as u64 / 2, NO_ORDINAL);
        assert!(first.is_thin());
        assert_eq!(first.first(2).unwrap().min(), Some(KEPT as u32 / 2 + 1));
    }
}
