//! Goes through a block in order, or in the reverse order.

use super::contents::Block;
use super::fixed::Fixed;
use super::layout::Layout;
use super::place::EntryPlace;
use super::prefixed::Prefixed;
use crate::TableDamage;
use crate::direction::{Direction, Start};
use crate::entry::{Entry, EntryRef};
use crate::entry_kind::EntryKind;
use crate::fences;
use smallvec::SmallVec;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// A place in a block. It does not hold the block: every call is handed it, so that a block is
/// searched by many threads without changing a shared count.
#[derive(Debug)]
pub(crate) struct BlockCursor {
    /// The key it is on; in the fixed layout always of the length of all keys, and it begins as
    /// they all do.
    key: SmallVec<[u8; 64]>,
    word: u64,
    /// In the fixed layout: what the words of all keys have in common.
    shared_word: u64,
    kind: EntryKind,
    value: Range<usize>,
    at: usize,
    next: usize,
    valid: bool,
}

impl BlockCursor {
    /// A cursor on no entry.
    pub(crate) fn new() -> BlockCursor {
        BlockCursor {
            key: SmallVec::new(),
            word: 0,
            shared_word: 0,
            kind: EntryKind::Delete,
            value: 0..0,
            at: 0,
            next: 0,
            valid: false,
        }
    }

