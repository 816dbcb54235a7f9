//! Reading: views, point views and the log's tail, each as of one published position.

use crate::store::{Inner, Store};
use crate::trees::{Slot, TreeUse};
use crate::view::{DerivedSnapshot, DerivedSnapshots, Readers};
use crate::{BaseView, Error, Machine, PointView, Result, TreeId, TreeSnapshots, View};
use quire_lsm::{Tree, TreeReader, TreeSnapshot, wall_clock_micros};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// To find this number of trees of a view needs no memory.
const FOUND: usize = 4;

/// Trees of a view.
type Slots<'a> = SmallVec<[&'a Slot; FOUND]>;

impl<M: Machine> Store<M> {
    /// A consistent read of everything acknowledged so far, of all trees that `apply` writes. Waits
    /// for no write, and for whatever publishes one a moment at most.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn view(&self) -> Result<Arc<View<M::Summary>>> {
        let trees = self.inner.trees.applied().iter().map(|slot| slot.id);
        let trees: SmallVec<[TreeId; FOUND]> = trees.collect();
        self.view_of(&trees)
    }

    /// As [`view`](Self::view), of these trees alone, derived ones too: nothing of the others is
    /// held.
    ///
    /// # Errors
    /// [`Error::Closed`]; `Invalid` if there is no such tree.
    pub fn view_of(&self, trees: &[TreeId]) -> Result<Arc<View<M::Summary>>> {
        let inner = &*self.inner;
        inner.check_open()?;
        let (applied, derived) = inner.slots(trees)?;
        // Once for all trees: what expires does so in all of them, and a reading costs 50 ns.
        let now = inner.wall_clock();
        loop {
            // Before the published position: derived trees are never past that.
            let built = inner.derived_position();
            let published = inner.publisher.current();
            let base = inner.view_of_slots(&applied, published.position, now);
            if base.is_in_time()
                && let Some(derived) =
                    snapshots_of_derived(&derived, built, |tree| tree.snapshot_by(built, now))
            {
                return Ok(Arc::new(View {
                    base,
                    summary: published.summary,
                    derived,
                }));
            }
        }
    }

    /// As [`view_of`](Self::view_of), after a flush, of what that has put into files: it holds no
    /// memtable, so no writer waits for its end. For reads that take long.
    ///
    /// # Errors
    /// As of [`view_of`](Self::view_of) and [`flush`](Self::flush).
    pub fn flushed_view_of(&self, trees: &[TreeId]) -> Result<Arc<View<M::Summary>>> {
        let inner = &*self.inner;
        inner.check_open()?;
        let (applied, derived) = inner.slots(trees)?;
        inner.flush_then(|position, summary| {
            let now = inner.wall_clock();
            let of_runs = |tree: &Tree| {
                let snapshot = tree.snapshot_of_runs(now);
                assert!(
                    snapshot.flushed() <= position && tree.frozen_bytes() == 0,
                    "a flush leaves nothing frozen, and nothing later is in the files"
                );
                snapshot
            };
            // Before the trees, for the reason that views at a position have.
            let log = inner.log.view();
            let trees = applied.iter().map(|slot| (slot.id, of_runs(&slot.tree)));
            let base = BaseView {
                position,
                time_micros: now,
                trees: TreeSnapshots(trees.collect()),
                log,
            };
            let derived = loop {
                // Again if one was given up meanwhile.
                if let Some(derived) = snapshots_of_derived(&derived, position, of_runs) {
                    break derived;
                }
            };
            Arc::new(View {
                base,
                summary,
                derived,
            })
        })
    }

    /// A tree of a [`view`](Self::view) alone, without the log: no segment is held.
    ///
    /// # Errors
    /// [`Error::Closed`]; `Invalid` for a tree that `apply` does not write.
    pub fn tree_snapshot(&self, tree: TreeId) -> Result<TreeSnapshot> {
        let inner = &*self.inner;
        inner.check_open()?;
        let slot = inner.trees.get_applied(tree)?;
        loop {
            let position = inner.publisher.position();
            let snapshot = slot.tree.snapshot(seen_at(position));
            if in_time(snapshot.flushed(), position) {
                return Ok(snapshot);
            }
        }
    }

    /// A consistent read of some trees, for a few lookups at once.
    ///
    /// # Errors
    /// [`Error::Closed`]; `Invalid` for a tree that `apply` does not write.
    pub fn point_view(&self, trees: &[TreeId]) -> Result<PointView<'_>> {
        let inner = &*self.inner;
        inner.check_open()?;
        loop {
            let position = inner.publisher.position();
            // In the order in which a view is made, and for its reasons.
            let log = inner.log.reader();
            let mut readers = Readers::new();
            for id in trees {
                let reader = inner.trees.get_applied(*id)?.tree.reader(seen_at(position));
                readers.push((*id, reader));
            }
            if readers
                .iter()
                .all(|(_, tree)| in_time(tree.flushed(), position))
            {
                return Ok(PointView {
                    position,
                    trees: readers,
                    log,
                });
            }
        }
    }

    /// A tree of [`point_view`](Self::point_view) alone.
    ///
    /// # Errors
    /// As of [`point_view`](Self::point_view).
    pub fn point_view_at(&self, tree: TreeId) -> Result<TreeReader<'_>> {
        let inner = &*self.inner;
        inner.check_open()?;
        let slot = inner.trees.get_applied(tree)?;
        loop {
            let position = inner.publisher.position();
            let reader = slot.tree.reader(seen_at(position));
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
    /// Trees that are to be read: those that `apply` writes, and derived ones.
    fn slots(&self, trees: &[TreeId]) -> Result<(Slots<'_>, Slots<'_>)> {
        let (mut applied, mut derived) = (Slots::new(), Slots::new());
        for id in trees {
            match self.trees.find_applied(*id) {
                Some(slot) => applied.push(slot),
                None => derived.push(self.trees.get(*id)?),
            }
        }
        if !derived.is_empty() {
            self.note_read();
        }
        Ok((applied, derived))
    }

    /// The position that derived trees are at, for readers.
    pub(crate) fn derived_position(&self) -> Position {
        Position(self.derived.load(Ordering::Acquire))
    }

    /// The time by which a view sees what has expired: microseconds since 1970 UTC.
    pub(crate) fn wall_clock(&self) -> u64 {
        wall_clock_micros(&**self.shared.env())
    }

    /// All trees that `apply` writes, as of what is published.
    pub(crate) fn base_view(&self) -> Result<BaseView> {
        loop {
            self.check_open()?;
            if let Some(view) = self.base_view_at(self.publisher.position()) {
                return Ok(view);
            }
        }
    }

    /// All trees that `apply` writes, as of `position`.
    pub(crate) fn base_view_at(&self, position: Position) -> Option<BaseView> {
        let slots: SmallVec<[&Slot; FOUND]> = self.trees.applied().iter().collect();
        let view = self.view_of_slots(&slots, position, self.wall_clock());
        view.is_in_time().then_some(view)
    }

    /// Some trees at `position`, which was published before: to be used only if it is
    /// [in time](BaseView::is_in_time).
    #[inline]
    fn view_of_slots(&self, slots: &[&Slot], position: Position, now: u64) -> BaseView {
        // Before the trees: what compaction has taken from these segments was superseded by what is
        // in the trees' files, so that the check of these holds for the log too.
        let log = self.log.view();
        let at = seen_at(position);
        let snapshots = slots
            .iter()
            .map(|slot| (slot.id, slot.tree.snapshot_by(at, now)));
        BaseView {
            position,
            time_micros: now,
            trees: TreeSnapshots(snapshots.collect()),
            log,
        }
    }
}

