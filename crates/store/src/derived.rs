//! The seam between the store and trees that are derived: made from the trees that `apply` writes
//! and from the log, in the background.
//!
//! The store drives a [`DerivedTrees`], in steps of bounded size. It first has all that a view
//! holds added, part by part ([`build`](DerivedTrees::build)), and from then on what changed
//! between a view and a newer one ([`follow`](DerivedTrees::follow)). While it is being built, the
//! parts that are there already follow the changes too. So at every moment the trees hold, of all
//! that lies before a *cursor*, what exactly the records up to one position make of it; a manifest
//! names cursor and position, and building goes on from there after a crash.

use crate::shared::Shared;
use crate::{BaseView, LogRecords, Result, TreeId};
use quire_env::Charge;
use quire_lsm::{Op, TreeSnapshot, TreeSpec};
use quire_model::Position;
use std::fmt;
use std::sync::Arc;

/// A batch is full at this number of bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Bytes of writes that are kept in one allocation.
const CHUNK_BYTES: usize = 128 << 10;

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
    pub fn records(&self, from: Position) -> LogRecords {
        self.new.log_from(from.max(self.old.position().next()))
    }
}

/// Writes to derived trees, which are done together.
///
/// They are kept in chunks that never move: a batch may be large, and growing one allocation would
/// copy it again and again.
#[derive(Debug, Default)]
pub struct TreeBatch {
    /// Of each write: a [`Header`], the key, the value.
    chunks: Vec<Vec<u8>>,
    bytes: usize,
    stored: Vec<(TreeId, TreeSnapshot)>,
    /// Where room for large records is taken.
    shared: Option<Arc<Shared>>,
}

/// What comes before a write's key and value.
#[derive(Debug, Clone, Copy)]
struct Header {
    tree: TreeId,
    kind: WriteKind,
    key_bytes: u32,
    value_bytes: u32,
}

const HEADER_BYTES: usize = 13;

#[derive(Debug, Clone, Copy)]
enum WriteKind {
    Put = 0,
    Delete = 1,
    Merge = 2,
}

impl Header {
    fn encode(self) -> [u8; HEADER_BYTES] {
        let [t0, t1, t2, t3] = self.tree.0.to_le_bytes();
        let [k0, k1, k2, k3] = self.key_bytes.to_le_bytes();
        let [v0, v1, v2, v3] = self.value_bytes.to_le_bytes();
        let kind = self.kind as u8;
        [t0, t1, t2, t3, kind, k0, k1, k2, k3, v0, v1, v2, v3]
    }

    fn decode(header: &[u8; HEADER_BYTES]) -> Header {
        let [t0, t1, t2, t3, kind, k0, k1, k2, k3, v0, v1, v2, v3] = *header;
        Header {
            tree: TreeId(u32::from_le_bytes([t0, t1, t2, t3])),
            kind: match kind {
                0 => WriteKind::Put,
                1 => WriteKind::Delete,
                _ => WriteKind::Merge,
            },
            key_bytes: u32::from_le_bytes([k0, k1, k2, k3]),
            value_bytes: u32::from_le_bytes([v0, v1, v2, v3]),
        }
    }
}

impl TreeBatch {
    /// One for these trees.
    pub(crate) fn new(stored: Vec<(TreeId, TreeSnapshot)>, shared: Arc<Shared>) -> TreeBatch {
        TreeBatch {
            stored,
            shared: Some(shared),
            ..TreeBatch::default()
        }
    }

    /// What a tree holds before the batch is written: all that batches before it wrote.
    pub fn stored(&self, tree: TreeId) -> Option<&TreeSnapshot> {
        let found = self.stored.iter().find(|(id, _)| *id == tree);
        found.map(|(_, tree)| tree)
    }

    /// Room for records of `bytes` bytes that are read or held, for as long as it is held. Waits
    /// while requests have it: the caller holds no other room.
    pub fn room(&self, bytes: u64) -> Option<Charge> {
        let shared = self.shared.as_ref();
        shared.map(|shared| shared.room_for_work(bytes))
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
        let bytes = HEADER_BYTES + key.len() + value.len();
        self.bytes += bytes;
        let room = self
            .chunks
            .last()
            .map_or(0, |chunk| chunk.capacity() - chunk.len());
        if room < bytes {
            self.chunks.push(Vec::with_capacity(bytes.max(CHUNK_BYTES)));
        }
        let header = Header {
            tree,
            kind,
            key_bytes: key.len() as u32,
            value_bytes: value.len() as u32,
        };
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.extend_from_slice(&header.encode());
            chunk.extend_from_slice(key);
            chunk.extend_from_slice(value);
        }
    }

    /// Whether it holds as much as one step should write.
    pub fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES
    }

    /// The writes, in their order.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (TreeId, &[u8], Op<'_>)> {
        self.chunks.iter().flat_map(|chunk| {
            let mut left = chunk.as_slice();
            std::iter::from_fn(move || {
                let (header, rest) = left.split_first_chunk::<HEADER_BYTES>()?;
                let header = Header::decode(header);
                let (key, rest) = rest.split_at_checked(header.key_bytes as usize)?;
                let (value, rest) = rest.split_at_checked(header.value_bytes as usize)?;
                left = rest;
                let op = match header.kind {
                    WriteKind::Put => Op::Put(value),
                    WriteKind::Delete => Op::Delete,
                    WriteKind::Merge => Op::Merge(value),
                };
                Some((header.tree, key, op))
            })
        })
    }
}
