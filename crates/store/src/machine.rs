//! The seam between the store and what its records mean.

use crate::Result;
use quire_lsm::{Op, Tree, TreeSpec};
use quire_model::Position;
use std::fmt;

/// A deterministic state machine over the trees: the same records give the same trees, always and everywhere.
///
/// [`apply`](Machine::apply) is a function of the record, its position and the machine's own small state. It does
/// not read the trees, the clock or anything else, so that replaying a log is as fast as decoding it.
pub trait Machine: Sized + Send + 'static {
    /// What a view shows of the machine's state at its position (counts, say). Small: one is kept per write under way.
    type Summary: Clone + fmt::Debug + Send + Sync + 'static;

    /// The trees, in the order that [`TreeWriter`] and [`View::tree`](crate::View::tree) number them.
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

/// Writes of one record to the trees, all at the record's position.
#[derive(Debug)]
pub struct TreeWriter<'a> {
    pub(crate) trees: &'a [Tree],
    pub(crate) position: Position,
}

impl TreeWriter<'_> {
    /// The record's position.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Sets `key` to `value` in a tree.
    ///
    /// # Errors
    /// As of [`Tree::write`].
    pub fn put(
        &self,
        tree: usize,
        key: &[u8],
        value: &[u8],
    ) -> std::result::Result<(), ApplyError> {
        self.write(tree, key, Op::Put(value))
    }

    /// Removes `key` from a tree.
    ///
    /// # Errors
    /// As of [`Tree::write`].
    pub fn delete(&self, tree: usize, key: &[u8]) -> std::result::Result<(), ApplyError> {
        self.write(tree, key, Op::Delete)
    }

    /// Merges `operand` into what a tree holds under `key`.
    ///
    /// # Errors
    /// As of [`Tree::write`].
    pub fn merge(
        &self,
        tree: usize,
        key: &[u8],
        operand: &[u8],
    ) -> std::result::Result<(), ApplyError> {
        self.write(tree, key, Op::Merge(operand))
    }

    fn write(&self, tree: usize, key: &[u8], op: Op<'_>) -> std::result::Result<(), ApplyError> {
        let tree = self
            .trees
            .get(tree)
            .ok_or_else(|| ApplyError::Record(format!("no tree {tree}")))?;
        Ok(tree.write(key, self.position, op)?)
    }
}

/// Applies one record, with the store's word for what can go wrong.
pub(crate) fn apply<M: Machine>(
    machine: &mut M,
    trees: &[Tree],
    position: Position,
    record: &[u8],
    path: &std::path::Path,
) -> Result<()> {
    machine
        .apply(record, &TreeWriter { trees, position })
        .map_err(|error| match error {
            ApplyError::Record(reason) => crate::Error::Record {
                path: path.to_path_buf(),
                position,
                reason,
            },
            ApplyError::Tree(error) => error.into(),
        })
}
