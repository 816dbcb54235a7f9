//! Merging: memtables and runs, newest first, as one sequence with one entry per key, in order or
//! in the reverse order.
//!
//! The oldest run holds most of the entries, and mostly several in a row with nothing newer between
//! them. So the merge stays with the source that is next as long as its keys come before those of
//! the others, which takes one comparison of machine words an entry. An entry is shown where it
//! lies in its block or memtable, and a visitor gets those of a block in one loop. Where several
//! sources have a key, they stay on it while it is shown: operands are folded from where they lie.
//! Where a source deletes a range of keys, older ones are passed over: entry by entry, and after a
//! few of them by a search for the end of the range.

use crate::direction::{Direction, Start};
use crate::entry::{Entry, EntryRef};
use crate::entry_kind::EntryKind;
use crate::fold::{Folder, Stack};
use crate::range_deletions::RangeDeletions;
use crate::range_tombstones::RangeTombstone;
use crate::source::Source;
use crate::{Result, SmallBytes};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

/// After this many deleted entries in a row the end of their range is searched for.
const PASSED_MAX: u32 = 16;

/// A larger buffer for what operands are folded to is not used again.
const FOLDED_BYTES_KEPT: usize = 1 << 20;

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
        self.source.entry_ref().map(|said| said.key)
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
    /// The entry of the source that is next, which alone has the key.
    Next,
    /// The entries of this many sources, the last ones: all that have the key.
    Group {
        heads: usize,
        /// Those older than this age do not count: it is that of the newest deletion of the key by
        /// a range, or the greatest number.
        newest_deletion: usize,
    },
    /// What those of this many sources, the last ones, were folded to: an entry of this kind.
    Folded {
        heads: usize,
        kind: EntryKind,
    },
}

/// Merges sources: a few of them, memtables and a logarithm of runs.
#[derive(Debug)]
pub(crate) struct Merge {
    /// The sources, the one that is next last, before it the one after it. Those that have ended
    /// are dropped.
    heads: Vec<Head>,
    direction: Direction,
    folder: Arc<Folder>,
    bottom: bool,
    /// `None` if no source deletes a range.
    deletions: Option<RangeDeletions>,
    on: On,
    /// The value of [`On::Folded`].
    folded: Vec<u8>,
}

