//! [`FollowedLeaves`]: the documents that fulfil predicates of earlier queries, brought up to date
//! by what changed since instead of being found again.
//!
//! An index moves on some times a second, and documents change all the time; which documents
//! fulfil a predicate hardly changes.
//!
//! # Invariants
//! 1. A set is that of its leaf at its position: all documents of the partition that fulfil it as
//!    they are then, and no others. It does not depend on where an index is.
//! 2. A set goes forward alone, by all documents that changed since its position. Where not all
//!    of them are known, the leaf is found anew; views of an older position find it for themselves.
//! 3. What is kept is within a part of the budget, and what is ready too. Past it leaves are given
//!    up by lot: of many that take turns some stay, and one that no query has any more goes.
//! 4. What an index said that was built anew since is not kept.
//! 5. What a writer made ready of a leaf is taken by queries that see its write, and by no others.

use super::changed::Changed;
use hashbrown::{DefaultHashBuilder, HashMap};
use indexmap::IndexMap;
use parking_lot::Mutex;
use quire_env::{Budget, Charge};
use quire_index::DocSet;
use quire_model::Position;
use quire_query::{Leaf, Test, Value};
use quire_seeded::{Bug, seeded};
use std::ops::Bound;
use std::sync::Arc;

/// The leaves of one partition take at most one in this number of the bytes of the budget.
const BUDGET_PART: u64 = 4;

/// Predicates with longer lists or values are not followed.
pub(crate) const LEAF_BYTES_MAX: usize = 8 << 10;

/// Leaves that are made ready for the queries after a write, and the bytes of their documents.
const READY_MAX: usize = 256;
const READY_BYTES_MAX: usize = 256 << 10;

/// As many of these are looked up at once, with the lock that queries wait for.
const READY_STEP: usize = 16;

/// What an entry takes besides what it holds, about.
const ENTRY_BYTES: usize = 256;

/// The documents that fulfil a leaf at some position.
#[derive(Debug, Clone)]
pub(crate) struct Followed {
    at: Position,
    pub(crate) docs: Arc<DocSet>,
    /// Whether they were found by the columns; by postings otherwise.
    pub(crate) by_columns: bool,
}

/// What is known of a leaf that a query had.
#[derive(Debug, Default)]
struct Known {
    followed: Option<Followed>,
    /// A query had it since leaves were made ready.
    is_needed: bool,
    /// What testing documents one by one has cost, in nanoseconds, about.
    spent_nanos: u64,
    /// Its bytes, of those that are charged.
    bytes: u64,
}

/// Leaves at a position that no view may have yet.
#[derive(Debug)]
struct Ready {
    at: Position,
    leaves: HashMap<Leaf, Followed>,
    /// Of their documents.
    charge: Charge,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct FollowedLeaves {
    budget: Arc<Budget>,
    kept: Mutex<Kept>,
    ready: Mutex<Option<Arc<Ready>>>,
}

#[derive(Debug)]
struct Kept {
    leaves: IndexMap<Leaf, Known, DefaultHashBuilder>,
    /// Those that queries had since leaves were made ready.
    needed: Vec<Leaf>,
    needed_bytes: usize,
    charge: Charge,
    /// How many were given up.
    given_up: u64,
    /// Sets at or before it are not kept.
    after: Position,
}

impl FollowedLeaves {
    pub(crate) fn new(budget: &Arc<Budget>) -> FollowedLeaves {
        FollowedLeaves {
            budget: Arc::clone(budget),
            kept: Mutex::new(Kept {
                leaves: IndexMap::default(),
                needed: Vec::new(),
                needed_bytes: 0,
                charge: budget.charge(0),
                given_up: 0,
                after: Position(0),
            }),
            ready: Mutex::new(None),
        }
    }

    /// Forgets all, and keeps nothing that is found as of a position or an older one.
    pub(crate) fn forget(&self, to: Position) {
        *self.ready.lock() = None;
        let mut kept = self.kept.lock();
        kept.clear();
        kept.after = kept.after.max(to);
    }

