//! [`SharedReads`]: what queries read of a search index at one position, kept for the next ones.
//!
//! An index that follows writes moves on some times a second, and is queried thousands of times.
//!
//! # Invariants
//! 1. What is kept follows from the trees at one position alone: not from what changed since, and
//!    not from a query.
//! 2. What is kept is within the budget: past it nothing more is kept, and queries read for
//!    themselves.

use super::column_blocks::FieldBlock;
use super::looked::Looked;
use super::sample::Sample;
use parking_lot::Mutex;
use quire_env::{Budget, Charge};
use quire_index::DocSet;
use quire_model::Position;
use quire_query::{Leaf, Path, Test, Value};
use quire_store::TreeId;
use std::hash::BuildHasherDefault;
use std::ops::Bound;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3Default;

/// What an entry takes besides what it holds, about.
const ENTRY_BYTES: usize = 256;

/// Predicates of one partition take at most one in this number of the bytes of the budget.
const LEAVES_PART: u64 = 4;

/// What is read for larger predicates, with longer lists or values, is not shared.
const LEAF_BYTES_MAX: usize = 8 << 10;

/// The documents that have a field.
#[derive(Debug)]
pub(crate) struct FieldDocs {
    /// Those with a value, null included.
    pub(crate) present: DocSet,
    /// Whether any has several values.
    pub(crate) has_several: bool,
}

type HashMap<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<Xxh3Default>>;

/// The least and the greatest value of a type in a field, as terms; empty if there is none.
pub(crate) type Ends = [Vec<u8>; 2];

/// The documents whose values lie in a range, by the columns.
#[derive(Debug)]
pub(crate) struct InRange {
    pub(crate) docs: DocSet,
    /// Those that must be read to know.
    pub(crate) marked: DocSet,
}

/// What was read for a predicate.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeafReads {
    /// By its estimate.
    pub(crate) looked: Option<Looked>,
    /// The documents that the postings of terms give.
    pub(crate) by_postings: Option<Arc<DocSet>>,
    pub(crate) by_columns: Option<Arc<InRange>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SharedReads {
    tree: TreeId,
    built: Position,
    budget: Arc<Budget>,
    kept: Mutex<Kept>,
}

#[derive(Debug)]
struct Kept {
    blocks: HashMap<(Path, u32), Arc<FieldBlock>>,
    fields: HashMap<Path, Arc<FieldDocs>>,
    /// By field, and the first byte of the terms of a type.
    ends: HashMap<(Path, u8), Arc<Ends>>,
    samples: HashMap<Path, Arc<Sample>>,
    leaves: HashMap<Leaf, LeafReads>,
    /// What the leaves take, of what is charged.
    leaf_bytes: u64,
    charge: Charge,
}

impl SharedReads {
    pub(crate) fn new(tree: TreeId, built: Position, budget: &Arc<Budget>) -> SharedReads {
        SharedReads {
            tree,
            built,
            budget: Arc::clone(budget),
            kept: Mutex::new(Kept {
                blocks: HashMap::default(),
                fields: HashMap::default(),
                ends: HashMap::default(),
                samples: HashMap::default(),
                leaves: HashMap::default(),
                leaf_bytes: 0,
                charge: budget.charge(0),
            }),
        }
    }

    /// Whether it is of a tree at a position.
    pub(crate) fn is_of(&self, tree: TreeId, built: Position) -> bool {
        (self.tree, self.built) == (tree, built)
    }

    /// Whether a tree at a position is another one, or newer.
    pub(crate) fn is_before(&self, tree: TreeId, built: Position) -> bool {
        self.tree != tree || self.built < built
    }

    /// A block of a field, if it is kept.
    pub(crate) fn block(&self, path: &Path, block: u32) -> Option<Arc<FieldBlock>> {
        let kept = self.kept.lock();
        kept.blocks.get(&(path.clone(), block)).map(Arc::clone)
    }

    /// Keeps a block of a field, if there is room.
    pub(crate) fn keep_block(&self, path: &Path, block: u32, read: &Arc<FieldBlock>) {
        let mut kept = self.kept.lock();
        if kept.takes(&self.budget, read.bytes()) {
            kept.blocks.insert((path.clone(), block), Arc::clone(read));
        }
    }

    /// The documents that have a field, if they are kept.
    pub(crate) fn field(&self, path: &Path) -> Option<Arc<FieldDocs>> {
        self.kept.lock().fields.get(path).map(Arc::clone)
    }

    /// Keeps the documents that have a field, if there is room.
    pub(crate) fn keep_field(&self, path: &Path, read: &Arc<FieldDocs>) {
        let mut kept = self.kept.lock();
        if kept.takes(&self.budget, read.present.heap_bytes()) {
            kept.fields.insert(path.clone(), Arc::clone(read));
        }
    }

    /// The ends of a type of a field, if they are kept.
    pub(crate) fn ends(&self, path: &Path, first: u8) -> Option<Arc<Ends>> {
        let kept = self.kept.lock();
        kept.ends.get(&(path.clone(), first)).map(Arc::clone)
    }

