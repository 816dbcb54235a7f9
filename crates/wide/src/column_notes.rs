//! What a partition keeps in memory about moves of columns: rows that were written behind the place
//! of a move, and figures. All of it is bounded, and a crash may forget it.

use parking_lot::Mutex;
use quire_model::{DocId, Position};
use quire_seeded::{Bug, seeded};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

/// The most rows that are noted. If there are more, a move waits for a newer view.
const NOTED_MAX: usize = 1 << 16;

/// What a partition keeps in memory about moves of columns.
#[derive(Debug, Default)]
pub(crate) struct ColumnWork {
    /// Held by what moves cells or removes expired ones.
    pub(crate) alone: Mutex<()>,
    noted: Mutex<Noted>,
    pub(crate) cells: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// Rows that were written behind the place of a move.
#[derive(Debug, Default)]
struct Noted {
    /// With the position of the newest write.
    rows: BTreeMap<DocId, Position>,
    /// The newest write that had no room in `rows`.
    left_out: Option<Position>,
}

impl ColumnWork {
    /// Notes that a cell of a column that moves was written in a row behind the place.
    pub(crate) fn note(&self, docid: DocId, position: Position) {
        let mut noted = self.noted.lock();
        match noted.rows.len() < NOTED_MAX || noted.rows.contains_key(&docid) {
            true => drop(noted.rows.insert(docid, position)),
            false => noted.left_out = Some(position),
        }
    }

    /// Forgets what a view sees.
    pub(crate) fn forget(&self, seen: Position) {
        let mut noted = self.noted.lock();
        noted.rows.retain(|_, position| *position > seen);
        noted.left_out = noted.left_out.filter(|position| *position > seen);
    }

    /// The first row between two that was written after a view.
    pub(crate) fn written(&self, from: DocId, to: DocId, seen: Position) -> Option<DocId> {
        if seeded(Bug::MovePassesWritten) {
            return None;
        }
        let noted = self.noted.lock();
        if noted.left_out.is_some_and(|position| position > seen) {
            return Some(from);
        }
        let mut rows = noted.rows.range(from..to);
        rows.find(|(_, position)| **position > seen)
            .map(|(docid, _)| *docid)
    }
}
