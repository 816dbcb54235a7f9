//! What a partition keeps in memory about moves between tiers: figures, which rows are to come
//! back, and how often cold ones were read. All of it is bounded, and a crash may forget it.

use crate::GROUPS_MAX;
use parking_lot::Mutex;
use quire_model::DocId;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

/// The most rows that wait to come back; a pass finds the others.
const WANTED_MAX: usize = 1 << 16;

/// The most counters of reads. When there are as many, all begin anew.
const READS_MAX: usize = 1 << 16;

/// Figures of a group about its tiers. Events are counted since the partition was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierFigures {
    /// Rows whose cells are in the cold tier.
    pub rows_cold: u64,
    /// Rows whose cells have moved to the cold tier.
    pub moved_cold: u64,
    /// Rows whose cells have come back.
    pub moved_hot: u64,
    /// Bytes of cells that have moved.
    pub bytes_moved: u64,
    /// Rows that the last pass left where they were, as they have too many bytes of cells.
    pub too_large: u64,
    /// By how long the row that was due first was overdue in the last pass, in microseconds.
    pub lag_micros: u64,
}

#[derive(Debug, Default)]
struct Counters {
    moved_cold: AtomicU64,
    moved_hot: AtomicU64,
    bytes_moved: AtomicU64,
    too_large: AtomicU64,
    lag_micros: AtomicU64,
}

/// The work on tiers of a partition.
#[derive(Debug, Default)]
pub(crate) struct TierWork {
    /// Rows that may have to come back, and the groups of which because they were read.
    wanted: Mutex<BTreeMap<DocId, u16>>,
    reads: Mutex<HashMap<(DocId, u8), u32>>,
    counters: [Counters; GROUPS_MAX],
    stopped: Mutex<Option<String>>,
}

impl TierWork {
    /// Has the next step look at a row: its cold cells were written, or those of `read` groups were
    /// read often.
    pub(crate) fn want(&self, docid: DocId, read: u16) {
        let mut wanted = self.wanted.lock();
        if wanted.len() < WANTED_MAX || wanted.contains_key(&docid) {
            *wanted.entry(docid).or_default() |= read;
        }
    }

    pub(crate) fn take_wanted(&self) -> Option<(DocId, u16)> {
        self.wanted.lock().pop_first()
    }

    pub(crate) fn is_wanted(&self) -> bool {
        !self.wanted.lock().is_empty()
    }

    /// Counts a read of cold cells; the `reads`th has them come back.
    pub(crate) fn note_read(&self, docid: DocId, group: u8, reads: u32) {
        let mut counts = self.reads.lock();
        if counts.len() >= READS_MAX {
            counts.clear();
        }
        let count = counts.entry((docid, group)).or_default();
        *count += 1;
        if *count >= reads {
            counts.remove(&(docid, group));
            drop(counts);
            self.want(docid, 1 << group);
        }
    }

    pub(crate) fn note_moved(&self, group: u8, to_cold: bool, bytes: u64) {
        let Some(counters) = self.counters.get(usize::from(group)) else {
            return;
        };
        let rows = match to_cold {
            true => &counters.moved_cold,
            false => &counters.moved_hot,
        };
        rows.fetch_add(1, Ordering::Relaxed);
        counters.bytes_moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes what a whole pass found of a group.
    pub(crate) fn note_pass(&self, group: usize, too_large: u64, lag_micros: u64) {
        if let Some(counters) = self.counters.get(group) {
            counters.too_large.store(too_large, Ordering::Relaxed);
            counters.lag_micros.store(lag_micros, Ordering::Relaxed);
        }
    }

    /// Why cells do not move, if they do not.
    pub(crate) fn note_stopped(&self, why: Option<String>) {
        *self.stopped.lock() = why;
    }

    pub(crate) fn stopped(&self) -> Option<String> {
        self.stopped.lock().clone()
    }

    pub(crate) fn figures(&self, group: usize, rows_cold: u64) -> TierFigures {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counters = self.counters.get(group);
        counters.map_or_else(TierFigures::default, |counters| TierFigures {
            rows_cold,
            moved_cold: load(&counters.moved_cold),
            moved_hot: load(&counters.moved_hot),
            bytes_moved: load(&counters.bytes_moved),
            too_large: load(&counters.too_large),
            lag_micros: load(&counters.lag_micros),
        })
    }
}
