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
use parking_lot::Mutex;
use quire_env::{Budget, Charge};
use quire_index::DocSet;
use quire_model::Position;
use quire_query::Path;
use quire_store::TreeId;
use std::collections::HashMap;
use std::sync::Arc;

/// What an entry takes besides what it holds, about.
const ENTRY_BYTES: usize = 256;

/// The documents that have a field.
#[derive(Debug)]
pub(crate) struct FieldDocs {
    /// Those with a value, null included.
    pub(crate) present: DocSet,
    /// Whether any has several values.
    pub(crate) has_several: bool,
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
    charge: Charge,
}

impl SharedReads {
    pub(crate) fn new(tree: TreeId, built: Position, budget: &Arc<Budget>) -> SharedReads {
        SharedReads {
            tree,
            built,
            budget: Arc::clone(budget),
            kept: Mutex::new(Kept {
                blocks: HashMap::new(),
                fields: HashMap::new(),
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