impl BaseView {
    /// Whether it shows its position alone. A flush that was installed since that was published may
    /// have put later records into the files. What it flushed was published first, so a try with
    /// the next position sees it.
    #[inline]
    fn is_in_time(&self) -> bool {
        let mut trees = self.trees.0.iter();
        trees.all(|(_, tree)| in_time(tree.flushed(), self.position))
    }
}

/// Derived trees as they are when all are built up to `built`, each as `snapshot_of` gives it;
/// `None` if that has changed meanwhile.
fn snapshots_of_derived(
    slots: &[&Slot],
    built: Position,
    snapshot_of: impl Fn(&Tree) -> TreeSnapshot,
) -> Option<DerivedSnapshots> {
    let snapshot = |slot: &&Slot| {
        // After `built`: a tree that a step to that position has left broken is not used.
        let seen = slot.seen();
        let snapshot = match seen.used() {
            TreeUse::Derived => Some((built, snapshot_of(&slot.tree))),
            _ => None,
        };
        let flushed = snapshot.as_ref().map(|(_, tree)| tree.flushed());
        let is_current = slot.seen() == seen && flushed.is_none_or(|at| in_time(at, built));
        is_current.then_some(DerivedSnapshot {
            id: slot.id,
            seen,
            built: snapshot,
        })
    };
    slots.iter().map(snapshot).collect()
}

/// Whether a tree whose files hold all up to `flushed` can show `position` alone.
fn in_time(flushed: Position, position: Position) -> bool {
    flushed <= position || seeded(Bug::ViewOfLaterFlush)
}

/// The position of the snapshots that a view at `position` is made of.
fn seen_at(position: Position) -> Position {
    match seeded(Bug::ViewSeesLaterWrites) {
        true => Position(u64::MAX),
        false => position,
    }
}
