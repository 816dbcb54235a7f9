//! What a partition keeps of its search index while it is open: its trees, and the documents that
//! changed since.
//!
//! # Invariants
//! 1. A tree indexes the same fields as long as it exists: other fields get another tree, under
//!    another id.
//! 2. The list of trees is changed before trees are dropped, so a tree that is not in it may go.
//! 3. What is cached is of the records between two positions, and of nothing else. All partitions
//!    together cache as much as their budget has room for.

use super::ahead::Ahead;
use super::cached_changes::{CachedChanges, Form};
use super::changed::{Change, Changed, PAST_BYTES_MAX};
use super::followed::FollowedLeaves;
use super::number_column::FollowedNumbers;
use super::shared_reads::SharedReads;
use super::term_column::FollowedTerms;
use super::{Exceptions, IndexedFields};
use crate::Result;
use parking_lot::{Mutex, RwLock};
use quire_env::{Budget, Charge};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use quire_store::TreeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The ids of search trees and their columns begin here; the trees of documents have lesser ones.
/// Up to [`PAIRS_MIN`] they are those of programs that knew no columns: none is used.
const TREE_ID_MIN: u32 = 16;

/// From here on, even ids are search trees, and the next one is that of the columns. From 2^30 on
/// they are those of programs that indexed all values of each document: none is used.
const PAIRS_MIN: u32 = 1 << 31;

/// How many pairs there are.
const PAIRS: u32 = 1 << 29;

/// Records between what is cached and an index that has moved on that are read too, so that what
/// was found before can follow them.
const GAP_RECORDS_MAX: u64 = 500;

/// What lies before the changes that a partition caches takes at most one in this number of the
/// bytes of the budget, and no more than leaves half of it to changes that queries need.
const PAST_PART: u64 = 4;

/// The search index that a partition is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexSettings {
    /// Counts the changes of `fields`: other fields have another generation.
    pub generation: u32,
    /// The fields that are indexed.
    pub fields: IndexedFields,
}

impl IndexSettings {
    /// The search tree.
    pub fn tree(&self) -> TreeId {
        let pair = self.generation & (PAIRS - 1);
        TreeId(PAIRS_MIN + 2 * pair)
    }

    pub(crate) fn columns(&self) -> TreeId {
        TreeId(self.tree().0 + 1)
    }
}

/// Whether a tree of a partition is a search tree, or one of columns.
pub(crate) fn is_search_tree(id: TreeId) -> bool {
    id.0 >= TREE_ID_MIN
}

/// A search tree.
#[derive(Debug, Clone)]
pub struct SearchTree {
    pub(crate) id: TreeId,
    /// The tree of the columns, which is built together with it.
    pub(crate) columns: TreeId,
    /// The fields that it indexes.
    pub fields: IndexedFields,
}

