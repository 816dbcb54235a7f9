//! Merging: memtables and runs, newest first, as one sequence with one folded entry per key, in order or in the reverse order.

use crate::Result;
use crate::direction::Direction;
use crate::fold::{Entry, Fold, Folder};
use crate::memtable::MemtableCursor;
use crate::run::RunCursor;
use std::cmp::Ordering;
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
    /// The sources that are on `key`, newest first.
    next: Vec<usize>,
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
            next: Vec::new(),
        }
    }

    /// The key of the entry that [`advance`](Self::advance) gave last.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The next key's entry, tombstones included; `None` at the end. After an error the merge is of no use.
    pub(crate) fn advance(&mut self) -> Result<Option<Entry>> {
        self.find_next();
        let mut fold = Fold::default();
        let mut done = false;
        for &index in &self.next {
            let Some(source) = self.sources.get_mut(index) else {
                continue;
            };
            // What lies below a value or tombstone is passed over unread.
            if !done && let Some(entry) = source.entry() {
                done = fold.push(&self.folder, &self.key, entry)?;
            }
            source.advance()?;
        }
        fold.finish(&self.folder, &self.key, self.bottom)
    }

    /// Finds the key that is next and the sources that are on it, with one comparison for each source but the first.
    fn find_next(&mut self) {
        self.next.clear();
        let mut first: Option<&[u8]> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let Some(key) = source.key() else {
                continue;
            };
            let order = match (first, self.direction) {
                (None, _) => Ordering::Less,
                (Some(first), Direction::Forwards) => key.cmp(first),
                (Some(first), Direction::Backwards) => first.cmp(key),
            };
            if order == Ordering::Less {
                first = Some(key);
                self.next.clear();
            }
            if order != Ordering::Greater {
                self.next.push(index);
            }
        }
        self.key.clear();
        self.key.extend_from_slice(first.unwrap_or_default());
    }
}
