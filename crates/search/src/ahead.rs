//! [`Ahead`]: changes that a writer made ready for queries before any view has them.
//!
//! The first query after a batch of writes reads its records, and takes values out of its
//! documents: more work than the rest of the query. The writer has the documents at hand. It does
//! that work between applying the batch and acknowledging it, where queries go on.
//!
//! # Invariants
//! 1. An entry has all changes after its beginning up to its end, as if a query had read them: it
//!    continues what queries knew, or the entry before it, without a gap.
//! 2. A query takes an entry whose end its view has, and no later one.
//! 3. Nothing is made ready unless a query came since the last time.
//! 4. What queries replace is freed by the next writer: it may be thousands of documents, whose
//!    memory takes as long to free as a query.
//! 5. There are at most [`ENTRIES_MAX`] entries, and as many that were replaced. They are charged
//!    to the budget of changes.

use super::cached_changes::CachedChanges;
use parking_lot::Mutex;
use quire_env::Charge;
use quire_model::Position;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

/// Entries: writes that are applied and not acknowledged, or not queried yet.
const ENTRIES_MAX: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// A query came since changes were made ready.
    has_queries: AtomicBool,
    /// Ascending by their ends.
    entries: Mutex<VecDeque<(CachedChanges, Charge)>>,
    replaced: Mutex<Vec<(CachedChanges, Charge)>>,
}

impl Ahead {
    /// Notes that a query came.
    pub(crate) fn note_query(&self) {
        // Most find it set: they share the line of the cache.
        if !self.has_queries.load(Ordering::Relaxed) {
            self.has_queries.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a query came since changes were made ready.
    pub(crate) fn has_queries(&self) -> bool {
        self.has_queries.load(Ordering::Relaxed)
    }

    /// The same; from now on none came.
    pub(crate) fn take_queries(&self) -> bool {
        self.has_queries.swap(false, Ordering::Relaxed)
    }

    /// The newest entry, whether any view has its end or not; an error if there is no room for
    /// another one.
    pub(crate) fn newest(&self) -> Result<Option<CachedChanges>, Full> {
        let entries = self.entries.lock();
        match entries.len() < ENTRIES_MAX {
            true => Ok(entries.back().map(|(changes, _)| changes.clone())),
            false => Err(Full),
        }
    }

    /// Adds an entry, which continues the newest one or what queries know.
    pub(crate) fn push(&self, changes: CachedChanges, charge: Charge) {
        let mut entries = self.entries.lock();
        let before = entries.back().map(|(before, _)| before.to);
        // Another writer may have been faster.
        if before.is_none_or(|before| before < changes.to) && entries.len() < ENTRIES_MAX {
            entries.push_back((changes, charge));
        }
    }

    /// The newest entry that a view of a position may use.
    pub(crate) fn up_to(&self, to: Position) -> Option<CachedChanges> {
        let entries = self.entries.lock();
        let mut newest_first = entries.iter().rev().map(|(changes, _)| changes);
        newest_first.find(|changes| changes.to <= to).cloned()
    }

    /// Drops the entries that say no more than what is known up to a position.
    pub(crate) fn drop_up_to(&self, to: Position) {
        let mut entries = self.entries.lock();
        while entries.front().is_some_and(|(changes, _)| changes.to <= to) {
            entries.pop_front();
        }
    }

    /// Keeps what a query replaced until a writer comes, if there is room.
    pub(crate) fn replaced(&self, changes: CachedChanges, mut charge: Charge) {
        let is_charged = charge.try_resize(changes.changed.newest_bytes() as u64);
        let mut replaced = self.replaced.lock();
        if is_charged && replaced.len() < ENTRIES_MAX {
            replaced.push((changes, charge));
        }
    }

    /// Frees what queries replaced.
    pub(crate) fn free_replaced(&self) {
        // Without the lock.
        drop(std::mem::take(&mut *self.replaced.lock()));
    }

    /// Drops all.
    pub(crate) fn clear(&self) {
        self.entries.lock().clear();
        self.free_replaced();
    }
}

/// There are as many entries as there may be.
#[derive(Debug)]
pub(crate) struct Full;
