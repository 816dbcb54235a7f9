//! Merging: memtables and runs, newest first, as one sequence with one entry per key, in order or
//! in the reverse order.
//!
//! The oldest run holds most of the entries, and mostly several that nothing newer lies between. So
//! the source that is next is asked again as long as it stays before the others, which takes one
//! comparison of machine words an entry, and what only one source says of a key is lent as it lies
//! there: to whoever takes all entries, those of a block in one loop. Operands, and what several
//! say, are folded. Where a source deletes a range of keys, older ones are passed over: entry by
//! entry, and from a few of them on by a search for the end of the range.

use crate::Result;
use crate::cover::Cover;
use crate::direction::{Direction, Start};
use crate::fences;
use crate::fold::{Entry, Fold, Folder, Kind, Said};
use crate::memtable::{Memtable, MemtableCursor};
use crate::run::{Run, RunCursor};
use crate::span::{Span, Spans};
use crate::table::Access;
use quire_model::Position;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

/// After so many entries in a row of a range that is deleted its end is searched for.
const PASSED_MAX: u32 = 16;

/// A sorted sequence of entries.
#[derive(Debug)]
pub(crate) enum Source {
    Memtable(Box<MemtableCursor>),
    Run(Box<RunCursor>),
}

impl Source {
    /// All of a memtable, from the first key on.
    pub(crate) fn of_memtable(memtable: &Arc<Memtable>) -> Source {
        Source::Memtable(Box::new(memtable.cursor(Position(u64::MAX), Start::FIRST)))
    }

    /// All of a run, from the first key on, read once.
    pub(crate) fn of_run(run: &Arc<Run>) -> Result<Source> {
        let cursor = RunCursor::open(Arc::clone(run), Access::Sequential, Start::FIRST)?;
        Ok(Source::Run(Box::new(cursor)))
    }

    /// The ranges that it deletes from older sources.
    fn spans(&self) -> Spans {
        match self {
            Source::Memtable(cursor) => cursor.erased(),
            Source::Run(cursor) => cursor.spans(),
        }
    }

    /// Goes on from another place.
    fn seek(&mut self, start: Start<'_>) -> Result<()> {
        match self {
            Source::Memtable(cursor) => {
                cursor.seek(start);
                Ok(())
            }
            Source::Run(cursor) => cursor.seek(start),
        }
    }

    /// The first eight bytes of the key it is on; `None` past the end.
    fn word(&self) -> Option<u64> {
        match self {
            Source::Memtable(cursor) => cursor.key().map(fences::word),
            Source::Run(cursor) => cursor.word(),
        }
    }

    /// The entry it is on, where it lies.
    #[inline]
    fn said(&self) -> Option<Said<'_>> {
        match self {
            Source::Memtable(cursor) => cursor.said(),
            Source::Run(cursor) => cursor.said(),
        }
    }

    /// Whether the entry it is on is an operand.
    #[inline]
    fn is_on_operand(&self) -> bool {
        self.said().is_some_and(|said| said.kind == Kind::Merge)
    }

    /// The entry it is on, to keep.
    fn entry(&self) -> Option<Entry> {
        match self {
            Source::Memtable(cursor) => cursor.entry(),
            Source::Run(cursor) => cursor.entry(),
        }
    }

    /// Moves on. Returns what [`word`](Self::word) is then.
    #[inline]
    fn advance(&mut self) -> Result<Option<u64>> {
        match self {
            Source::Memtable(cursor) => {
                cursor.advance();
                Ok(cursor.key().map(fences::word))
            }
            Source::Run(cursor) => cursor.advance(),
        }
    }

    /// Hands the entry it is on to `each`, and values that come next, as far as they are at hand
    /// and their keys' words come before `end` on the way. It stays on the last that it handed
    /// over.
    #[inline]
    fn visit(
        &mut self,
        end: u64,
        each: &mut impl FnMut(Said<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Source::Memtable(cursor) => cursor.said().map_or(ControlFlow::Continue(()), each),
            Source::Run(cursor) => cursor.visit(end, each),
        }
    }
}