    /// Whether a query had this leaf before. From now on it is one that a query had.
    pub(crate) fn note(&self, leaf: &Leaf) -> bool {
        let mut kept = self.kept.lock();
        let is_noted = kept.leaves.contains_key(leaf);
        if !is_noted {
            kept.add(&self.budget, leaf, |_| 0);
        }
        is_noted
    }

    /// The documents that fulfil a leaf at a position, by what changed up to there, if they are
    /// followed.
    pub(crate) fn docs(&self, leaf: &Leaf, changed: &Changed, at: Position) -> Option<Followed> {
        let known = self.kept.lock().followed(leaf)?;
        if known.at == at || seeded(Bug::FollowedNotBroughtUp) {
            return Some(known);
        }
        let ready = self.ready_for(leaf, &known, at);
        let now = match ready {
            Some(ready) if ready.at == at => ready,
            ready => ready.unwrap_or(known).brought_up(leaf, changed, at)?,
        };
        self.keep(leaf, &now);
        Some(now)
    }

    /// What was made ready of a leaf for views of a position, if it is newer than what is known.
    fn ready_for(&self, leaf: &Leaf, known: &Followed, at: Position) -> Option<Followed> {
        let ready = self.ready.lock().clone()?;
        let is_newer = known.at < ready.at && ready.at <= at;
        ready.leaves.get(leaf).filter(|_| is_newer).cloned()
    }

    /// Makes ready what queries will need that see the records up to a position: the leaves that
    /// queries had since the last time.
    pub(crate) fn make_ready(&self, changed: &Changed, at: Position) {
        let mut ready = Ready {
            at,
            leaves: HashMap::default(),
            charge: self.budget.charge(0),
        };
        let mut needed = self.kept.lock().take_needed().into_iter();
        while needed.len() > 0 {
            let known = self.kept.lock().known(needed.by_ref().take(READY_STEP));
            // Without the lock: queries go on.
            for (leaf, known) in known {
                if let Some(now) = known.brought_up(&leaf, changed, at) {
                    ready.leaves.insert(leaf, now);
                }
            }
        }
        let leaves = ready.leaves.iter();
        let bytes = leaves.map(|(leaf, known)| leaf_bytes(leaf) + known.docs.heap_bytes());
        let bytes = bytes.sum::<usize>() as u64;
        let is_charged = ready.charge.try_resize(bytes);
        let ready = is_charged.then(|| Arc::new(ready));
        let before = std::mem::replace(&mut *self.ready.lock(), ready);
        drop(before);
    }

    /// Follows a leaf from a position on, at which these documents fulfil it.
    pub(crate) fn follow(&self, leaf: &Leaf, docs: Arc<DocSet>, at: Position, by_columns: bool) {
        self.keep(
            leaf,
            &Followed {
                at,
                docs,
                by_columns,
            },
        );
    }

    fn keep(&self, leaf: &Leaf, followed: &Followed) {
        let bytes = followed.docs.heap_bytes();
        let mut kept = self.kept.lock();
        if followed.at <= kept.after {
            return;
        }
        kept.add(&self.budget, leaf, |known| {
            let newer = known.followed.as_ref().filter(|one| one.at > followed.at);
            if let Some(newer) = newer {
                return newer.docs.heap_bytes();
            }
            known.followed = Some(followed.clone());
            known.spent_nanos = 0;
            bytes
        });
    }

