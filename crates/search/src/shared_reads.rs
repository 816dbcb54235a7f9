//! [`SharedReads`]: what queries read of a search index at one position, kept for the next ones.
//!
//! An index that follows writes moves on some times a second, and is queried thousands of times.
//!
//! # Invariants
//! 1. What is kept follows from the trees at one position alone: not from what changed since, and
//!    not from a query.
//! 2. What is kept is within a part of the budget: past it nothing more is kept, and queries read
//!    for themselves.

use super::by_lot::{LEAF_BYTES_MAX, leaf_bytes};
use super::column_blocks::FieldBlock;
use super::looked::Looked;
use super::sample::Sample;
use hashbrown::HashMap;
use parking_lot::Mutex;
use quire_env::{Budget, Charge};
use quire_index::DocSet;
use quire_model::Position;
use quire_query::{Leaf, Path};
use quire_store::TreeId;
use std::sync::Arc;

/// What an entry takes besides what it holds, about.
const ENTRY_BYTES: usize = 256;

/// What is kept takes at most one in this number of the bytes of the budget: columns that are
/// followed, which need not be read again, have the others.
const BUDGET_PART: u64 = 4;

/// What was looked at for predicates takes at most one in this number of the bytes of the budget.
const LOOKED_PART: u64 = 8;

/// The documents that have a field.
#[derive(Debug)]
pub(crate) struct FieldDocs {
    /// Those with a value, null included.
    pub(crate) present: DocSet,
    /// Whether any has several values.
    pub(crate) has_several: bool,
}

/// The least and the greatest value of a type in a field, as terms; empty if there is none.
pub(crate) type Ends = [Vec<u8>; 2];

/// The terms of the least and of the greatest value of a field that is not null, each with
/// documents that have it; none if there is no value.
#[derive(Debug, Default)]
pub(crate) struct FieldEnds(pub(crate) [Option<(Vec<u8>, DocSet)>; 2]);

impl FieldEnds {
    fn bytes(&self) -> usize {
        let ends = self.0.iter().flatten();
        ends.map(|(term, docs)| term.len() + docs.heap_bytes())
            .sum()
    }
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
    /// None of fields of which the postings do not have all values.
    field_ends: HashMap<Path, Option<Arc<FieldEnds>>>,
    samples: HashMap<Path, Arc<Sample>>,
    looked: HashMap<Leaf, Looked>,
    /// What those take, of what is charged.
    looked_bytes: u64,
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
                field_ends: HashMap::default(),
                samples: HashMap::default(),
                looked: HashMap::default(),
                looked_bytes: 0,
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

    /// The ends of a field, if it is known whether the postings have all of its values.
    pub(crate) fn field_ends(&self, path: &Path) -> Option<Option<Arc<FieldEnds>>> {
        self.kept.lock().field_ends.get(path).cloned()
    }

    /// Keeps the ends of a field, or that the postings do not have all of its values, if there is
    /// room.
    pub(crate) fn keep_field_ends(&self, path: &Path, read: Option<&Arc<FieldEnds>>) {
        let mut kept = self.kept.lock();
        if kept.takes(&self.budget, read.map_or(0, |ends| ends.bytes())) {
            kept.field_ends.insert(path.clone(), read.cloned());
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

    /// What was looked at for a predicate, if it is kept.
    pub(crate) fn looked(&self, leaf: &Leaf) -> Option<Looked> {
        self.kept.lock().looked.get(leaf).copied()
    }

    /// Keeps what was looked at for a predicate, if there is room. Predicates take a part of the
    /// budget: past that all of them are given up.
    pub(crate) fn keep_looked(&self, leaf: &Leaf, looked: Looked) {
        let bytes = leaf_bytes(leaf) + size_of::<Looked>();
        let charged = (bytes + ENTRY_BYTES) as u64;
        let bytes_max = self.budget.limit() / LOOKED_PART;
        let mut kept = self.kept.lock();
        if bytes > LEAF_BYTES_MAX || charged > bytes_max {
            return;
        }
        if kept.looked_bytes + charged > bytes_max {
            kept.looked.clear();
            let rest = kept.charge.bytes() - kept.looked_bytes;
            kept.charge.resize(rest);
            kept.looked_bytes = 0;
        }
        if kept.takes(&self.budget, bytes) {
            kept.looked_bytes += charged;
            kept.looked.insert(leaf.clone(), looked);
        }
    }
}

impl Kept {
    /// Charges an entry of this many bytes; false if they are not free.
    fn takes(&mut self, budget: &Budget, bytes: usize) -> bool {
        let bytes = (bytes + ENTRY_BYTES) as u64;
        let own = self.charge.bytes() + bytes;
        let is_free = budget.used().saturating_add(bytes) <= budget.limit()
            && own <= budget.limit() / BUDGET_PART;
        if is_free {
            self.charge.resize(own);
        }
        is_free
    }
}