impl SearchTree {
    pub(crate) fn new(index: &IndexSettings) -> SearchTree {
        SearchTree {
            id: index.tree(),
            columns: index.columns(),
            fields: index.fields.clone(),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct SearchState {
    /// Those that queries may use, the oldest first.
    trees: RwLock<Arc<Vec<SearchTree>>>,
    /// Held while trees of the store are added or dropped by the list.
    pub(crate) changing: Mutex<()>,
    changed: Mutex<Option<(CachedChanges, Charge)>>,
    /// The same, of writes that no query has seen.
    ahead: Ahead,
    /// What a tree's lists say of all its fields, at a position.
    exceptions: Mutex<Option<(TreeId, Position, Exceptions)>>,
    /// What queries have read of the newest tree that they read.
    reads: Mutex<Option<Arc<SharedReads>>>,
    /// The documents that fulfil the predicates of queries.
    pub(crate) followed: FollowedLeaves,
    /// Fields of numbers that queries order or filter by.
    pub(crate) numbers: FollowedNumbers,
    /// Fields with few different values that queries aggregate.
    pub(crate) terms: FollowedTerms,
    /// The memory that it draws from.
    budget: Arc<Budget>,
    /// The memory that cached changes draw from.
    changes_budget: Arc<Budget>,
}

impl SearchState {
    /// Of no trees. What queries share of a tree draws from `budget`, and what they share of the
    /// documents that it is behind from `changes_budget`.
    pub(crate) fn new(budget: Arc<Budget>, changes_budget: Arc<Budget>) -> SearchState {
        SearchState {
            trees: RwLock::default(),
            changing: Mutex::default(),
            changed: Mutex::default(),
            ahead: Ahead::default(),
            exceptions: Mutex::default(),
            reads: Mutex::default(),
            followed: FollowedLeaves::new(&budget),
            numbers: FollowedNumbers::new(&budget),
            terms: FollowedTerms::new(&budget),
            budget,
            changes_budget,
        }
    }

    /// What queries share of a tree at a position. That of an older one is given up.
    pub(crate) fn shared_reads(&self, tree: TreeId, built: Position) -> Arc<SharedReads> {
        let mut kept = self.reads.lock();
        let is_of =
            |kept: &&Arc<SharedReads>| kept.is_of(tree, built) || seeded(Bug::OlderReadsShared);
        if let Some(kept) = kept.as_ref().filter(is_of) {
            return Arc::clone(kept);
        }
        let new = Arc::new(SharedReads::new(tree, built, &self.budget));
        if kept.as_ref().is_none_or(|kept| kept.is_before(tree, built)) {
            *kept = Some(Arc::clone(&new));
        }
        new
    }

    pub(crate) fn trees(&self) -> Arc<Vec<SearchTree>> {
        Arc::clone(&self.trees.read())
    }

    pub(crate) fn set_trees(&self, trees: Vec<SearchTree>) {
        *self.trees.write() = Arc::new(trees);
        *self.changed.lock() = None;
        self.ahead.clear();
        *self.reads.lock() = None;
        self.forget(Position(0));
    }

    /// Forgets what queries found, and keeps nothing that is found at a position or an older one.
    pub fn forget(&self, to: Position) {
        self.followed.forget(to);
        self.numbers.forget(to);
        self.terms.forget(to);
    }

    /// Takes the trees before one out of the list. False if there are none.
    pub(crate) fn keep_from(&self, id: TreeId) -> bool {
        let mut trees = self.trees.write();
        let Some(at) = trees.iter().position(|tree| tree.id == id) else {
            return false;
        };
        if at > 0 {
            *trees = Arc::new(trees.get(at..).unwrap_or_default().to_vec());
        }
        at > 0
    }

    /// What the lists of a tree at a position say, found by `find` if it is not known.
    pub(crate) fn exceptions(
        &self,
        tree: TreeId,
        built: Position,
        find: impl FnOnce() -> Result<Exceptions>,
    ) -> Result<Exceptions> {
        if let Some((id, at, exceptions)) = *self.exceptions.lock()
            && (id, at) == (tree, built)
        {
            return Ok(exceptions);
        }
        let exceptions = find()?;
        *self.exceptions.lock() = Some((tree, built, exceptions));
        Ok(exceptions)
    }

    /// The changes after a position up to another. Those after what is known of them, which may be
    /// from before the position on, are added by `find`; the result is `None` if that is.
    pub(crate) fn changes(
        &self,
        after: Position,
        to: Position,
        form: Form,
        find: impl FnOnce(&CachedChanges) -> Result<Option<BTreeMap<u32, Change>>>,
    ) -> Result<Option<Arc<Changed>>> {
        let is_of = |cached: &&CachedChanges| {
            let is_near = cached.to.0.saturating_add(GAP_RECORDS_MAX) >= after.0;
            cached.form == form && cached.after() <= after && is_near
        };
        self.ahead.note_query();
        let ready = self.ahead.up_to(to);
        let is_ready;
        let known = {
            let cached = self.changed.lock();
            let known = cached.as_ref().map(|(changes, _)| changes);
            let is_newer = |ready: &CachedChanges| known.is_none_or(|known| known.to < ready.to);
            let ready = ready.filter(|ready| is_of(&ready) && is_newer(ready));
            is_ready = ready.is_some();
            ready.or_else(|| known.filter(is_of).cloned())
        };
        let mut known = known.unwrap_or_else(|| CachedChanges {
            to: after,
            form,
            changed: Arc::new(Changed::new(after)),
        });
        if (known.after(), known.to) == (after, to) {
            let changed = Arc::clone(&known.changed);
            if is_ready {
                self.cache_changes(known);
            }
            return Ok(Some(changed));
        }
        let changed = Arc::make_mut(&mut known.changed);
        if known.to > to {
            match changed.truncate(to).filter(|last| *last >= after) {
                Some(last) => known.to = last,
                // What is left may end before `after`, and what changed between is not known.
                None => {
                    *changed = Changed::new(after);
                    known.to = after;
                }
            }
        }
        if changed.after() < after {
            changed.begin_after(after, self.past_bytes_max());
        }
        if known.to < to {
            let Some(added) = find(&known)? else {
                return Ok(None);
            };
            Arc::make_mut(&mut known.changed).push(added);
            known.to = to;
        }
        let changed = Arc::clone(&known.changed);
        self.cache_changes(known);
        Ok(Some(changed))
    }

    /// Whether it is time that a writer makes changes ready.
    pub fn has_queries(&self) -> bool {
        self.ahead.has_queries()
    }

    /// Makes the changes of a write ready for the queries that will see it: it has the records
    /// from `first` to `last`. Nothing is done if no query came since the last time, or if it is
    /// not known what changed right before.
    pub fn make_ready(&self, (first, last): (Position, Position), changes: BTreeMap<u32, Change>) {
        self.ahead.free_replaced();
        if !self.ahead.take_queries() {
            return;
        }
        let Ok(newest) = self.ahead.newest() else {
            return;
        };
        let cached = self.changed.lock().as_ref().map(|(known, _)| known.clone());
        let is_before = |known: &CachedChanges| {
            let is_right_before = known.to.next() == first || seeded(Bug::ReadyOverGap);
            is_right_before && known.form == Form::default()
        };
        let Some(mut known) = newest.into_iter().chain(cached).find(is_before) else {
            return;
        };
        let of_changes: usize = changes.values().map(Change::bytes).sum();
        if known.changed.bytes() + of_changes > self.changed_bytes_max() {
            return;
        }
        self.numbers.keep_up(&known.changed, known.to);
        self.terms.keep_up(&known.changed, known.to);
        let mut needed = self.numbers.take_needed();
        needed.extend(self.terms.take_needed());
        let changed = Arc::make_mut(&mut known.changed);
        changed.push_ready(changes, needed);
        // Layers before are charged with what they are of.
        let mut charge = self.changes_budget.charge(0);
        if charge.try_resize(2 * changed.newest_bytes() as u64) {
            known.to = last;
            self.followed.make_ready(&known.changed, last);
            self.ahead.push(known, charge);
        }
    }

    /// Bytes of documents that a query may hold of those that the index is behind, where values
    /// that are taken out of them take as much again.
    pub(crate) fn changed_bytes_max(&self) -> usize {
        usize::try_from(self.changes_budget.limit() / 2).unwrap_or(usize::MAX)
    }

    /// Bytes that what is past may have: other partitions have some of the budget, too.
    fn past_bytes_max(&self) -> usize {
        let own = self.changed.lock().as_ref().map(|(_, own)| own.bytes());
        let others = self.changes_budget.used().saturating_sub(own.unwrap_or(0));
        let limit = self.changes_budget.limit();
        let bytes = (limit / PAST_PART).min((limit / 2).saturating_sub(others));
        // What is kept is charged twice.
        usize::try_from(bytes / 2).map_or(PAST_BYTES_MAX, |bytes| bytes.min(PAST_BYTES_MAX))
    }

    /// Keeps changes, unless what is there is newer, or begins later, or there is no memory.
    fn cache_changes(&self, mut changes: CachedChanges) {
        let bytes = 2 * changes.changed.bytes() as u64;
        let with_past = bytes + 2 * changes.changed.past_bytes() as u64;
        let to = changes.to;
        let mut cached = self.changed.lock();
        let (old, mut charge) = match cached.take() {
            Some((old, charge)) if old.after() > changes.after() || old.to > changes.to => {
                *cached = Some((old, charge));
                return;
            }
            Some((old, charge)) => (Some(old), charge),
            None => (None, self.changes_budget.charge(0)),
        };
        let is_charged = charge.try_resize(with_past) || {
            Arc::make_mut(&mut changes.changed).forget_past();
            charge.try_resize(bytes)
        };
        *cached = is_charged.then_some((changes, charge));
        drop(cached);
        self.ahead.drop_up_to(to);
        if let Some(old) = old {
            self.ahead.replaced(old, self.changes_budget.charge(0));
        }
    }
}

#[cfg(test)]
mod tests;
