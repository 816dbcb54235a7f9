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
//! 3. What is kept is within a part of the budget, and what is ready too. Sets have a part of
//!    their own: predicates that only one query has do not push them out.
//! 4. What an index said that was built anew since is not kept.
//! 5. What a writer made ready of a leaf is taken by queries that see its write, and by no others.

use super::by_lot::{ByLot, leaf_bytes};
use super::changed::{Changed, Patch};
use hashbrown::HashMap;
use parking_lot::Mutex;
use quire_env::{Budget, Charge};
use quire_index::DocSet;
use quire_model::Position;
use quire_query::Leaf;
use quire_seeded::{Bug, seeded};
use std::sync::Arc;

/// The sets of one partition take at most this part of the bytes of the budget, in 32nds, and the
/// notes of predicates without a set that part.
const SETS_PART: u64 = 7;
const NOTES_PART: u64 = 1;
const PARTS: u64 = 32;

/// Leaves that are made ready for the queries after a write, and the bytes of their documents.
const READY_MAX: usize = 256;
const READY_BYTES_MAX: usize = 256 << 10;

/// To bring a set up: for each document of the layers, and to copy this number of bytes.
const BRING_UP_NANOS: usize = 20;
const COPIED_IN_A_NANO: usize = 16;

/// About as many documents change between two queries that have the same predicate.
const CHANGED_BETWEEN: usize = 256;

/// As many of these are looked up at once, with the lock that queries wait for.
const READY_STEP: usize = 16;

/// The documents that fulfil a leaf at some position.
#[derive(Debug, Clone)]
pub(crate) struct Followed {
    at: Position,
    pub(crate) docs: Arc<DocSet>,
    /// Whether they were found by the columns; by postings otherwise.
    pub(crate) by_columns: bool,
}

/// A set, and whether a query had it since leaves were made ready.
#[derive(Debug)]
struct Set {
    followed: Followed,
    is_needed: bool,
}

/// A query had a leaf whose set is not known, or not in the way that it was looked for.
#[derive(Debug, Default)]
struct Note {
    /// What testing documents one by one has cost, in nanoseconds, about.
    spent_nanos: u64,
    /// Since this position.
    since: Position,
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
    sets: ByLot<Set>,
    notes: ByLot<Note>,
    /// Those that queries had since leaves were made ready.
    needed: Vec<Leaf>,
    needed_bytes: usize,
    /// Sets at or before it are not kept.
    after: Position,
}