    /// Notes that documents were tested one by one for a leaf. Whether finding all that fulfil it
    /// would have cost no more than that has by now.
    pub(crate) fn spend(&self, leaf: &Leaf, nanos: u64, nanos_of_all: u64) -> bool {
        let mut kept = self.kept.lock();
        let Some(known) = kept.leaves.get_mut(leaf) else {
            return false;
        };
        known.spent_nanos = known.spent_nanos.saturating_add(nanos);
        known.spent_nanos >= nanos_of_all
    }
}

impl Followed {
    /// The set at a later position, by what changed up to there. None if that is not known.
    fn brought_up(&self, leaf: &Leaf, changed: &Changed, at: Position) -> Option<Followed> {
        let mut docs = DocSet::clone(&self.docs);
        let is_known = self.at <= at && changed.bring_up(&mut docs, self.at, leaf);
        is_known.then(|| Followed {
            at,
            docs: Arc::new(docs),
            by_columns: self.by_columns,
        })
    }
}

impl Kept {
    /// What is known of a leaf, for a query.
    fn followed(&mut self, leaf: &Leaf) -> Option<Followed> {
        let known = self.leaves.get_mut(leaf)?;
        let followed = known.followed.clone()?;
        let needed_bytes = self.needed_bytes + followed.docs.heap_bytes();
        let has_room = self.needed.len() < READY_MAX && needed_bytes <= READY_BYTES_MAX;
        if !known.is_needed && has_room {
            known.is_needed = true;
            self.needed.push(leaf.clone());
            self.needed_bytes = needed_bytes;
        }
        Some(followed)
    }

    /// The leaves that queries had since this was called last.
    fn take_needed(&mut self) -> Vec<Leaf> {
        self.needed_bytes = 0;
        std::mem::take(&mut self.needed)
    }

    /// What is known of leaves that were needed; from now on they are not.
    fn known(&mut self, leaves: impl Iterator<Item = Leaf>) -> Vec<(Leaf, Followed)> {
        let known = leaves.filter_map(|leaf| {
            let known = self.leaves.get_mut(&leaf)?;
            known.is_needed = false;
            Some((leaf, known.followed.clone()?))
        });
        known.collect()
    }

    fn clear(&mut self) {
        self.leaves.clear();
        self.needed.clear();
        self.needed_bytes = 0;
        self.charge.resize(0);
    }

    /// Gives up leaves by lot, but for one, until the others take at most these bytes.
    fn give_up(&mut self, but_for: &Leaf, bytes_max: u64) {
        while self.charge.bytes() > bytes_max {
            self.given_up += 1;
            // Weyl's sequence by the golden ratio: as good as random, and the same each time.
            let lot = self.given_up.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let place = (u128::from(lot) * self.leaves.len() as u128) >> 64;
            let place = place as usize;
            let is_spared = |(leaf, _): (&Leaf, &Known)| leaf == but_for;
            let place = match self.leaves.get_index(place).is_some_and(is_spared) {
                true => (place + 1) % self.leaves.len(),
                false => place,
            };
            let Some((_, known)) = self.leaves.swap_remove_index(place) else {
                return;
            };
            self.charge.resize(self.charge.bytes() - known.bytes);
        }
    }