/// A source that is on an entry.
#[derive(Debug)]
struct Head {
    /// The first eight bytes of its key, as a number that never descends on the way.
    word: u64,
    /// Less is newer.
    age: usize,
    source: Source,
}

impl Head {
    fn key(&self) -> Option<&[u8]> {
        self.source.said().map(|said| said.key)
    }

    /// Which of two comes first on the way: by key, of one key the newer.
    fn compare(&self, other: &Head, direction: Direction) -> Ordering {
        let by_key = || match direction {
            Direction::Forwards => self.key().cmp(&other.key()),
            Direction::Backwards => other.key().cmp(&self.key()),
        };
        let by_word = self.word.cmp(&other.word);
        by_word.then_with(by_key).then(self.age.cmp(&other.age))
    }

    #[inline]
    fn is_before(&self, other: &Head, direction: Direction) -> bool {
        match self.word == other.word {
            false => self.word < other.word,
            true => self.compare(other, direction) == Ordering::Less,
        }
    }

    #[inline]
    fn is_of_key_of(&self, other: &Head) -> bool {
        self.word == other.word && self.key() == other.key()
    }
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
    /// The sources, the one that is next last, before it the one after it. Those that have ended
    /// are let go of.
    heads: Vec<Head>,
    direction: Direction,
    folder: Arc<Folder>,
    bottom: bool,
    /// `None` if no source deletes a range.
    cover: Option<Cover>,
    key: Vec<u8>,
    on: On,
}

impl Merge {
    /// Merges `sources`, newest first, all of which go one way. `bottom`: no older source exists,
    /// so operands are folded to values.
    pub(crate) fn new(
        sources: Vec<Source>,
        direction: Direction,
        folder: Arc<Folder>,
        bottom: bool,
    ) -> Merge {
        let spans = sources.iter().map(Source::spans).enumerate();
        let mut merge = Merge {
            cover: Cover::new(spans),
            heads: Vec::with_capacity(sources.len()),
            direction,
            folder,
            bottom,
            key: Vec::new(),
            on: On::Nothing,
        };
        for (age, source) in sources.into_iter().enumerate() {
            if let Some(word) = source.word() {
                let word = direction.on_the_way(word);
                merge.add(Head { word, age, source });
            }
        }
        merge
    }