impl FollowedLeaves {
    pub(crate) fn new(budget: &Arc<Budget>) -> FollowedLeaves {
        let part = |part| budget.limit() / PARTS * part;
        FollowedLeaves {
            budget: Arc::clone(budget),
            kept: Mutex::new(Kept {
                sets: ByLot::new(budget, part(SETS_PART)),
                notes: ByLot::new(budget, part(NOTES_PART)),
                needed: Vec::new(),
                needed_bytes: 0,
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
        let is_noted = kept.sets.get(leaf).is_some() || kept.notes.get(leaf).is_some();
        if !is_noted {
            kept.notes.insert(leaf, Note::default(), 0);
        }
        is_noted
    }

    /// The documents that fulfil a leaf at a position, if they are known there without bringing
    /// them up.
    pub(crate) fn docs_at(&self, leaf: &Leaf, at: Position) -> Option<Followed> {
        let kept = self.kept.lock();
        let known = &kept.sets.get(leaf)?.followed;
        (known.at == at).then(|| known.clone())
    }

    /// The documents that fulfil a leaf at a position, by what changed up to there, if they are
    /// followed.
    pub(crate) fn docs(&self, leaf: &Leaf, changed: &Changed, at: Position) -> Option<Followed> {
        let known = self.kept.lock().followed(leaf)?;
        self.up_to(known, leaf, (changed, at))
    }

    /// The same, unless bringing them up would take longer than `nanos_max`. They are not made
    /// ready: where many documents are tested there is time to bring them up, and large sets would
    /// take the room of others.
    pub(crate) fn docs_within(
        &self,
        leaf: &Leaf,
        (changed, at): (&Changed, Position),
        nanos_max: u64,
    ) -> Option<Followed> {
        let known = self.kept.lock().sets.get(leaf)?.followed.clone();
        if known.at != at {
            let docs = changed.docs_to_bring_up(known.at)?;
            if nanos_to_bring_up(docs, known.docs.heap_bytes()) > nanos_max {
                return None;
            }
        }
        self.up_to(known, leaf, (changed, at))
    }

    /// What is known of a leaf, brought up to a position.
    fn up_to(
        &self,
        known: Followed,
        leaf: &Leaf,
        (changed, at): (&Changed, Position),
    ) -> Option<Followed> {
        if known.at == at || seeded(Bug::FollowedNotBroughtUp) {
            return Some(known);
        }
        let known = match self.ready_for(leaf, &known, at) {
            Some(ready) if ready.at == at => {
                self.keep(leaf, &ready);
                return Some(ready);
            }
            ready => ready.unwrap_or(known),
        };
        let patch = known.patch_to(leaf, changed, at)?;
        let mut kept = self.kept.lock();
        Some(match kept.bring_up(leaf, known, &patch, at) {
            Ok(now) => now,
            Err(known) => {
                drop(kept);
                let now = known.patched(&patch, at);
                self.keep(leaf, &now);
                now
            }
        })
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
                if let Some(patch) = known.patch_to(&leaf, changed, at) {
                    ready.leaves.insert(leaf, known.patched(&patch, at));
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
        let mut kept = self.kept.lock();
        if followed.at <= kept.after {
            return;
        }
        kept.notes.remove(leaf);
        let bytes = followed.docs.heap_bytes();
        let Some(set) = kept.sets.get_mut(leaf) else {
            let set = Set {
                followed: followed.clone(),
                is_needed: false,
            };
            kept.sets.insert(leaf, set, bytes);
            return;
        };
        if set.followed.at <= followed.at {
            let before = std::mem::replace(&mut set.followed, followed.clone());
            kept.sets.recharge(leaf, bytes);
            // The memory of a set is given back without the lock.
            drop(kept);
            drop(before);
        }
    }

    /// Notes that documents were tested one by one for a leaf. Whether finding all that fulfil it
    /// would have cost no more than that has by now; what was spent before `since` does not count.
    pub(crate) fn spend(&self, leaf: &Leaf, since: Position, nanos: u64, all: u64) -> bool {
        let mut kept = self.kept.lock();
        if kept.notes.get(leaf).is_none() {
            kept.notes.insert(leaf, Note::default(), 0);
        }
        let Some(note) = kept.notes.get_mut(leaf) else {
            return false;
        };
        if note.since < since {
            *note = Note {
                spent_nanos: 0,
                since,
            };
        }
        note.spent_nanos = note.spent_nanos.saturating_add(nanos);
        note.spent_nanos >= all
    }
}

/// What it costs to bring up a set that takes `bytes`, by layers of `docs` documents.
fn nanos_to_bring_up(docs: usize, bytes: usize) -> u64 {
    (docs * BRING_UP_NANOS + bytes / COPIED_IN_A_NANO) as u64
}

/// What it costs to bring up a set of a broad range for the next query that has it, if the shard
/// has the docids below `doc_end`.
pub(crate) fn nanos_to_follow(doc_end: u32) -> u64 {
    nanos_to_bring_up(CHANGED_BETWEEN, doc_end as usize / 8)
}

impl Followed {
    /// What brings the set up to a later position. None if it is not known what changed.
    fn patch_to<'c>(&self, leaf: &Leaf, changed: &'c Changed, at: Position) -> Option<Patch<'c>> {
        match self.at <= at {
            true => changed.patch_after(self.at, leaf),
            false => None,
        }
    }

    /// The set at a later position, by what changed up to there: the same set, if that is known to
    /// leave it as it is.
    fn patched(&self, patch: &Patch<'_>, at: Position) -> Followed {
        let docs = match patch.changes(&self.docs) {
            false => Arc::clone(&self.docs),
            true => {
                let mut docs = DocSet::clone(&self.docs);
                patch.apply(&mut docs);
                Arc::new(docs)
            }
        };
        Followed {
            at,
            docs,
            by_columns: self.by_columns,
        }
    }
}

impl Kept {
    /// Brings the set of a leaf up in its own memory: a large one takes longer to copy. What is
    /// known is given back if it is not the set that is kept, or if others read it.
    fn bring_up(
        &mut self,
        leaf: &Leaf,
        known: Followed,
        patch: &Patch<'_>,
        at: Position,
    ) -> Result<Followed, Followed> {
        let set = self.sets.get_mut(leaf);
        // The same set may be that of another position, too.
        let set = set.filter(|set| {
            set.followed.at == known.at && Arc::ptr_eq(&set.followed.docs, &known.docs)
        });
        // The one that is kept, and the one that is known.
        let Some(set) = set.filter(|_| Arc::strong_count(&known.docs) == 2) else {
            return Err(known);
        };
        drop(known);
        patch.apply(Arc::make_mut(&mut set.followed.docs));
        set.followed.at = at;
        let now = set.followed.clone();
        self.notes.remove(leaf);
        self.sets.recharge(leaf, now.docs.heap_bytes());
        Ok(now)
    }

    /// The set of a leaf, for a query.
    fn followed(&mut self, leaf: &Leaf) -> Option<Followed> {
        let set = self.sets.get_mut(leaf)?;
        let followed = set.followed.clone();
        let needed_bytes = self.needed_bytes + followed.docs.heap_bytes();
        let has_room = self.needed.len() < READY_MAX && needed_bytes <= READY_BYTES_MAX;
        if !set.is_needed && has_room {
            set.is_needed = true;
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

    /// The sets of leaves that were needed; from now on they are not.
    fn known(&mut self, leaves: impl Iterator<Item = Leaf>) -> Vec<(Leaf, Followed)> {
        let known = leaves.filter_map(|leaf| {
            let set = self.sets.get_mut(&leaf)?;
            set.is_needed = false;
            Some((leaf, set.followed.clone()))
        });
        known.collect()
    }

    fn clear(&mut self) {
        self.sets.clear();
        self.notes.clear();
        self.needed.clear();
        self.needed_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::by_lot::LEAF_BYTES_MAX;
    use super::super::changed::Change;
    use super::*;
    use quire_model::Document;
    use quire_query::Test;

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
            assert!(budget.used() <= budget.limit() / PARTS * (SETS_PART + NOTES_PART));
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
    fn a_set_is_brought_up_in_its_own_memory_unless_a_query_reads_it() {
        let budget = Budget::new(1 << 20);
        let followed = FollowedLeaves::new(&budget);
        let set = Arc::new(DocSet::full(70_000));
        followed.follow(&leaf(1), Arc::clone(&set), Position(1), true);
        let mut changed = Changed::new(Position(1));
        let document = Document::from_json(br#"{"n": 2}"#).unwrap();
        for at in 2..5u64 {
            let change = Change::new(Position(at), Some(document.clone()));
            changed.push([(at as u32, change)].into());
        }
        let read = followed.docs(&leaf(1), &changed, Position(4)).unwrap().docs;
        assert_eq!((set.len(), read.len()), (70_000, 69_997));
        let place = Arc::as_ptr(&read);
        drop(read);
        let change = Change::new(Position(5), Some(document));
        changed.push([(100, change)].into());
        let known = followed.docs(&leaf(1), &changed, Position(5)).unwrap();
        assert_eq!(known.docs.len(), 69_996);
        assert_eq!(Arc::as_ptr(&known.docs), place);
        let bytes = known.docs.heap_bytes() as u64;
        assert!((bytes..bytes + 1000).contains(&budget.used()));
    }

    #[test]
    fn a_set_that_a_change_leaves_as_it_is_is_not_copied() {
        let followed = FollowedLeaves::new(&Budget::new(1 << 20));
        let set = Arc::new(DocSet::full(70_000));
        followed.follow(&leaf(1), Arc::clone(&set), Position(1), true);
        let mut changed = Changed::new(Position(1));
        let mut brought_up = |at: u64, doc: u32, json: &str| {
            let before = followed.docs(&leaf(1), &changed, Position(at - 1));
            assert!(before.is_some(), "a query needs it");
            let document = Document::from_json(json.as_bytes()).unwrap();
            let change = Change::new(Position(at), Some(document));
            changed.push([(doc, change)].into());
            followed.make_ready(&changed, Position(at));
            followed.docs(&leaf(1), &changed, Position(at)).unwrap()
        };
        let same = [
            (2, 5, r#"{"n": 1, "other": 7}"#),
            (3, 80_000, r#"{"n": 2}"#),
        ];
        for (at, doc, json) in same {
            let now = brought_up(at, doc, json);
            assert!(Arc::ptr_eq(&now.docs, &set) && now.at == Position(at));
        }
        assert_eq!(brought_up(4, 80_000, r#"{"n": 1}"#).docs.len(), 70_001);
        assert_eq!(brought_up(5, 5, r#"{"n": 2}"#).docs.len(), 70_000);
        assert_eq!(set.len(), 70_000);
    }

    #[test]
    fn a_set_of_two_positions_is_brought_up_from_the_one_that_is_kept() {
        let followed = FollowedLeaves::new(&Budget::new(1 << 20));
        let (first, later) = (Position(1), Position(3));
        followed.follow(&leaf(1), Arc::new(DocSet::full(9)), first, true);
        let mut changed = Changed::new(first);
        let document = Document::from_json(br#"{"n": 2}"#).unwrap();
        let change = Change::new(Position(2), Some(document));
        changed.push([(5, change)].into());
        // One query has the set, and is overtaken by one of a later view, which has the same set.
        let known = followed.kept.lock().followed(&leaf(1)).unwrap();
        followed.follow(&leaf(1), Arc::clone(&known.docs), later, true);
        let patch = known.patch_to(&leaf(1), &changed, Position(2)).unwrap();
        let brought_up = (followed.kept.lock()).bring_up(&leaf(1), known, &patch, Position(2));
        assert_eq!(brought_up.map_err(|known| known.at).unwrap_err(), first);
        assert_eq!(followed.docs_at(&leaf(1), later).unwrap().docs.len(), 9);
    }

    #[test]
    fn a_set_is_brought_up_unless_that_takes_too_long() {
        let followed = FollowedLeaves::new(&Budget::new(1 << 20));
        followed.follow(&leaf(1), Arc::new(DocSet::full(3)), Position(1), true);
        let mut changed = Changed::new(Position(1));
        let document = Document::from_json(br#"{"n": 1}"#).unwrap();
        let change = |doc: u32| {
            let position = Position(2 + u64::from(doc));
            (doc, Change::new(position, Some(document.clone())))
        };
        changed.push((10..110).map(change).collect());
        let at = Position(200);
        let docs = |nanos_max| followed.docs_within(&leaf(1), (&changed, at), nanos_max);
        assert!(docs(100).is_none());
        assert!(
            followed.docs_at(&leaf(1), at).is_none(),
            "it stays as it is"
        );
        let now = docs(1_000_000).unwrap().docs;
        assert_eq!(*now, (0..3).chain(10..110).collect());
        assert!(docs(0).is_some(), "it is known here");
        let later = Changed::new(Position(300));
        let unknown = followed.docs_within(&leaf(1), (&later, Position(301)), u64::MAX);
        assert!(unknown.is_none(), "what changed since is not known");
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
        let spend = |since| followed.spend(&leaf(1), Position(since), 60, 100);
        assert!(!spend(0));
        assert!(spend(0));
        assert!(!spend(5), "what was spent before does not count");
        assert!(spend(5));
        followed.follow(&leaf(1), Arc::new(DocSet::full(3)), Position(5), true);
        assert!(!spend(5), "all were found since");
    }

    #[test]
    fn predicates_that_one_query_has_do_not_push_out_sets() {
        let budget = Budget::new(1 << 20);
        let followed = FollowedLeaves::new(&budget);
        for number in 0..100u32 {
            let docs: DocSet = (number..number + 400).collect();
            followed.follow(&leaf(number.into()), Arc::new(docs), Position(1), false);
        }
        for number in 100..10_000 {
            assert!(!followed.note(&leaf(number)));
        }
        let is_known = |number: &i64| followed.docs_at(&leaf(*number), Position(1)).is_some();
        assert_eq!((0..100).filter(is_known).count(), 100);
        assert!(budget.used() <= budget.limit() / PARTS * (SETS_PART + NOTES_PART));
    }
}
