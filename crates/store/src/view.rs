//! A consistent read.

use crate::Result;
use bytes::Bytes;
use quire_log::LogView;
use quire_lsm::TreeSnapshot;
use quire_model::Position;

/// A consistent read: exactly the records up to its position, in every tree. It pins the memtables and files that
/// it needs, so one that is kept long holds memory and disk.
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

    /// The record at a position.
    ///
    /// # Errors
    /// As of [`Log::read`](quire_log::Log::read).
    pub fn record(&self, position: Position) -> Result<Bytes> {
        Ok(self.log.read(position)?)
    }

    /// All records that the view sees and the log held when it was made, from the first on, in order.
    pub fn log(&self) -> impl Iterator<Item = Result<(Position, Bytes)>> + use<S> {
        let scan = self.log.scan(self.log.first()).until(self.position);
        scan.map(|item| Ok(item?))
    }

    /// The records at many positions, in the order asked for, read in disk order.
    ///
    /// # Errors
    /// As of [`Log::read`](quire_log::Log::read), for the first that fails.
    pub fn records(&self, positions: &[Position]) -> Result<Vec<Bytes>> {
        Ok(self.log.read_many(positions)?)
    }
}
