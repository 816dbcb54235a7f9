//! Merging: memtables and runs, newest first, as one sequence with one entry per key, in order or in the reverse order.
//!
//! The oldest run holds most of the entries, and mostly several that nothing newer lies between. So the source that is next is
//! asked again as long as it stays before the others, which takes one comparison of machine words an entry, and what only
//! one source says of a key is lent as it lies there. Operands, and what several say, are folded.

use crate::Result;
use crate::direction::Direction;
use crate::fences;
use crate::fold::{Entry, Fold, Folder, Kind};
use crate::memtable::MemtableCursor;
use crate::run::RunCursor;
use std::cmp::Ordering;
use std::sync::Arc;

/// A sorted sequence of entries.
#[derive(Debug)]
pub(crate) enum Source {
    Memtable(Box<MemtableCursor>),
    Run(Box<RunCursor>),
}

impl Source {
    #[inline]
    fn key(&self) -> Option<&[u8]> {
        match self {
            Source::Memtable(cursor) => cursor.key(),
            Source::Run(cursor) => cursor.key(),
        }
    }

    /// The first eight bytes of the key.
    #[inline]
    fn word(&self) -> Option<u64> {
        match self {
            Source::Memtable(cursor) => cursor.key().map(fences::word),
            Source::Run(cursor) => cursor.word(),
        }
    }

    #[inline]
    fn kind(&self) -> Kind {
        match self {
            Source::Memtable(cursor) => cursor.kind(),
            Source::Run(cursor) => cursor.kind(),
        }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        match self {
            Source::Memtable(cursor) => cursor.value(),
            Source::Run(cursor) => cursor.value(),
        }
    }

    fn entry(&self) -> Option<Entry> {
        match self {
            Source::Memtable(cursor) => cursor.entry(),
            Source::Run(cursor) => cursor.entry(),
        }
    }

    #[inline]
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

/// When a source comes next.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// The first eight bytes of its key, as [`on_the_way`] has them.
    word: u64,
    /// Its number: less is newer.
    source: usize,
}

/// What a merge is on.
#[derive(Debug)]
enum On {
    Nothing,
    /// The entry of the source that is next.
    Next,
    /// An entry that was folded, of `key`: its sources have moved on.
    Folded(Entry),
}

/// Merges sources: a few of them, memtables and a logarithm of runs.
#[derive(Debug)]
pub(crate) struct Merge {
    /// Newest first.
    sources: Vec<Source>,
    /// The sources that are not at their end, the next one last; of those that are on one key, the newest.
    turns: Vec<Turn>,
    direction: Direction,
    folder: Arc<Folder>,
    bottom: bool,
    key: Vec<u8>,
    on: On,
}

/// Makes numbers that never descend on the way of the first eight bytes of keys.
#[inline]
fn on_the_way(word: u64, direction: Direction) -> u64 {
    match direction {
        Direction::Forwards => word,
        Direction::Backwards => !word,
    }
}

impl Merge {
    /// Merges `sources`, newest first, all of which go one way. `bottom`: no older source exists, so operands are folded to values.
    pub(crate) fn new(
        sources: Vec<Source>,
        direction: Direction,
        folder: Arc<Folder>,
        bottom: bool,
    ) -> Merge {
        let mut merge = Merge {
            turns: Vec::with_capacity(sources.len()),
            sources,
            direction,
            folder,
            bottom,
            key: Vec::new(),
            on: On::Nothing,
        };
        for source in 0..merge.sources.len() {
            if let Some(word) = merge.sources.get(source).and_then(Source::word) {
                let word = on_the_way(word, direction);
                merge.add(Turn { word, source });
            }
        }
        merge
    }

