//! The seam between the store and what its records mean.

use crate::trees::Slot;
use crate::{Result, TreeId, TreeSnapshots};
use bytes::Bytes;
use quire_lsm::{Op, TreeSpec};
use quire_model::Position;
use std::cell::RefCell;
use std::fmt;

/// A deterministic state machine over the trees: the same records give the same trees, always and
/// everywhere.
///
/// [`apply`](Machine::apply) is a function of the record, its position and the machine's own small
/// state. It does not read the trees, the clock or anything else, so that replaying a log is as
/// fast as decoding it.
pub trait Machine: Sized + Send + 'static {
    /// What a view shows of the machine's state at its position (counts, say). Small: one is kept
    /// per write under way.
    type Summary: Clone + fmt::Debug + Send + Sync + 'static;

    /// Whether the log keeps its records once the trees' files have what they say. If not, it is a
    /// write-ahead log and no more: whole segments are dropped as soon as a durable manifest makes
    /// them obsolete.
    const LOG_IS_KEPT: bool = true;

    /// The trees that a store has: [`apply`](Machine::apply) writes them from the first record on,
    /// so they are always complete. One that a store was made without begins empty: no record that
    /// an earlier program wrote may write it. How each is shaped may be said at each opening
    /// ([`StoreOptions::trees`](crate::StoreOptions::trees)).
    fn trees() -> Vec<TreeSpec>;

    /// The machine before the first record.
    fn new() -> Self;

    /// The machine from what [`encode`](Machine::encode) gave.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    fn decode(state: &[u8]) -> std::result::Result<Self, String>;

    /// The machine's own state, as kept in the manifest: bounded, whatever the data.
    fn encode(&self) -> Vec<u8>;

    /// What views show.
    fn summary(&self) -> Self::Summary;

    /// Turns a record into tree writes. The record is decoded whole before anything is written.
    ///
    /// # Errors
    /// [`ApplyError::Record`] if the record makes no sense; nothing was written then.
    fn apply(
        &mut self,
        record: &[u8],
        trees: &TreeWriter<'_>,
    ) -> std::result::Result<(), ApplyError>;

    /// Whether [`apply`](Machine::apply) would take these records one after the other, the first of
    /// them at position `first`. Called before records of another store are written to the log.
    ///
    /// # Errors
    /// Which one makes no sense, and why.
    fn check(
        &self,
        first: Position,
        records: &[Bytes],
    ) -> std::result::Result<(), (Position, String)>;

    /// Which of these records of the log are needed, one answer each, now that the trees are as
    /// `trees` shows them: the others are removed from it. What later records need is needed. Of
    /// each record that is not needed, one before it told [`TreeWriter::supersede`]. All are, of a
    /// machine that never does.
    ///
    /// # Errors
    /// [`ApplyError::Record`] if a record makes no sense, or a tree's error; nothing is removed
    /// then.
    fn needed(
        records: &[(Position, Bytes)],
        trees: &TreeSnapshots,
    ) -> std::result::Result<Vec<bool>, ApplyError> {
        let _ = trees;
        Ok(vec![true; records.len()])
    }
}

/// Why a record was not applied.
#[derive(Debug)]
pub enum ApplyError {
    /// The record makes no sense: what is wrong with it.
    Record(String),
    /// A tree refused a write.
    Tree(quire_lsm::Error),
}

impl From<quire_lsm::Error> for ApplyError {
    fn from(error: quire_lsm::Error) -> ApplyError {
        ApplyError::Tree(error)
    }
}

/// What a record made obsolete.
#[derive(Debug, Default)]
pub(crate) struct Obsoleted {
    /// Records, and their bytes.
    pub(crate) records: Vec<(Position, u64)>,
    /// Whether there were more that the record does not name.
    pub(crate) unknown: bool,
}