    /// The key it is on, or `None` past the end.
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.valid.then_some(&self.key)
    }

    /// The first eight bytes of that key, as [`fences::word`] has them.
    #[inline]
    pub(crate) fn word(&self) -> Option<u64> {
        self.valid.then_some(self.word)
    }

    /// The kind of the entry it is on.
    #[inline]
    pub(crate) fn kind(&self) -> EntryKind {
        self.kind
    }

    /// The value it is on.
    #[inline]
    pub(crate) fn value<'a>(&self, block: &'a Block) -> &'a [u8] {
        block.slice(self.value.clone())
    }

    /// The entry it is on, where it lies.
    #[inline]
    pub(crate) fn entry_ref<'a>(&'a self, block: &'a Block) -> Option<EntryRef<'a>> {
        let (key, kind, value) = (self.key()?, self.kind, self.value(block));
        Some(EntryRef { key, kind, value })
    }

    /// The entry it is on; a value that is not short shares the block's memory.
    pub(crate) fn entry(&self, block: &Arc<Block>) -> Entry {
        block.entry_at(self.kind, self.value.clone())
    }

    /// Is on no entry.
    pub(crate) fn leave(&mut self) {
        self.valid = false;
    }

    /// Moves to the first entry.
    pub(crate) fn first(&mut self, block: &Block) -> Result<(), TableDamage> {
        self.begin(block);
        self.next = 0;
        self.advance(block)
    }

    /// Moves to the first entry at or after `key`.
    pub(crate) fn seek(&mut self, block: &Block, key: &[u8]) -> Result<(), TableDamage> {
        (self.valid, self.next) = (false, block.layout.end());
        self.begin(block);
        match (block.search(key)?, &block.layout) {
            (None, _) => {}
            (Some((place, _)), Layout::Fixed(fixed)) => {
                self.stand_on_number(&block.bytes, *fixed, place.at)
            }
            (Some((place, _)), Layout::Prefixed(_)) => {
                // What it shares with the entry before, that shares with `key`.
                let shared = key.get(..place.shared).unwrap_or_default();
                self.key.extend_from_slice(shared);
                self.stand_on(block, place);
            }
        }
        Ok(())
    }

    /// Moves to the last entry before `key`.
    pub(crate) fn seek_before(&mut self, block: &Block, key: &[u8]) -> Result<(), TableDamage> {
        self.seek(block, key)?;
        self.retreat(block)
    }

    /// Moves to where `start` says.
    pub(crate) fn place(&mut self, block: &Block, start: Start<'_>) -> Result<(), TableDamage> {
        match start {
            Start::From([]) => self.first(block),
            Start::From(key) => self.seek(block, key),
            Start::Before(key) => self.seek_before(block, key),
            Start::Last => self.last(block),
        }
    }

    /// Moves on, one way or the other.
    #[inline]
    pub(crate) fn go(&mut self, block: &Block, direction: Direction) -> Result<(), TableDamage> {
        match direction {
            Direction::Forwards => self.advance(block),
            Direction::Backwards => self.retreat(block),
        }
    }

    /// Moves to the last entry.
    pub(crate) fn last(&mut self, block: &Block) -> Result<(), TableDamage> {
        self.begin(block);
        self.retreat(block)
    }

    /// Moves to the next entry.
    #[inline]
    pub(crate) fn advance(&mut self, block: &Block) -> Result<(), TableDamage> {
        if self.next >= block.layout.end() {
            self.valid = false;
            return Ok(());
        }
        match &block.layout {
            Layout::Fixed(fixed) => self.stand_on_number(&block.bytes, *fixed, self.next),
            Layout::Prefixed(prefixed) => {
                let place = self.follow(block, *prefixed, self.next)?;
                self.stand_on(block, place);
            }
        }
        Ok(())
    }

    /// Moves to the entry before; to the last, if it is on none.
    #[inline]
    pub(crate) fn retreat(&mut self, block: &Block) -> Result<(), TableDamage> {
        let before = match self.valid {
            true => self.at,
            false => block.layout.end(),
        };
        if before == 0 {
            self.valid = false;
            return Ok(());
        }
        match &block.layout {
            Layout::Fixed(fixed) => self.stand_on_number(&block.bytes, *fixed, before - 1),
            Layout::Prefixed(prefixed) => self.come_to_entry_before(block, *prefixed, before)?,
        }
        Ok(())
    }

    /// Shows `each` the entry that it is on, and in the fixed layout those that come next, while
    /// their keys' words come before `end` on the way. It stays on the last that it showed.
    #[inline]
    pub(crate) fn visit(
        &mut self,
        block: &Block,
        direction: Direction,
        end: u64,
        each: &mut impl FnMut(EntryRef<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (bytes, layout) = (&*block.bytes, block.layout);
        while let Some(key) = self.key() {
            each(EntryRef {
                key,
                kind: self.kind,
                value: bytes.get(self.value.clone()).unwrap_or_default(),
            })?;
            let Layout::Fixed(fixed) = layout else { break };
            let next = match direction {
                Direction::Forwards => self.at + 1,
                // Before the first is past the last.
                Direction::Backwards => self.at.wrapping_sub(1),
            };
            if next >= fixed.end() {
                break;
            }
            let word = fixed.key_word(bytes, next, self.shared_word);
            if direction.on_the_way(word) >= end {
                break;
            }
            self.stand_on_word(bytes, fixed, next, word);
        }
        ControlFlow::Continue(())
    }

    /// Is on no entry, and has of the key what all share.
    fn begin(&mut self, block: &Block) {
        self.valid = false;
        let Layout::Fixed(fixed) = &block.layout else {
            self.key.clear();
            return;
        };
        let shared = fixed.shared_by_all(&block.bytes);
        self.shared_word = fences::word(shared);
        if self.key.len() != fixed.key_bytes() {
            self.key.resize(fixed.key_bytes(), 0);
        }
        if let Some(front) = self.key.get_mut(..shared.len()) {
            front.copy_from_slice(shared);
        }
    }

    /// Stands on the entry numbered `at` of the fixed layout.
    #[inline]
    fn stand_on_number(&mut self, bytes: &[u8], fixed: Fixed, at: usize) {
        let word = fixed.key_word(bytes, at, self.shared_word);
        self.stand_on_word(bytes, fixed, at, word);
    }

    /// Stands on the entry numbered `at` of the fixed layout, whose key begins with `word`.
    #[inline]
    fn stand_on_word(&mut self, bytes: &[u8], fixed: Fixed, at: usize, word: u64) {
        self.word = word;
        match <&mut [u8; 8]>::try_from(self.key.as_mut_slice()) {
            // Such a key is its word.
            Ok(key) => *key = word.to_be_bytes(),
            Err(_) => {
                let own = bytes.get(fixed.own(at)).unwrap_or_default();
                if let Some(end) = self.key.len().checked_sub(own.len())
                    && let Some(room) = self.key.get_mut(end..)
                {
                    room.copy_from_slice(own);
                }
            }
        }
        self.kind = EntryKind::Put;
        self.value = fixed.value(at);
        (self.at, self.next) = (at, at + 1);
        self.valid = true;
    }

    /// Stands on an entry of the prefixed layout; `key` holds what that shares.
    fn stand_on(&mut self, block: &Block, place: EntryPlace) {
        self.at = place.at;
        self.key.extend_from_slice(block.slice(place.unshared));
        self.word = fences::word(&self.key);
        self.kind = place.kind;
        self.next = place.next;
        self.value = place.value;
        self.valid = true;
    }

    /// The entry at `at`, which comes after the one whose key is here: of that, what it shares is
    /// left. The cursor is on no entry until this one has proved whole.
    fn follow(
        &mut self,
        block: &Block,
        prefixed: Prefixed,
        at: usize,
    ) -> Result<EntryPlace, TableDamage> {
        self.valid = false;
        let place = prefixed.place(&block.bytes, at)?;
        if place.shared > self.key.len() {
            let (expected, found) = (self.key.len(), place.shared);
            return Err(TableDamage::new("shared key bytes", at, expected, found));
        }
        self.key.truncate(place.shared);
        Ok(place)
    }

    /// Goes from a restart to the entry before the one at `before`, which is not the first.
    fn come_to_entry_before(
        &mut self,
        block: &Block,
        prefixed: Prefixed,
        before: usize,
    ) -> Result<(), TableDamage> {
        let mut at = prefixed.restart_before(&block.bytes, before)?;
        self.key.clear();
        loop {
            let place = self.follow(block, prefixed, at)?;
            if place.next >= before {
                self.stand_on(block, place);
                return Ok(());
            }
            let own = block.slice(place.unshared.clone());
            self.key.extend_from_slice(own);
            at = place.next;
        }
    }
}
