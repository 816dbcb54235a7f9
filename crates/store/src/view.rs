//! A consistent read: to keep, or for a few lookups.

use crate::trees::{SeenUse, no_tree};
use crate::{Result, TreeId, TreeState};
use bytes::Bytes;
use quire_log::{LogReader, LogScan, LogView};
use quire_lsm::{SmallBytes, TreeReader, TreeSnapshot};
use quire_model::Position;
use smallvec::SmallVec;

/// This number of trees needs no memory of its own in a [`PointView`] or a [`View`].
const TREES: usize = 2;

/// Lookups in some trees at one position, which are over soon: of what was current when it was
/// made, or of a [`View`]. It is bound to the store or the view, and making one changes no count
/// that other threads change.
#[derive(Debug)]
pub struct PointView<'a> {
    pub(crate) position: Position,
    pub(crate) trees: Readers<'a>,
    pub(crate) log: LogReader<'a>,
}

/// Trees, by their ids.
pub(crate) type Readers<'a> = SmallVec<[(TreeId, TreeReader<'a>); TREES]>;

impl PointView<'_> {
    /// The last record that it sees.
    pub fn position(&self) -> Position {
        self.position
    }

    fn tree(&self, tree: TreeId) -> Result<&TreeReader<'_>> {
        let found = self.trees.iter().find(|(id, _)| *id == tree);
        found.map(|(_, tree)| tree).ok_or_else(|| no_tree(tree))
    }

    /// The value of a key in a tree.
    ///
    /// # Errors
    /// `Invalid` for a tree that it was not made of; as of [`TreeReader::get`].
    pub fn get(&self, tree: TreeId, key: &[u8]) -> Result<Option<SmallBytes>> {
        Ok(self.tree(tree)?.get(key)?)
    }

    /// The values of many keys in a tree, in the order of the keys.
    ///
    /// # Errors
    /// As of [`get`](Self::get).
    pub fn get_many(&self, tree: TreeId, keys: &[&[u8]]) -> Result<Vec<Option<SmallBytes>>> {
        Ok(self.tree(tree)?.get_many(keys)?)
    }

    /// The record at a position.
    ///
    /// # Errors
    /// As of [`Log::read`](quire_log::Log::read).
    pub fn record(&self, position: Position) -> Result<Bytes> {
        Ok(self.log.read(position)?)
    }

    /// The records at many positions, in the order of `positions`, read in disk order.
    ///
    /// # Errors
    /// As of [`Log::read`](quire_log::Log::read), for the first that fails.
    pub fn records(&self, positions: &[Position]) -> Result<Vec<Bytes>> {
        Ok(self.log.read_many(positions)?)
    }
}

/// Trees that `apply` writes, and the log, as of one position.
#[derive(Debug, Clone)]
pub struct BaseView {
    pub(crate) position: Position,
    pub(crate) time_micros: u64,
    pub(crate) trees: TreeSnapshots,
    pub(crate) log: LogView,
}

/// Trees as of one position, by their ids.
#[derive(Debug, Clone)]
pub struct TreeSnapshots(pub(crate) SmallVec<[(TreeId, TreeSnapshot); TREES]>);

impl TreeSnapshots {
    /// A tree, if it is among them.
    pub fn get(&self, tree: TreeId) -> Option<&TreeSnapshot> {
        let found = self.0.iter().find(|(id, _)| *id == tree);
        found.map(|(_, tree)| tree)
    }
}

impl BaseView {
    /// The last record that it sees.
    pub fn position(&self) -> Position {
        self.position
    }

    /// When it was made, by the clock of the machine: microseconds since 1970 UTC.
    pub fn time_micros(&self) -> i64 {
        i64::try_from(self.time_micros).unwrap_or(i64::MAX)
    }

    /// A tree.
    ///
    /// # Errors
    /// `Invalid` for one that is not in the view.
    pub fn tree(&self, tree: TreeId) -> Result<&TreeSnapshot> {
        self.trees.get(tree).ok_or_else(|| no_tree(tree))
    }

    /// Some trees of the view, for lookups.
    ///
    /// # Errors
    /// `Invalid` for one that is not in the view.
    pub fn point_view(&self, trees: &[TreeId]) -> Result<PointView<'_>> {
        let reader = |id: &TreeId| Ok((*id, self.tree(*id)?.reader()));
        Ok(PointView {
            position: self.position,
            trees: trees.iter().map(reader).collect::<Result<_>>()?,
            log: self.log.reader(),
        })
    }

    /// The record at a position.
    ///
    /// # Errors
    /// As of [`Log::read`](quire_log::Log::read).
    pub fn record(&self, position: Position) -> Result<Bytes> {
        Ok(self.log.read(position)?)
    }

    /// The records at many positions, in the order of `positions`, read in disk order.
    ///
    /// # Errors
    /// As of [`Log::read`](quire_log::Log::read), for the first that fails.
    pub fn records(&self, positions: &[Position]) -> Result<Vec<Bytes>> {
        Ok(self.log.read_many(positions)?)
    }

    /// The records that the view sees and the log held when it was made, from a position on, in
    /// order.
    pub fn log_from(&self, from: Position) -> LogRecords {
        let first = from.max(self.log.first());
        LogRecords(self.log.scan(first).until(self.position))
    }
}