/// Writes of one record to the trees, all at the record's position.
#[derive(Debug)]
pub struct TreeWriter<'a> {
    pub(crate) trees: &'a [Slot],
    pub(crate) position: Position,
    superseded: RefCell<Obsoleted>,
}

impl TreeWriter<'_> {
    /// The record's position.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Says that this record makes an earlier one obsolete: the one at `position`, which
    /// has `bytes` bytes. Each is named once.
    pub fn supersede(&self, position: Position, bytes: u64) {
        self.superseded.borrow_mut().records.push((position, bytes));
    }

    /// Says that this record makes an earlier one obsolete, and does not say which: it is of an
    /// older version.
    pub fn supersede_unknown(&self) {
        self.superseded.borrow_mut().unknown = true;
    }

    /// Sets `key` to `value` in a tree.
    ///
    /// # Errors
    /// As of [`Tree::write`](quire_lsm::Tree::write).
    pub fn put(
        &self,
        tree: TreeId,
        key: &[u8],
        value: &[u8],
    ) -> std::result::Result<(), ApplyError> {
        self.write(tree, key, Op::Put(value))
    }

    /// Sets `key` to a value that has a deadline, in a tree: see [`Op::PutUntil`].
    ///
    /// # Errors
    /// As of [`Tree::write`](quire_lsm::Tree::write).
    pub fn put_until(
        &self,
        tree: TreeId,
        key: &[u8],
        timed: &[u8],
    ) -> std::result::Result<(), ApplyError> {
        self.write(tree, key, Op::PutUntil(timed))
    }

    /// Removes `key` from a tree.
    ///
    /// # Errors
    /// As of [`Tree::write`](quire_lsm::Tree::write).
    pub fn delete(&self, tree: TreeId, key: &[u8]) -> std::result::Result<(), ApplyError> {
        self.write(tree, key, Op::Delete)
    }

    /// Removes the keys from `from` up to `to`, which stays, from a tree; if `to` is empty, all
    /// from `from` on.
    ///
    /// # Errors
    /// As of [`Tree::write`](quire_lsm::Tree::write).
    pub fn delete_range(
        &self,
        tree: TreeId,
        from: &[u8],
        to: &[u8],
    ) -> std::result::Result<(), ApplyError> {
        self.write(tree, from, Op::DeleteRange(to))
    }

    /// Merges `operand` into what a tree holds under `key`.
    ///
    /// # Errors
    /// As of [`Tree::write`](quire_lsm::Tree::write).
    pub fn merge(
        &self,
        tree: TreeId,
        key: &[u8],
        operand: &[u8],
    ) -> std::result::Result<(), ApplyError> {
        self.write(tree, key, Op::Merge(operand))
    }

    fn write(&self, tree: TreeId, key: &[u8], op: Op<'_>) -> std::result::Result<(), ApplyError> {
        let slot = self.trees.iter().find(|slot| slot.id == tree);
        let slot = slot.ok_or_else(|| ApplyError::Record(format!("no tree {tree}")))?;
        Ok(slot.tree.write(key, self.position, op)?)
    }
}

/// Applies one record, with the store's word for what can go wrong. Returns what it made obsolete.
pub(crate) fn apply<M: Machine>(
    machine: &mut M,
    trees: &[Slot],
    position: Position,
    record: &[u8],
    path: &std::path::Path,
) -> Result<Obsoleted> {
    let writer = TreeWriter {
        trees,
        position,
        superseded: RefCell::default(),
    };
    machine
        .apply(record, &writer)
        .map_err(|error| error.at(path, position))?;
    Ok(writer.superseded.into_inner())
}

impl ApplyError {
    /// As the store's error, about the record at `position`.
    pub(crate) fn at(self, path: &std::path::Path, position: Position) -> crate::Error {
        match self {
            ApplyError::Record(reason) => crate::Error::Record {
                path: path.to_path_buf(),
                position,
                reason,
            },
            ApplyError::Tree(error) => error.into(),
        }
    }
}
