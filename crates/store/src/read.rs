//! Reading: views, point views and the log's tail, each as of one published position.

use crate::store::{Inner, Store};
use crate::view::TREES;
use crate::{Error, Machine, PointView, Result, View};
use quire_lsm::{TreeReader, TreeSnapshot};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use smallvec::SmallVec;

impl<M: Machine> Store<M> {
    /// A consistent read of everything acknowledged so far. Waits for no write, and for whoever
    /// publishes one a moment at most.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn view(&self) -> Result<View<M::Summary>> {
        let inner = &*self.inner;
        inner.check_open()?;
        loop {
            let published = inner.publisher.current();
            // Before the trees: what compaction has taken from these segments was superseded by
            // what is in the trees' files, so that the check of these covers the log too.
            let log = inner.log.view();
            if let Some(trees) = inner.snapshots(published.position) {
                return Ok(View {
                    position: published.position,
                    summary: published.summary.clone(),
                    trees,
                    log,
                });
            }
        }
    }

    /// The trees of a [`view`](Self::view), in the order of [`Machine::trees`], without the log: no
    /// segment is held.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn view_of_trees(&self) -> Result<Vec<TreeSnapshot>> {
        let inner = &*self.inner;
        inner.check_open()?;
        loop {
            if let Some(trees) = inner.snapshots(inner.publisher.position()) {
                return Ok(trees);
            }
        }
    }

    /// A consistent read as of [`view`](Self::view), for a few lookups at once.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn point_view(&self) -> Result<PointView<'_>> {
        let inner = &*self.inner;
        inner.check_open()?;
        loop {
            let position = inner.publisher.position();
            // In the order in which a view is made, and for its reasons.
            let log = inner.log.reader();
            let trees: SmallVec<[_; TREES]> = inner
                .trees
                .iter()
                .map(|tree| tree.reader(seen_at(position)))
                .collect();
            if trees.iter().all(|tree| in_time(tree.flushed(), position)) {
                return Ok(PointView {
                    position,
                    trees,
                    log,
                });
            }
        }
    }

    /// A tree of [`point_view`](Self::point_view) alone, by its number in [`Machine::trees`].
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn point_view_at(&self, tree: usize) -> Result<TreeReader<'_>> {
        let inner = &*self.inner;
        inner.check_open()?;
        loop {
            let position = inner.publisher.position();
            let reader = inner.trees[tree].reader(seen_at(position));
            if in_time(reader.flushed(), position) {
                return Ok(reader);
            }
        }
    }

    /// The last position that views see.
    pub fn position(&self) -> Position {
        self.inner.publisher.position()
    }

    /// The records after `seen` that are visible now, in order. Those that compaction has removed
    /// are passed over: each was superseded by one that comes later.
    ///
    /// # Errors
    /// `Gone` if the log no longer holds the first of them.
    pub fn tail(
        &self,
        seen: Position,
    ) -> Result<impl Iterator<Item = Result<(Position, bytes::Bytes)>> + use<M>> {
        self.inner.check_open()?;
        // In this order: what compaction has taken was superseded by a record that is visible.
        let log = self.inner.log.view();
        let end = self.position();
        if seen.next() < log.first() && seen < end {
            // Say so at once, not at the first record read.
            log.read(seen.next())?;
        }
        let scan = log.scan(seen.next()).until(end);
        Ok(scan.map(|item| item.map_err(Error::from)))
    }
}

impl<M: Machine> Inner<M> {
    /// The trees at `position`, which was published before. A flush that was installed since may
    /// have put later records into the files: `None` then. What it flushed was published first, so
    /// a try with the next position sees it.
    fn snapshots(&self, position: Position) -> Option<Vec<TreeSnapshot>> {
        let at = seen_at(position);
        let trees: Vec<_> = self.trees.iter().map(|tree| tree.snapshot(at)).collect();
        let all = trees.iter().all(|tree| in_time(tree.flushed(), position));
        all.then_some(trees)
    }
}

/// Whether a tree whose files hold all up to `flushed` can show `position` alone.
fn in_time(flushed: Position, position: Position) -> bool {
    flushed <= position || seeded(Bug::ViewOfLaterFlush)
}

/// What trees are asked for when a view is made at `position`.
fn seen_at(position: Position) -> Position {
    match seeded(Bug::ViewSeesLaterWrites) {
        true => Position(u64::MAX),
        false => position,
    }
}
