//! The seam between the store and trees that are derived: made from the trees that `apply` writes
//! and from the log, in the background.
//!
//! The store drives a [`DerivedTrees`], in steps of bounded size. It first has all that a view
//! holds added, part by part ([`build`](DerivedTrees::build)), and from then on what changed
//! between a view and a newer one ([`follow`](DerivedTrees::follow)). While it is being built, the
//! parts that are there already follow the changes too. So at every moment the trees hold, of all
//! that lies before a *cursor*, what exactly the records up to one position make of it; a manifest
//! names cursor and position, and building goes on from there after a crash.

use crate::{BaseView, Result, TreeId};
use quire_lsm::{Op, TreeSnapshot, TreeSpec};
use quire_model::Position;
use std::fmt;

/// A batch is full at this number of bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Trees that are made from those that `apply` writes, and from the log. They are added, complete
/// and dropped together.
pub trait DerivedTrees: Send + Sync + fmt::Debug {
    /// The trees, one or more. The first one's id stands for all.
    fn trees(&self) -> Vec<TreeSpec>;

    /// Writes to `batch` what a view makes of the trees from `cursor` on, until the batch is full.
    /// Returns the cursor to go on from; `None` at the end. The first cursor is empty; what a
    /// cursor means is the implementation's business.
    ///
    /// # Errors
    /// Nothing of the batch is written then; the step is tried again later.
    fn build(
        &self,
        view: &BaseView,
        cursor: &[u8],
        batch: &mut TreeBatch,
    ) -> Result<Option<Vec<u8>>>;

    /// Writes to `batch` what the records of `difference` from `from` on change in the trees, until
    /// the batch is full. Returns the position of the record to go on from; `None` at the end.
    ///
    /// # Errors
    /// The trees are built anew then.
    fn follow(
        &self,
        difference: &Difference<'_>,
        from: Position,
        batch: &mut TreeBatch,
    ) -> Result<Option<Position>>;
}

/// What lies between two views: the records after the older one's position, up to the newer one's.
#[derive(Debug, Clone, Copy)]
pub struct Difference<'a> {
    /// The view whose position the trees are at.
    pub old: &'a BaseView,
    /// The view whose position the trees are to be at.
    pub new: &'a BaseView,
    /// The trees hold only what lies before this cursor, and of what comes after it nothing is to
    /// be written; `None` if they hold all.
    pub built: Option<&'a [u8]>,
}

impl Difference<'_> {
    /// The records from `from` on.
    pub fn records(
        &self,
        from: Position,
    ) -> impl Iterator<Item = Result<(Position, bytes::Bytes)>> {
        self.new.log_from(from.max(self.old.position().next()))
    }
}

/// Writes to derived trees, which are done together.
#[derive(Debug, Default)]
pub struct TreeBatch {
    /// Keys and values, one after the other.
    bytes: Vec<u8>,
    writes: Vec<BatchedWrite>,
    stored: Vec<(TreeId, TreeSnapshot)>,
}

#[derive(Debug)]
struct BatchedWrite {
    tree: TreeId,
    kind: WriteKind,
    key_end: usize,
    value_end: usize,
}

#[derive(Debug, Clone, Copy)]
enum WriteKind {
    Put,
    Delete,
    Merge,
}

impl TreeBatch {
    /// One for these trees.
    pub(crate) fn new(stored: Vec<(TreeId, TreeSnapshot)>) -> TreeBatch {
        TreeBatch {
            stored,
            ..TreeBatch::default()
        }
    }

    /// What a tree holds before the batch is written: all that batches before it wrote.
    pub fn stored(&self, tree: TreeId) -> Option<&TreeSnapshot> {
        let found = self.stored.iter().find(|(id, _)| *id == tree);
        found.map(|(_, tree)| tree)
    }

    /// Sets `key` to `value` in a tree.
    pub fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) {
        self.add(tree, WriteKind::Put, key, value);
    }

    /// Removes `key` from a tree.
    pub fn delete(&mut self, tree: TreeId, key: &[u8]) {
        self.add(tree, WriteKind::Delete, key, &[]);
    }

    /// Merges `operand` into what a tree holds under `key`.
    pub fn merge(&mut self, tree: TreeId, key: &[u8], operand: &[u8]) {
        self.add(tree, WriteKind::Merge, key, operand);
    }

    fn add(&mut self, tree: TreeId, kind: WriteKind, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.writes.push(BatchedWrite {
            tree,
            kind,
            key_end,
            value_end: self.bytes.len(),
        });
    }

    /// Whether it holds as much as one step should write.
    pub fn is_full(&self) -> bool {
        self.bytes.len() + self.writes.len() * size_of::<BatchedWrite>() >= BATCH_BYTES
    }

    /// The writes, in their order.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (TreeId, &[u8], Op<'_>)> {
        let mut begin = 0;
        self.writes.iter().map(move |write| {
            let key = self.bytes.get(begin..write.key_end).unwrap_or_default();
            let value = self.bytes.get(write.key_end..write.value_end);
            let value = value.unwrap_or_default();
            begin = write.value_end;
            let op = match write.kind {
                WriteKind::Put => Op::Put(value),
                WriteKind::Delete => Op::Delete,
                WriteKind::Merge => Op::Merge(value),
            };
            (write.tree, key, op)
        })
    }
}
