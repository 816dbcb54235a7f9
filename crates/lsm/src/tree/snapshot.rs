//! Snapshot: a tree as it was at a position.

use super::scan::Scan;
use super::version::Version;
use crate::Result;
use crate::fold::{Fold, Folder};
use crate::table;
use bytes::Bytes;
use quire_model::Position;
use std::ops::Bound;
use std::sync::Arc;

/// A tree as it was at a position: later writes, flushes and compactions do not show. Holds memory and files until it is
/// dropped. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TreeSnapshot {
    version: Arc<Version>,
    folder: Arc<Folder>,
    at: Position,
}

impl TreeSnapshot {
    pub(super) fn new(version: Arc<Version>, folder: Arc<Folder>, at: Position) -> TreeSnapshot {
        TreeSnapshot {
            version,
            folder,
            at,
        }
    }

    /// The position it shows.
    pub fn position(&self) -> Position {
        self.at
    }

    /// The newest write that this opening of the tree had put into a run when the snapshot was taken; `Position(0)` if
    /// none. If it is past [`position`](Self::position), the snapshot came too late to show its position alone.
    pub fn flushed(&self) -> Position {
        self.version.flushed
    }

    /// The value of `key`. It shares memory with the block or memtable entry it is from: copy it to keep it for long.
    ///
    /// # Errors
    /// `Corrupt`, `Merge`, or those of the machine.
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let mut fold = Fold::default();
        if !self.fold_memtables(key, &mut fold)? && !self.version.runs.is_empty() {
            let hash = table::hash(key);
            for run in &self.version.runs {
                if let Some(entry) = run.get(key, hash)?
                    && fold.push(&self.folder, key, entry)?
                {
                    break;
                }
            }
        }
        let entry = fold.finish(&self.folder, key, true)?;
        Ok(entry.and_then(|entry| entry.into_value()))
    }

    /// Adds what the memtables say; true if nothing older matters.
    fn fold_memtables(&self, key: &[u8], fold: &mut Fold) -> Result<bool> {
        for memtable in self.version.memtables() {
            if let Some(entry) = memtable.get(key, self.at)
                && fold.push(&self.folder, key, entry.clone())?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The values of `keys`, in their order. Looked up in key order, so that neighbours find their blocks in the cache.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        let mut order: Vec<_> = keys.iter().enumerate().collect();
        order.sort_unstable_by_key(|(_, key)| **key);
        let mut values = vec![None; keys.len()];
        for (index, key) in order {
            if let Some(slot) = values.get_mut(index) {
                *slot = self.get(key)?;
            }
        }
        Ok(values)
    }

    /// The entries from `from` to `to`, in key order. The scan holds what the snapshot holds, on its own.
    ///
    /// # Errors
    /// `Corrupt`, or those of the machine.
    pub fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Scan> {
        Scan::open(&self.version, Arc::clone(&self.folder), self.at, from, to)
    }
}