    /// Keeps the ends of a type of a field, if there is room.
    pub(crate) fn keep_ends(&self, path: &Path, first: u8, read: &Arc<Ends>) {
        let mut kept = self.kept.lock();
        if kept.takes(&self.budget, read.iter().map(Vec::len).sum()) {
            kept.ends.insert((path.clone(), first), Arc::clone(read));
        }
    }

    /// The sample of a field, if it is kept.
    pub(crate) fn sample(&self, path: &Path) -> Option<Arc<Sample>> {
        self.kept.lock().samples.get(path).map(Arc::clone)
    }

    /// Keeps the sample of a field, if there is room.
    pub(crate) fn keep_sample(&self, path: &Path, sample: &Arc<Sample>) {
        let mut kept = self.kept.lock();
        if kept.takes(&self.budget, sample.bytes()) {
            kept.samples.insert(path.clone(), Arc::clone(sample));
        }
    }

    /// What was read for a predicate.
    pub(crate) fn leaf(&self, leaf: &Leaf) -> Option<LeafReads> {
        match leaf_bytes(leaf) <= LEAF_BYTES_MAX {
            true => self.kept.lock().leaves.get(leaf).cloned(),
            false => None,
        }
    }

    /// Whether a query had this predicate before. From now on it is one that a query had.
    pub(crate) fn note(&self, leaf: &Leaf) -> bool {
        let is_noted = self.leaf(leaf).is_some();
        if !is_noted {
            self.keep_leaf(leaf, 0, |_| ());
        }
        is_noted
    }

    /// Keeps more of what was read for a predicate, of this many bytes, if there is room. Leaves
    /// take a part of the budget: past that all of them are given up.
    pub(crate) fn keep_leaf(&self, leaf: &Leaf, bytes: usize, keep: impl FnOnce(&mut LeafReads)) {
        let bytes_max = self.budget.limit() / LEAVES_PART;
        let leaf_bytes = leaf_bytes(leaf);
        let mut kept = self.kept.lock();
        let bytes = match kept.leaves.contains_key(leaf) {
            true => bytes,
            false => bytes + leaf_bytes,
        };
        let charged = (bytes + ENTRY_BYTES) as u64;
        if leaf_bytes > LEAF_BYTES_MAX || charged > bytes_max {
            return;
        }
        if kept.leaf_bytes + charged > bytes_max {
            kept.leaves.clear();
            let rest = kept.charge.bytes() - kept.leaf_bytes;
            kept.charge.resize(rest);
            kept.leaf_bytes = 0;
        }
        if kept.takes(&self.budget, bytes) {
            kept.leaf_bytes += charged;
            keep(kept.leaves.entry(leaf.clone()).or_default());
        }
    }
}

/// What a predicate takes in memory, at most.
fn leaf_bytes(leaf: &Leaf) -> usize {
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

impl Kept {
    /// Charges an entry of this many bytes; false if they are not free.
    fn takes(&mut self, budget: &Budget, bytes: usize) -> bool {
        let bytes = (bytes + ENTRY_BYTES) as u64;
        let is_free = budget.used().saturating_add(bytes) <= budget.limit();
        if is_free {
            self.charge.resize(self.charge.bytes() + bytes);
        }
        is_free
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
    fn predicates_are_given_up_past_their_part_of_the_budget_and_what_they_took_is_free() {
        let budget = Budget::new(64 << 10);
        let shared = SharedReads::new(TreeId(1), Position(1), &budget);
        let bytes = 1000;
        for number in 0..500 {
            let docs = Arc::new(DocSet::full(number));
            let keep = Arc::clone(&docs);
            shared.keep_leaf(&leaf(number.into()), bytes, |reads| {
                reads.by_postings = Some(keep);
            });
            let known = shared.leaf(&leaf(number.into())).unwrap();
            assert_eq!(known.by_postings.as_deref(), Some(&*docs));
            assert!(budget.used() <= budget.limit() / LEAVES_PART);
        }
        assert!(shared.leaf(&leaf(0)).is_none());
        assert!(!shared.note(&leaf(0)));
        assert!(shared.note(&leaf(0)));
        drop(shared);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_larger_than_its_part_and_large_predicates_are_not_kept() {
        let budget = Budget::new(64 << 10);
        let shared = SharedReads::new(TreeId(1), Position(1), &budget);
        shared.keep_leaf(&leaf(1), 17 << 10, |_| panic!("it is kept"));
        let values = (0..1000).map(Into::into).collect();
        let text = "x".repeat(LEAF_BYTES_MAX);
        for test in [Test::In(values), Test::Eq(text.as_str().into())] {
            let long = Leaf {
                path: "n".into(),
                test,
            };
            shared.keep_leaf(&long, 1, |_| panic!("it is kept"));
            assert!(shared.leaf(&long).is_none());
        }
        assert_eq!(budget.used(), 0);
    }
}