/// An entry of a merge that folds no operands by itself.
#[derive(Debug)]
pub(crate) enum Unfolded<'a> {
    /// A value or tombstone, where it lies.
    Entry(EntryRef<'a>),
    /// The key has operands.
    Stack(&'a [u8], Stack<'a>),
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
        let tombstones = sources.iter().map(Source::range_tombstones).enumerate();
        let mut merge = Merge {
            deletions: RangeDeletions::new(tombstones),
            heads: Vec::with_capacity(sources.len()),
            direction,
            folder,
            bottom,
            on: On::Nothing,
            folded: Vec::new(),
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
    pub(crate) fn range_tombstones(&self) -> Vec<RangeTombstone> {
        let deletions = self.deletions.as_ref();
        deletions.map_or_else(Vec::new, RangeDeletions::range_tombstones)
    }

    /// What it folds with.
    pub(crate) fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// The entry that it is on, where it lies; `None` if it is on none.
    #[inline]
    pub(crate) fn entry_ref(&self) -> Option<EntryRef<'_>> {
        match &self.on {
            On::Next | On::Group { .. } => self.heads.last()?.source.entry_ref(),
            On::Folded { kind, .. } => Some(EntryRef {
                key: self.heads.last()?.key()?,
                kind: *kind,
                value: &self.folded,
            }),
            On::Nothing => None,
        }
    }

    /// The entry that it is on, to keep.
    pub(crate) fn entry(&self) -> Option<Entry> {
        match &self.on {
            On::Next | On::Group { .. } => self.heads.last()?.source.entry(),
            On::Folded { kind, .. } => Some(Entry {
                kind: *kind,
                value: SmallBytes::copy_from_slice(&self.folded),
            }),
            On::Nothing => None,
        }
    }

    /// Moves on to the next key's entry, tombstones included; false at the end. After an error the
    /// merge is of no use.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let is_on_key = self.advance_unfolded()?;
        if let On::Group { heads, .. } = self.on {
            self.fold(heads)?;
        }
        Ok(is_on_key)
    }

    /// As [`advance`](Self::advance), but operands are left as they are.
    #[inline]
    fn advance_unfolded(&mut self) -> Result<bool> {
        match self.on {
            On::Next => self.step()?,
            On::Nothing => {}
            On::Group { heads, .. } | On::Folded { heads, .. } => self.step_group(heads)?,
        }
        let newest_deletion = match self.deletions {
            None => usize::MAX,
            Some(_) => self.pass_deleted()?,
        };
        let Some((next, others)) = self.heads.split_last() else {
            self.on = On::Nothing;
            return Ok(false);
        };
        let alone = match others.last() {
            Some(second) => !second.is_of_key_of(next),
            None => true,
        };
        self.on = match alone && !next.source.is_on_operand() {
            true => On::Next,
            false => {
                let is_of_key = |head: &&Head| head.is_of_key_of(next);
                let older = others.iter().rev().take_while(is_of_key).count();
                let heads = older + 1;
                On::Group {
                    heads,
                    newest_deletion,
                }
            }
        };
        Ok(true)
    }

    /// Shows the entries that are left to `each`, as [`advance`](Self::advance) comes to them,
    /// until it breaks: it is on that one then.
    pub(crate) fn visit(
        &mut self,
        mut each: impl FnMut(EntryRef<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        while self.advance()? {
            let end = self.end_of_batch();
            let visited = match (&self.on, self.heads.last_mut()) {
                (On::Next, Some(next)) => next.source.visit(end, &mut each),
                _ => self
                    .entry_ref()
                    .map_or(ControlFlow::Continue(()), &mut each),
            };
            if visited.is_break() {
                return Ok(visited);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// As [`visit`](Self::visit), and operands are left to `each` to fold.
    pub(crate) fn visit_unfolded(
        &mut self,
        mut each: impl FnMut(Unfolded<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        while self.advance_unfolded()? {
            let end = self.end_of_batch();
            let visited = match (&self.on, self.heads.last_mut()) {
                (On::Next, Some(next)) => {
                    let mut each = |entry: EntryRef<'_>| each(Unfolded::Entry(entry));
                    next.source.visit(end, &mut each)
                }
                _ => self.unfolded().map_or(ControlFlow::Continue(()), &mut each),
            };
            if visited.is_break() {
                return Ok(visited);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The word before which the source that is next goes on alone: keys of other sources, and
    /// ranges that they delete, are found by `advance`.
    #[inline]
    fn end_of_batch(&self) -> u64 {
        match (&self.deletions, self.heads.as_slice()) {
            (Some(_), _) => 0,
            (None, [.., second, _]) => second.word,
            (None, _) => u64::MAX,
        }
    }

    /// The key that it is on, as [`visit_unfolded`](Self::visit_unfolded) shows it.
    fn unfolded(&self) -> Option<Unfolded<'_>> {
        let newest = self.heads.last()?.source.entry_ref()?;
        match self.on {
            On::Group {
                heads,
                newest_deletion,
            } if newest.kind == EntryKind::Merge => {
                let stack = self.stack(heads, newest_deletion);
                Some(Unfolded::Stack(newest.key, stack))
            }
            _ => Some(Unfolded::Entry(newest)),
        }
    }

    /// The entries of the last `heads` sources that count.
    fn stack(&self, heads: usize, newest_deletion: usize) -> Stack<'_> {
        debug_assert!(
            self.heads
                .last()
                .is_some_and(|newest| newest.age <= newest_deletion),
            "the newest entry of a key that is shown is not deleted by a range"
        );
        let mut stack = Stack::default();
        for head in self.heads.iter().rev().take(heads) {
            // What lies below a value or tombstone is passed over unread.
            if head.age <= newest_deletion && head.source.push_to(&mut stack) {
                return stack;
            }
        }
        if newest_deletion != usize::MAX {
            stack.push_deletion();
        }
        stack
    }

    /// Folds the entries of the group that it is on, if the newest is an operand.
    fn fold(&mut self, heads: usize) -> Result<()> {
        let mut folded = std::mem::take(&mut self.folded);
        if folded.capacity() > FOLDED_BYTES_KEPT {
            folded = Vec::new();
        }
        let Some(Unfolded::Stack(key, stack)) = self.unfolded() else {
            self.folded = folded;
            return Ok(());
        };
        let kind = self
            .folder
            .encode_to(key, stack, self.bottom, &mut folded)?;
        self.folded = folded;
        self.on = On::Folded { heads, kind };
        Ok(())
    }

    /// Moves the last `heads` sources on, all of which are on one key. Each goes behind those that
    /// are left, as its next key comes later.
    fn step_group(&mut self, heads: usize) -> Result<()> {
        debug_assert!(
            heads <= self.heads.len(),
            "the sources of a group are there"
        );
        for _ in 0..heads {
            self.step()?;
        }
        Ok(())
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
    /// of the newest deletion of the next key.
    fn pass_deleted(&mut self) -> Result<usize> {
        let mut passed = 0;
        while let (Some(deletions), Some(next)) = (&mut self.deletions, self.heads.last()) {
            let Some(key) = next.key() else { break };
            let age = deletions.age(key);
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

    /// Moves sources older than `age` on to the end of the known window.
    fn leave_window(&mut self, age: usize) -> Result<()> {
        let Some(window) = self
            .deletions
            .as_ref()
            .and_then(RangeDeletions::window)
            .cloned()
        else {
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
}
