//! A consistent read: to keep, or for a few lookups.

use crate::Result;
use bytes::Bytes;
use quire_log::{LogReader, LogView};
use quire_lsm::{SmallBytes, TreeReader, TreeSnapshot};
use quire_model::Position;
use smallvec::SmallVec;

/// Lookups at one position, which are over soon: of what was current when it was made, or of a
/// [`View`]. It is bound to the store or the view, and making one touches no count that other
/// threads touch.
#[derive(Debug)]
pub struct PointView<'a> {
    pub(crate) position: Position,
    pub(crate) trees: SmallVec<[TreeReader<'a>; TREES]>,
    pub(crate) log: LogReader<'a>,
}

/// So many trees of a store need no memory of their own in a [`PointView`].
pub(crate) const TREES: usize = 2;

impl PointView<'_> {
    /// The last record that it sees.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The value of a key in a tree, by its number in [`Machine::trees`](crate::Machine::trees).
    ///
    /// # Errors
    /// As of [`TreeReader::get`].
    pub fn get(&self, tree: usize, key: &[u8]) -> Result<Option<SmallBytes>> {
        Ok(self.trees[tree].get(key)?)
    }

    /// The values of many keys in a tree, in the order asked for.
    ///
    /// # Errors
    /// As of [`TreeReader::get`].
    pub fn get_many(&self, tree: usize, keys: &[&[u8]]) -> Result<Vec<Option<SmallBytes>>> {
        Ok(self.trees[tree].get_many(keys)?)
    }

    /// The record at a position.
    ///
    /// # Errors
    /// As of [`Log::read`](quire_log::Log::read).
    pub fn record(&self, position: Position) -> Result<Bytes> {
        Ok(self.log.read(position)?)
    }

    /// The records at many positions, in the order asked for, read in disk order.
    ///
    /// # Errors
    /// As of [`Log::read`](quire_log::Log::read), for the first that fails.
    pub fn records(&self, positions: &[Position]) -> Result<Vec<Bytes>> {
        Ok(self.log.read_many(positions)?)
    }
}

/// A consistent read: exactly the records up to its position, in every tree. It pins the memtables
/// and files that it needs, so one that is kept long holds memory and disk.
#[derive(Debug)]
pub struct View<S> {
    pub(crate) position: Position,
    pub(crate) summary: S,
    pub(crate) trees: Vec<TreeSnapshot>,
    pub(crate) log: LogView,
}

impl<S> View<S> {
    /// The last record that it sees.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The machine's summary at its position.
    pub fn summary(&self) -> &S {
        &self.summary
    }

    /// A tree, by its number in [`Machine::trees`](crate::Machine::trees).
    pub fn tree(&self, index: usize) -> &TreeSnapshot {
        &self.trees[index]
    }

    /// The view, for lookups.
    pub fn point_view(&self) -> PointView<'_> {
        PointView {
            position: self.position,
            trees: self.trees.iter().map(TreeSnapshot::reader).collect(),
            log: self.log.reader(),
        }
    }

    /// All records that the view sees and the log held when it was made, from the first on, in
    /// order.
    pub fn log(&self) -> impl Iterator<Item = Result<(Position, Bytes)>> + use<S> {
        self.log_from(Position(0))
    }

    /// Those of [`log`](View::log) from a position on.
    pub fn log_from(
        &self,
        from: Position,
    ) -> impl Iterator<Item = Result<(Position, Bytes)>> + use<S> {
        let first = from.max(self.log.first());
        let scan = self.log.scan(first).until(self.position);
        scan.map(|item| Ok(item?))
    }
}
