//! Deleted ranges: the deletions of ranges that a memtable has, as of every position.
//!
//! Each deletion makes new [`RangeTombstones`], which share most of their nodes with those of
//! before; all are kept, with their positions, for snapshots at older ones. The mark of a range is
//! the number that the next cell had: cells are numbered in the order in which they are written, so
//! a version with a smaller number is older than the deletion, also in one record, which has one
//! position.
//!
//! The one writer fills a slot and publishes the count with release; readers load that with
//! acquire, and take no lock.

use super::pages::Pages;
use crate::range_tombstones::RangeTombstones;
use quire_model::Position;
use quire_sync::atomic::{AtomicU32, Ordering};
use quire_sync::{OnceLock, sized};

#[derive(Debug)]
pub(super) struct DeletedRanges {
    count: AtomicU32,
    states: Pages<OnceLock<(Position, RangeTombstones)>, { sized(256, 4) }>,
}

impl DeletedRanges {
    pub(super) fn new() -> DeletedRanges {
        DeletedRanges {
            count: AtomicU32::new(0),
            states: Pages::new(),
        }
    }

    /// Whether no range was ever deleted.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn state(&self, index: u32) -> Option<&(Position, RangeTombstones)> {
        self.states.get(index)?.get()
    }

    /// The ranges that were deleted up to `at`; `None` if there are none.
    pub(super) fn at(&self, at: Position) -> Option<&RangeTombstones> {
        let (mut low, mut high) = (0, self.count.load(Ordering::Acquire));
        // Mostly it is the last.
        let mut middle = high.checked_sub(1)?;
        while low < high {
            match self.state(middle) {
                Some((position, _)) if *position <= at => low = middle + 1,
                _ => high = middle,
            }
            middle = low + (high - low) / 2;
        }
        self.state(low.checked_sub(1)?)
            .map(|(_, tombstones)| tombstones)
    }

    /// Adds the deletion of a range. One caller at a time, positions and marks ascending. Returns
    /// the bytes this took.
    pub(super) fn add(&self, position: Position, from: &[u8], to: &[u8], mark: u32) -> u64 {
        let count = self.count.load(Ordering::Relaxed);
        let mut tombstones = match count.checked_sub(1).and_then(|last| self.state(last)) {
            Some((_, tombstones)) => tombstones.clone(),
            None => RangeTombstones::default(),
        };
        let grown = tombstones.add(from, to, mark) + self.states.grow(count);
        if let Some(slot) = self.states.get(count) {
            slot.get_or_init(|| (position, tombstones));
        }
        self.count.store(count + 1, Ordering::Release);
        grown
    }
}