    /// The key of the entry that it is on.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match (&self.on, self.next()) {
            (On::Next, Some(source)) => source.key().unwrap_or_default(),
            _ => &self.key,
        }
    }

    /// The kind of the entry that it is on.
    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        match (&self.on, self.next()) {
            (On::Folded(entry), _) => entry.kind,
            (On::Next, Some(source)) => source.kind(),
            _ => Kind::Delete,
        }
    }

    /// The value of the entry that it is on.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        match (&self.on, self.next()) {
            (On::Folded(entry), _) => &entry.value,
            (On::Next, Some(source)) => source.value(),
            _ => &[],
        }
    }

    /// The entry that it is on, to keep.
    pub(crate) fn entry(&self) -> Option<Entry> {
        match &self.on {
            On::Folded(entry) => Some(entry.clone()),
            On::Next => self.next()?.entry(),
            On::Nothing => None,
        }
    }

    /// Moves on to the next key's entry, tombstones included; false at the end. After an error the merge is of no use.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if let On::Next = self.on {
            self.step()?;
        } else {
            self.on = On::Nothing;
        }
        let (Some(turn), Some(next)) = (self.turns.last(), self.next()) else {
            self.on = On::Nothing;
            return Ok(false);
        };
        let alike = |second: Turn| {
            second.word == turn.word && self.key_of(second.source) == self.key_of(turn.source)
        };
        if next.kind() == Kind::Merge || self.second().is_some_and(alike) {
            self.fold()?;
        } else {
            self.on = On::Next;
        }
        Ok(true)
    }

    /// The source that is next.
    #[inline]
    fn next(&self) -> Option<&Source> {
        self.sources.get(self.turns.last()?.source)
    }

    /// The source that is next after that one.
    #[inline]
    fn second(&self) -> Option<Turn> {
        let second = self.turns.len().checked_sub(2)?;
        self.turns.get(second).copied()
    }

    fn key_of(&self, source: usize) -> Option<&[u8]> {
        self.sources.get(source)?.key()
    }

    /// Moves the source that is next on, and finds which is next then.
    #[inline]
    fn step(&mut self) -> Result<()> {
        let Some(next) = self.turns.last_mut() else {
            return Ok(());
        };
        let Some(source) = self.sources.get_mut(next.source) else {
            return Ok(());
        };
        source.advance()?;
        match source.word() {
            Some(word) => next.word = on_the_way(word, self.direction),
            None => {
                self.turns.pop();
                return Ok(());
            }
        }
        let next = *next;
        let overtaken = |second: Turn| {
            second.word < next.word
                || second.word == next.word && self.compare(&second, &next) == Ordering::Less
        };
        if self.second().is_some_and(overtaken) {
            self.turns.pop();
            self.add(next);
        }
        Ok(())
    }

    /// Puts a turn in its place.
    fn add(&mut self, turn: Turn) {
        let later = |other: &Turn| self.compare(other, &turn) == Ordering::Greater;
        let place = self.turns.partition_point(later);
        self.turns.insert(place, turn);
    }

    /// Which of two turns comes first.
    fn compare(&self, one: &Turn, other: &Turn) -> Ordering {
        let by_key = || self.key_of(one.source).cmp(&self.key_of(other.source));
        let by_word = one.word.cmp(&other.word);
        let by_way = by_word.then_with(|| match self.direction {
            Direction::Forwards => by_key(),
            Direction::Backwards => by_key().reverse(),
        });
        by_way.then(one.source.cmp(&other.source))
    }

    /// Folds what all sources that are on the next key say of it.
    fn fold(&mut self) -> Result<()> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        key.extend_from_slice(self.next().and_then(Source::key).unwrap_or_default());
        self.key = key;
        let mut fold = Fold::default();
        let mut done = false;
        while let Some(source) = self.next()
            && source.key() == Some(self.key.as_slice())
        {
            // What lies below a value or tombstone is passed over unread.
            if !done && let Some(entry) = source.entry() {
                done = fold.push(&self.folder, &self.key, entry)?;
            }
            self.step()?;
        }
        let folded = fold.finish(&self.folder, &self.key, self.bottom)?;
        self.on = folded.map_or(On::Nothing, On::Folded);
        Ok(())
    }
}
