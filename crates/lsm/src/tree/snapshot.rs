//! Snapshot: a tree as it was at a position, to keep or for a few lookups.

use super::scan::Scan;
use super::version::Version;
use crate::Result;
use crate::fold::Folder;
use arc_swap::Guard;
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
        self.version.get(&self.folder, key, self.at)
    }

    /// The values of `keys`, in their order. Looked up in key order, so that neighbours find their blocks in the cache.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        self.version.get_many(&self.folder, keys, self.at)
    }

    /// The entries from `from` to `to`, in key order. The scan holds what the snapshot holds, on its own.
    ///
    /// # Errors
    /// `Corrupt`, or those of the machine.
    pub fn scan(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Scan> {
        Scan::open(&self.version, Arc::clone(&self.folder), self.at, from, to)
    }
}

/// A tree as it was at a position, like a [`TreeSnapshot`], for lookups that are over soon: making one touches no count
/// that other threads touch. A thread that keeps more than a few makes the next ones dearer.
#[derive(Debug)]
pub struct TreeReader<'a> {
    version: Guard<Arc<Version>>,
    folder: &'a Folder,
    at: Position,
}

impl<'a> TreeReader<'a> {
    pub(super) fn new(
        version: Guard<Arc<Version>>,
        folder: &'a Folder,
        at: Position,
    ) -> TreeReader<'a> {
        TreeReader {
            version,
            folder,
            at,
        }
    }

    /// As of [`TreeSnapshot::flushed`].
    pub fn flushed(&self) -> Position {
        self.version.flushed
    }

    /// As of [`TreeSnapshot::get`].
    ///
    /// # Errors
    /// As of [`TreeSnapshot::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.version.get(self.folder, key, self.at)
    }

    /// As of [`TreeSnapshot::get_many`].
    ///
    /// # Errors
    /// As of [`TreeSnapshot::get`].
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>> {
        self.version.get_many(self.folder, keys, self.at)
    }
}