/// Records of a log, in order.
#[derive(Debug)]
pub struct LogRecords(LogScan);

impl LogRecords {
    /// The bytes of the block that is read for the next record, before compression; 0 if it is in
    /// memory, or can't be read.
    pub fn next_block_bytes(&mut self) -> usize {
        self.0.next_block_bytes()
    }
}

impl Iterator for LogRecords {
    type Item = Result<(Position, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|item| Ok(item?))
    }
}

/// The derived trees of a view.
pub(crate) type DerivedSnapshots = SmallVec<[DerivedSnapshot; TREES]>;

/// A derived tree as a view has it.
#[derive(Debug, Clone)]
pub(crate) struct DerivedSnapshot {
    pub(crate) id: TreeId,
    /// What the tree was when the view was made.
    pub(crate) seen: SeenUse,
    /// The tree as of the position up to which it is built; none if it is not complete.
    pub(crate) built: Option<(Position, TreeSnapshot)>,
}

/// A consistent read: exactly the records up to its position, in every tree that `apply` writes,
/// and in a derived tree exactly those up to the position that
/// [`tree_state`](View::tree_state) says. It pins the memtables and files that it needs, so one
/// that is kept long holds memory and disk.
#[derive(Debug)]
pub struct View<S> {
    pub(crate) base: BaseView,
    pub(crate) summary: S,
    pub(crate) derived: DerivedSnapshots,
}

impl<S> View<S> {
    /// Bytes of memtables that views alone hold still: writers wait for them once memtables hold
    /// all they may, and only the end of this view, and of others that hold them, frees them.
    pub fn held_memtable_bytes(&self) -> u64 {
        let trees = self.base.trees.0.iter().map(|(_, tree)| tree);
        let derived = self.derived.iter().filter_map(|tree| tree.built.as_ref());
        let all = trees.chain(derived.map(|(_, tree)| tree));
        all.map(TreeSnapshot::held_bytes).sum()
    }

    /// The last record that it sees.
    pub fn position(&self) -> Position {
        self.base.position
    }

    /// The machine's summary at its position.
    pub fn summary(&self) -> &S {
        &self.summary
    }

    /// A tree.
    ///
    /// # Errors
    /// `Invalid` for one that the view was not made of, or that is not complete.
    pub fn tree(&self, tree: TreeId) -> Result<&TreeSnapshot> {
        if let Some(found) = self.base.trees.get(tree) {
            return Ok(found);
        }
        let found = self.derived.iter().find(|derived| derived.id == tree);
        let built = found.and_then(|derived| derived.built.as_ref());
        let (_, snapshot) = built.ok_or_else(|| no_tree(tree))?;
        Ok(snapshot)
    }

    /// What a tree of the view can be used for; `None` for one that the view was not made of.
    pub fn tree_state(&self, tree: TreeId) -> Option<TreeState> {
        if self.base.trees.get(tree).is_some() {
            let built = self.position();
            return Some(TreeState::Complete { built });
        }
        let found = self.derived.iter().find(|derived| derived.id == tree)?;
        Some(match found.built {
            Some((built, _)) => TreeState::Complete { built },
            None => TreeState::Building,
        })
    }

    /// The trees that `apply` writes, and the log.
    pub fn base(&self) -> &BaseView {
        &self.base
    }

    /// Some trees of the view that `apply` writes, for lookups.
    ///
    /// # Errors
    /// `Invalid` for one that is not in the view.
    pub fn point_view(&self, trees: &[TreeId]) -> Result<PointView<'_>> {
        self.base.point_view(trees)
    }

    /// The record at a position.
    ///
    /// # Errors
    /// As of [`Log::read`](quire_log::Log::read).
    pub fn record(&self, position: Position) -> Result<Bytes> {
        self.base.record(position)
    }

    /// All records that the view sees and the log held when it was made, from the first on, in
    /// order.
    pub fn log(&self) -> impl Iterator<Item = Result<(Position, Bytes)>> + use<S> {
        self.log_from(Position(0))
    }

    /// Those of [`log`](View::log) from a position on.
    pub fn log_from(&self, from: Position) -> LogRecords {
        self.base.log_from(from)
    }
}
