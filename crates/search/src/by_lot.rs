//! [`ByLot`]: what is kept of predicates, within a bound of bytes.
//!
//! # Invariants
//! 1. What is kept is within its bound, and within what is free of the budget.
//! 2. Past the bound predicates are given up by lot: of many that take turns some stay, and one
//!    that no query has any more goes.

use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;
use quire_env::{Budget, Charge};
use quire_query::{Leaf, Test, Value};
use std::ops::Bound;
use std::sync::Arc;

/// Longer predicates are not kept.
pub(crate) const LEAF_BYTES_MAX: usize = 8 << 10;

/// What an entry takes besides what it holds, about.
const ENTRY_BYTES: usize = 256;

/// See the module.
#[derive(Debug)]
pub(super) struct ByLot<T> {
    entries: IndexMap<Leaf, Entry<T>, DefaultHashBuilder>,
    budget: Arc<Budget>,
    bytes_max: u64,
    charge: Charge,
    /// How many were given up.
    given_up: u64,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    /// Its bytes, of those that are charged.
    bytes: u64,
}

impl<T> ByLot<T> {
    pub(super) fn new(budget: &Arc<Budget>, bytes_max: u64) -> ByLot<T> {
        ByLot {
            entries: IndexMap::default(),
            budget: Arc::clone(budget),
            bytes_max,
            charge: budget.charge(0),
            given_up: 0,
        }
    }

    pub(super) fn get(&self, leaf: &Leaf) -> Option<&T> {
        self.entries.get(leaf).map(|entry| &entry.value)
    }

    pub(super) fn get_mut(&mut self, leaf: &Leaf) -> Option<&mut T> {
        self.entries.get_mut(leaf).map(|entry| &mut entry.value)
    }

    /// Keeps a value that holds `bytes` elsewhere, instead of the one of before. Others are given
    /// up to make room; where they do not suffice nothing is kept of the leaf.
    pub(super) fn insert(&mut self, leaf: &Leaf, value: T, bytes: usize) {
        self.remove(leaf);
        let leaf_bytes = leaf_bytes(leaf);
        let bytes = (bytes + leaf_bytes + ENTRY_BYTES) as u64;
        if leaf_bytes > LEAF_BYTES_MAX || bytes > self.bytes_max {
            return;
        }
        self.give_up_to(self.bytes_max - bytes);
        if self.budget.used().saturating_add(bytes) > self.budget.limit() {
            return;
        }
        self.charge.resize(self.charge.bytes() + bytes);
        self.entries.insert(leaf.clone(), Entry { value, bytes });
    }

    /// Notes that what is kept of a leaf holds `bytes` elsewhere now. Others are given up to make
    /// room; where they do not suffice, it is.
    pub(super) fn recharge(&mut self, leaf: &Leaf, bytes: usize) {
        let Some(entry) = self.entries.get_mut(leaf) else {
            return;
        };
        let bytes = (bytes + leaf_bytes(leaf) + ENTRY_BYTES) as u64;
        let others = self.charge.bytes() - entry.bytes;
        entry.bytes = bytes;
        self.charge.resize(others + bytes);
        if bytes > self.bytes_max || self.budget.used() > self.budget.limit() {
            self.remove(leaf);
        }
        self.give_up_to(self.bytes_max);
    }

    pub(super) fn remove(&mut self, leaf: &Leaf) {
        if let Some(entry) = self.entries.swap_remove(leaf) {
            self.charge.resize(self.charge.bytes() - entry.bytes);
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.charge.resize(0);
    }

    /// Gives up entries by lot until the others take at most these bytes.
    fn give_up_to(&mut self, bytes_max: u64) {
        while self.charge.bytes() > bytes_max {
            self.given_up += 1;
            // Weyl's sequence by the golden ratio: as good as random, and the same each time.
            let lot = self.given_up.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let place = (u128::from(lot) * self.entries.len() as u128) >> 64;
            let Some((_, entry)) = self.entries.swap_remove_index(place as usize) else {
                return;
            };
            self.charge.resize(self.charge.bytes() - entry.bytes);
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
