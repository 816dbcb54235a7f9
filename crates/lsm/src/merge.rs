//! Merging: memtables and runs, newest first, as one sequence with one folded entry per key, in order or in the reverse order.

use crate::Result;
use crate::direction::Direction;
use crate::fold::{Entry, Fold, Folder};
use crate::memtable::MemtableCursor;
use crate::run::RunCursor;
use std::sync::Arc;

/// A sorted sequence of entries.
#[derive(Debug)]
pub(crate) enum Source {
    Memtable(MemtableCursor),
    Run(Box<RunCursor>),
}

impl Source {
    fn key(&self) -> Option<&[u8]> {
        match self {
            Source::Memtable(cursor) => cursor.key(),
            Source::Run(cursor) => cursor.key(),
        }
    }

    fn entry(&self) -> Option<Entry> {
        match self {
            Source::Memtable(cursor) => cursor.entry(),
            Source::Run(cursor) => cursor.entry(),
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Source::Memtable(cursor) => {
                cursor.advance();
                Ok(())
            }
            Source::Run(cursor) => cursor.advance(),
        }
    }
}

/// Merges sources. A few of them (memtables, and a logarithm of runs), so the key that is next is found by looking at all.
#[derive(Debug)]
pub(crate) struct Merge {
    sources: Vec<Source>,
    direction: Direction,
    folder: Arc<Folder>,
    bottom: bool,
    key: Vec<u8>,
}

impl Merge {
    /// Merges `sources`, newest first, all of which go one way. `bottom`: no older source exists, so operands are folded to values.
    pub(crate) fn new(
        sources: Vec<Source>,
        direction: Direction,
        folder: Arc<Folder>,
        bottom: bool,
    ) -> Merge {
        Merge {
            sources,
            direction,
            folder,
            bottom,
            key: Vec::new(),
        }
    }

    /// The key of the entry that [`advance`](Self::advance) gave last.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The next key's entry, tombstones included; `None` at the end. After an error the merge is of no use.
    pub(crate) fn advance(&mut self) -> Result<Option<Entry>> {
        let keys = self.sources.iter().filter_map(Source::key);
        let next = match self.direction {
            Direction::Forwards => keys.min(),
            Direction::Backwards => keys.max(),
        };
        let Some(next) = next else {
            return Ok(None);
        };
        self.key.clear();
        self.key.extend_from_slice(next);
        let mut fold = Fold::default();
        let mut done = false;
        for source in &mut self.sources {
            if source.key() != Some(&self.key) {
                continue;
            }
            // What lies below a value or tombstone is passed over unread.
            if !done && let Some(entry) = source.entry() {
                done = fold.push(&self.folder, &self.key, entry)?;
            }
            source.advance()?;
        }
        fold.finish(&self.folder, &self.key, self.bottom)
    }
}