    /// The ranges that its sources delete, in order.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.cover.as_ref().map(Cover::spans).unwrap_or_default()
    }

    /// The entry that it is on, where it lies; `None` if it is on none.
    #[inline]
    pub(crate) fn said(&self) -> Option<Said<'_>> {
        match &self.on {
            On::Next => self.heads.last()?.source.said(),
            On::Folded(Entry { kind, value }) => Some(Said {
                key: &self.key,
                kind: *kind,
                value,
            }),
            On::Nothing => None,
        }
    }

    /// The entry that it is on, to keep.
    pub(crate) fn entry(&self) -> Option<Entry> {
        match &self.on {
            On::Next => self.heads.last()?.source.entry(),
            On::Folded(entry) => Some(entry.clone()),
            On::Nothing => None,
        }
    }

    /// Moves on to the next key's entry, tombstones included; false at the end. After an error the
    /// merge is of no use.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        match self.on {
            On::Next => self.step()?,
            On::Nothing | On::Folded(_) => self.on = On::Nothing,
        }
        let newest_deletion = match self.cover {
            None => usize::MAX,
            Some(_) => self.pass_covered()?,
        };
        let Some((next, others)) = self.heads.split_last() else {
            self.on = On::Nothing;
            return Ok(false);
        };
        let alone = match others.last() {
            Some(second) => !second.is_of_key_of(next),
            None => true,
        };
        if alone && !next.source.is_on_operand() {
            self.on = On::Next;
        } else {
            self.fold(newest_deletion)?;
        }
        Ok(true)
    }

    /// Hands the entries that are left to `each`, as [`advance`](Self::advance) comes to them,
    /// until it breaks: it is on that one then.
    pub(crate) fn visit(
        &mut self,
        mut each: impl FnMut(Said<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        while self.advance()? {
            // What another source says of a key, of entries or of ranges, is heard by `advance`.
            let end = match (&self.cover, self.heads.as_slice()) {
                (Some(_), _) => 0,
                (None, [.., second, _]) => second.word,
                (None, _) => u64::MAX,
            };
            let handed = match (&self.on, self.heads.last_mut()) {
                (On::Next, Some(next)) => next.source.visit(end, &mut each),
                _ => self.said().map_or(ControlFlow::Continue(()), &mut each),
            };
            if handed.is_break() {
                return Ok(handed);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Moves the source that is next on, and finds which is next then.
    #[inline]
    fn step(&mut self) -> Result<()> {
        let Some(next) = self.heads.last_mut() else {
            return Ok(());
        };
        match next.source.advance()? {
            Some(word) => {
                next.word = self.direction.on_the_way(word);
                self.settle();
            }
            None => {
                self.heads.pop();
            }
        }
        Ok(())
    }

    /// Moves the source that was next to its place.
    #[inline]
    fn settle(&mut self) {
        let mut heads = self.heads.as_mut_slice();
        while let [.., before, last] = heads
            && before.is_before(last, self.direction)
        {
            std::mem::swap(before, last);
            heads = match heads {
                [heads @ .., _] => heads,
                [] => return,
            };
        }
    }

    /// Puts a source in its place.
    fn add(&mut self, head: Head) {
        self.heads.push(head);
        self.settle();
    }

    /// Passes over the keys whose newest entry is older than a deletion of a range. Returns the age
    /// of the newest deletion of the key that is next then.
    fn pass_covered(&mut self) -> Result<usize> {
        let mut passed = 0;
        while let (Some(cover), Some(next)) = (&mut self.cover, self.heads.last()) {
            let Some(key) = next.key() else { break };
            let age = cover.age(key);
            if next.age <= age {
                return Ok(age);
            }
            passed += 1;
            match passed > PASSED_MAX {
                true => self.leave_window(age)?,
                false => self.step()?,
            }
        }
        Ok(usize::MAX)
    }

    /// Moves sources older than `age` on to the end of the cover's window.
    fn leave_window(&mut self, age: usize) -> Result<()> {
        let Some(window) = self.cover.as_ref().and_then(Cover::window).cloned() else {
            return Ok(());
        };
        let start = match self.direction {
            Direction::Forwards => Some(window.to())
                .filter(|to| !to.is_empty())
                .map(Start::From),
            Direction::Backwards => Some(window.from())
                .filter(|from| !from.is_empty())
                .map(Start::Before),
        };
        for mut head in std::mem::take(&mut self.heads) {
            if head.age > age && head.key().is_some_and(|key| window.has(key)) {
                let Some(start) = start else { continue };
                head.source.seek(start)?;
                let Some(word) = head.source.word() else {
                    continue;
                };
                head.word = self.direction.on_the_way(word);
            }
            self.add(head);
        }
        Ok(())
    }

    /// Folds what all sources that are on the next key say of it; none that is older than
    /// `newest_deletion` counts.
    fn fold(&mut self, newest_deletion: usize) -> Result<()> {
        self.key.clear();
        if let Some(key) = self.heads.last().and_then(Head::key) {
            self.key.extend_from_slice(key);
        }
        let mut fold = Fold::default();
        let mut done = false;
        while let Some(next) = self.heads.last()
            && next.key() == Some(self.key.as_slice())
        {
            // What lies below a value or tombstone is passed over unread.
            if !done
                && next.age <= newest_deletion
                && let Some(entry) = next.source.entry()
            {
                done = fold.push(&self.folder, &self.key, entry)?;
            }
            self.step()?;
        }
        if !done && newest_deletion != usize::MAX {
            fold.push(&self.folder, &self.key, Entry::delete())?;
        }
        let folded = fold.finish(&self.folder, &self.key, self.bottom)?;
        self.on = folded.map_or(On::Nothing, On::Folded);
        Ok(())
    }
}