    /// Changes what is known of a leaf; `change` returns the bytes that its documents take then.
    /// Where there is no room, the leaf is not known any more; past their part others are given up.
    fn add(&mut self, budget: &Budget, leaf: &Leaf, change: impl FnOnce(&mut Known) -> usize) {
        let leaf_bytes = leaf_bytes(leaf);
        if leaf_bytes > LEAF_BYTES_MAX {
            return;
        }
        let slot = self.leaves.get_mut(leaf);
        let mut known = slot.map(std::mem::take).unwrap_or_default();
        let others = self.charge.bytes() - known.bytes;
        known.bytes = (change(&mut known) + leaf_bytes + ENTRY_BYTES) as u64;
        let bytes_max = budget.limit() / BUDGET_PART;
        self.charge.resize(others);
        if known.bytes <= bytes_max {
            self.give_up(leaf, bytes_max - known.bytes);
        }
        let bytes = self.charge.bytes() + known.bytes;
        let is_free = budget.used().saturating_add(known.bytes) <= budget.limit();
        if !is_free || bytes > bytes_max {
            self.leaves.swap_remove(leaf);
            return;
        }
        self.charge.resize(bytes);
        match self.leaves.get_mut(leaf) {
            Some(slot) => *slot = known,
            None => drop(self.leaves.insert(leaf.clone(), known)),
        }
    }
}

/// What a predicate takes in memory, at most.
pub(crate) fn leaf_bytes(leaf: &Leaf) -> usize {
    let bound = |bound: &Bound<Box<[u8]>>| match bound {
        Bound::Included(term) | Bound::Excluded(term) => term.len(),
        Bound::Unbounded => 0,
    };
    let value = |value: &Value| size_of::<Value>() + value.term().len();
    leaf.path.as_str().len()
        + match &leaf.test {
            Test::Eq(one) => value(one),
            Test::In(values) => values.iter().map(value).sum(),
            Test::Range(range) => bound(&range.lower) + bound(&range.upper),
            Test::Exists => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(number: i64) -> Leaf {
        Leaf {
            path: "n".into(),
            test: Test::Eq(number.into()),
        }
    }

    #[test]
    fn leaves_are_given_up_past_their_part_of_the_budget_and_what_they_took_is_free() {
        let budget = Budget::new(64 << 10);
        let followed = FollowedLeaves::new(&budget);
        let changed = Changed::new(Position(1));
        let known = |number| followed.docs(&leaf(number), &changed, Position(1));
        for number in 0..500u32 {
            let docs: DocSet = (number..number + 400).collect();
            followed.follow(&leaf(number.into()), Arc::new(docs), Position(1), false);
            assert_eq!(known(number.into()).unwrap().docs.len(), 400);
            assert!(budget.used() <= budget.limit() / BUDGET_PART);
        }
        assert!(known(0).is_none());
        assert!(!followed.note(&leaf(0)));
        assert!(followed.note(&leaf(0)));
        drop(followed);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_larger_than_its_part_and_large_predicates_are_not_kept() {
        let budget = Budget::new(64 << 10);
        let followed = FollowedLeaves::new(&budget);
        let changed = Changed::new(Position(1));
        let values = (0..1000).map(Into::into).collect();
        let text = "x".repeat(LEAF_BYTES_MAX);
        let long = |test| Leaf {
            path: "n".into(),
            test,
        };
        let many: DocSet = (0..9000).map(|number| number * 65_536 / 16).collect();
        assert!(many.heap_bytes() > 16 << 10);
        for (leaf, docs) in [
            (leaf(1), many),
            (long(Test::In(values)), DocSet::full(3)),
            (long(Test::Eq(text.as_str().into())), DocSet::full(3)),
        ] {
            followed.follow(&leaf, Arc::new(docs), Position(1), true);
            assert!(followed.docs(&leaf, &changed, Position(1)).is_none());
        }
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_was_found_by_an_index_that_is_built_anew_is_not_kept() {
        let followed = FollowedLeaves::new(&Budget::new(64 << 10));
        let changed = Changed::new(Position(1));
        let follow = |at| {
            followed.follow(&leaf(1), Arc::new(DocSet::full(9)), Position(at), false);
            followed.docs(&leaf(1), &changed, Position(at)).is_some()
        };
        assert!(follow(5));
        followed.forget(Position(5));
        assert!(followed.docs(&leaf(1), &changed, Position(5)).is_none());
        assert!(!follow(5), "a query that had begun before");
        assert!(follow(6));
    }

    #[test]
    fn all_are_found_once_testing_few_has_cost_as_much() {
        let budget = Budget::new(64 << 10);
        let followed = FollowedLeaves::new(&budget);
        assert!(!followed.spend(&leaf(1), 100, 10), "no query had it");
        followed.note(&leaf(1));
        assert!(!followed.spend(&leaf(1), 60, 100));
        assert!(followed.spend(&leaf(1), 60, 100));
    }
}
