//! Cells: the memtable's keys and versions, as words behind each other.
//!
//! # Layout (of words of 64 bits; bytes are little-endian in words, zeros fill up the last)
//! ```text
//! key:     | length × 2 + large (32) , newest version (32) | key bytes … |
//! version: | position | tag (32) , next older version (32) | value bytes … |
//! operand: | position | tag (32) , next older version (32) | operand below (32) | value bytes … |
//!   lower half first; tag: length × 8 + large × 4 + kind
//! ```
//! The operand below is the next that counts beside this one: what lies between the two in the
//! list of versions is in this one. None if nothing else of the key here counts.
//!
//! A key's first version follows it. Cells are numbered by their first word, from 1; 0 is none. A
//! cell lies in one page of words. Bytes of more than 1 KiB are *large*: kept beside the words, and
//! in place of their length stands their number.
//!
//! The one writer fills a cell with plain stores and publishes its number last, with release: a
//! key's in the index, a version's in the key. Readers load numbers with acquire, so what they
//! find is whole. Nothing of a cell changes but the number of a key's newest version.

use super::pages::Pages;
use crate::entry::Entry;
use crate::entry_kind::EntryKind;
use crate::{Error, Result, SmallBytes};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use quire_sync::atomic::{AtomicU64, Ordering};
use quire_sync::{OnceLock, sized};
use smallvec::SmallVec;
use std::cmp::Ordering as Order;

/// No cell.
pub(crate) const NONE: u32 = 0;

/// Words of a page.
const PAGE_WORDS: u32 = sized(4096, 8);

/// More bytes of a key or value than this are kept beside the words: what is left of a page when a
/// cell does not fit is little.
const INLINE_BYTES_MAX: usize = sized(1024, 16) as usize;

/// A key or value, copied: most take no allocation.
pub(crate) type Copied = SmallVec<[u8; 128]>;

/// Words of a key's cell and of a version's beside their bytes.
const KEY_WORDS: u32 = 1;
const VERSION_WORDS: u32 = 2;

/// Words that an operand has more than other versions.
const BELOW_WORDS: u32 = 1;

/// What the allocator keeps beside each allocation, about.
const ALLOCATION_BYTES: u64 = 16;

#[derive(Debug)]
pub(crate) struct Cells {
    words: Pages<AtomicU64, PAGE_WORDS>,
    large: Pages<OnceLock<SmallBytes>, { sized(256, 4) }>,
}

/// The writer's side: what was given out so far.
#[derive(Debug)]
pub(crate) struct Growth {
    next_word: u32,
    next_large: u32,
}

/// Bytes of a key or value, where they lie.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Text<'a> {
    Words(&'a [AtomicU64], usize),
    Bytes(&'a [u8]),
}

/// What a version says, to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewVersion<'a> {
    pub(crate) position: Position,
    pub(crate) kind: EntryKind,
    pub(crate) value: &'a [u8],
    /// Of an operand: the next older one that counts.
    pub(crate) below: u32,
}

impl NewVersion<'_> {
    /// Words before the value.
    fn head_words(&self) -> u32 {
        head_words(self.kind)
    }

    fn words(&self) -> u32 {
        self.head_words() + inline_words(self.value)
    }
}

fn head_words(kind: EntryKind) -> u32 {
    match kind {
        EntryKind::Merge => VERSION_WORDS + BELOW_WORDS,
        EntryKind::Put | EntryKind::Delete | EntryKind::PutUntil => VERSION_WORDS,
    }
}

/// A word of a cell that is published.
fn load(words: &[AtomicU64], at: usize) -> u64 {
    words.get(at).map_or(0, |word| word.load(Ordering::Relaxed))
}

/// The word of a slice's first eight bytes, zeros past its end.
fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

impl Text<'_> {
    fn len(&self) -> usize {
        match self {
            Text::Words(_, length) => *length,
            Text::Bytes(bytes) => bytes.len(),
        }
    }

    /// Its bytes from `8 * at` on, as a number; zeros past its end.
    fn number(&self, at: usize) -> u64 {
        let word = match self {
            Text::Words(words, _) => load(words, at),
            Text::Bytes(bytes) => bytes.get(8 * at..).map_or(0, word),
        };
        word.swap_bytes()
    }

    /// As [`word`](crate::fences::word).
    pub(crate) fn prefix(&self) -> u64 {
        self.number(0)
    }

    /// Bytewise order.
    pub(crate) fn cmp(&self, other: &Text<'_>) -> Order {
        let words = self.len().min(other.len()).div_ceil(8);
        for at in 0..words {
            match self.number(at).cmp(&other.number(at)) {
                Order::Equal => {}
                order => return order,
            }
        }
        // What they differ in are zeros at the end of the longer, or what comes after.
        self.len().cmp(&other.len())
    }

    /// Appends its bytes.
    pub(crate) fn copy_to(&self, out: &mut Copied) {
        match self {
            Text::Bytes(bytes) => out.extend_from_slice(bytes),
            Text::Words(words, length) => {
                let end = out.len() + length;
                for word in *words {
                    out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
                }
                out.truncate(end);
            }
        }
    }
}

impl Cells {
    pub(crate) fn new() -> Cells {
        Cells {
            words: Pages::new(),
            large: Pages::new(),
        }
    }

    fn word(&self, at: u32) -> Option<&AtomicU64> {
        self.words.get(at)
    }

    fn load(&self, at: u32, order: Ordering) -> u64 {
        self.word(at).map_or(0, |word| word.load(order))
    }

    /// The words of a cell, and those after it in its page.
    fn cell(&self, at: u32) -> &[AtomicU64] {
        self.words.rest(at).unwrap_or_default()
    }

    /// The bytes that are described by `length`, times two and with a bit for large ones; the words
    /// of others are the first of `words`.
    fn text<'a>(&'a self, words: &'a [AtomicU64], length: u32) -> Text<'a> {
        let number = length >> 1;
        if length & 1 == 1 {
            return Text::Bytes(self.large_bytes(number).map_or(&[], |bytes| bytes));
        }
        let count = (number as usize).div_ceil(8);
        Text::Words(words.get(..count).unwrap_or_default(), number as usize)
    }

    fn large_bytes(&self, number: u32) -> Option<&SmallBytes> {
        self.large.get(number)?.get()
    }

    /// The key of a cell.
    pub(crate) fn key(&self, key: u32) -> Text<'_> {
        let words = self.cell(key);
        let rest = words.get(KEY_WORDS as usize..).unwrap_or_default();
        self.text(rest, load(words, 0) as u32)
    }

    /// The number of the newest version of `key`.
    pub(crate) fn latest(&self, key: u32) -> u32 {
        let order = match seeded(Bug::VersionFoundUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::Acquire,
        };
        (self.load(key, order) >> 32) as u32
    }

    /// The position of a version.
    pub(crate) fn position(&self, version: u32) -> Position {
        Position(self.load(version, Ordering::Relaxed))
    }

    /// The newest version of `key` at or before `at`; `NONE` if there is none.
    pub(crate) fn visible(&self, key: u32, at: Position) -> u32 {
        let mut version = self.latest(key);
        while version != NONE && self.position(version) > at {
            version = (self.load(version + 1, Ordering::Relaxed) >> 32) as u32;
        }
        version
    }

    /// The kind of a version and its value.
    pub(crate) fn version(&self, version: u32) -> Option<(EntryKind, Text<'_>)> {
        if version == NONE {
            return None;
        }
        let words = self.cell(version);
        let tag = load(words, 1) as u32;
        let kind = EntryKind::from_number(u64::from(tag & 3))?;
        let rest = words.get(head_words(kind) as usize..).unwrap_or_default();
        Some((kind, self.text(rest, tag >> 2)))
    }

    /// Of an operand: the next older one that counts, or `NONE`.
    pub(crate) fn below(&self, version: u32) -> u32 {
        match EntryKind::from_number(u64::from(self.tag(version) & 3)) {
            Some(EntryKind::Merge) if version != NONE => {
                self.load(version + VERSION_WORDS, Ordering::Relaxed) as u32
            }
            _ => NONE,
        }
    }

    fn tag(&self, version: u32) -> u32 {
        self.load(version + 1, Ordering::Relaxed) as u32
    }

    /// What a version says.
    pub(crate) fn entry(&self, version: u32) -> Option<Entry> {
        let (kind, value) = self.version(version)?;
        let value = match value {
            Text::Bytes(_) => self.large_bytes(self.tag(version) >> 3)?.clone(),
            text => {
                let mut value = Copied::new();
                text.copy_to(&mut value);
                SmallBytes::copy_from_slice(&value)
            }
        };
        Some(Entry { kind, value })
    }

    /// Writes a version of `key`, over its newest one. One caller at a time, positions ascending.
    /// Returns the bytes this took.
    ///
    /// # Errors
    /// `InvalidArgument` if no number is left; nothing is written then.
    pub(crate) fn add_version(
        &self,
        growth: &mut Growth,
        key: u32,
        new: NewVersion<'_>,
    ) -> Result<u64> {
        let mut grown = 0;
        let version = self.reserve(growth, new.words(), &mut grown)?;
        let length = self.load(key, Ordering::Relaxed) as u32;
        let older = self.latest(key);
        debug_assert!(
            older == NONE || self.position(older) <= new.position,
            "versions of a key ascend"
        );
        self.fill_version(growth, version, older, new, &mut grown);
        self.publish(key, version, length);
        Ok(grown)
    }

    /// Writes a key with its first version. As [`add_version`](Self::add_version); returns the
    /// key's number too, which the caller publishes.
    ///
    /// # Errors
    /// As of [`add_version`](Self::add_version).
    pub(crate) fn add_key(
        &self,
        growth: &mut Growth,
        key: &[u8],
        new: NewVersion<'_>,
    ) -> Result<(u32, u64)> {
        let mut grown = 0;
        let key_words = KEY_WORDS + inline_words(key);
        let words = key_words + new.words();
        let cell = self.reserve(growth, words, &mut grown)?;
        let version = cell + key_words;
        let length = self.put(growth, cell + KEY_WORDS, key, &mut grown);
        self.fill_version(growth, version, NONE, new, &mut grown);
        self.publish(cell, version, length);
        Ok((cell, grown))
    }

    /// Makes `version` the newest of `key`, after all that it holds.
    fn publish(&self, key: u32, version: u32, length: u32) {
        let order = match seeded(Bug::VersionPublishedUnordered) {
            true => Ordering::Relaxed,
            false => Ordering::Release,
        };
        if let Some(word) = self.word(key) {
            word.store(u64::from(version) << 32 | u64::from(length), order);
        }
    }

    fn fill_version(
        &self,
        growth: &mut Growth,
        version: u32,
        older: u32,
        new: NewVersion<'_>,
        grown: &mut u64,
    ) {
        let length = self.put(growth, version + new.head_words(), new.value, grown);
        let tag = length << 2 | new.kind as u32;
        let store = |at: u32, filled: u64| {
            if let Some(word) = self.word(at) {
                word.store(filled, Ordering::Relaxed);
            }
        };
        store(version, new.position.0);
        store(version + 1, u64::from(older) << 32 | u64::from(tag));
        if new.kind == EntryKind::Merge {
            store(version + VERSION_WORDS, u64::from(new.below));
        }
    }

    /// Puts bytes at word `at`, or beside the words if they are large. Returns what
    /// [`text`](Self::text) finds them by.
    fn put(&self, growth: &mut Growth, at: u32, bytes: &[u8], grown: &mut u64) -> u32 {
        if bytes.len() > INLINE_BYTES_MAX {
            let number = growth.next_large;
            growth.next_large += 1;
            *grown += self.large.grow(number) + bytes.len() as u64 + ALLOCATION_BYTES;
            if let Some(slot) = self.large.get(number) {
                slot.get_or_init(|| SmallBytes::copy_from_slice(bytes));
            }
            return number << 1 | 1;
        }
        let words = self.words.rest(at).unwrap_or_default();
        for (slot, bytes) in words.iter().zip(bytes.chunks(8)) {
            slot.store(word(bytes), Ordering::Relaxed);
        }
        (bytes.len() as u32) << 1
    }

    /// Reserves words of one page.
    fn reserve(&self, growth: &mut Growth, words: u32, grown: &mut u64) -> Result<u32> {
        let full = || Error::InvalidArgument("the memtable is full: freeze it".into());
        let mut first = growth.next_word;
        let left = PAGE_WORDS - first % PAGE_WORDS;
        if words > left {
            first = first.checked_add(left).ok_or_else(full)?;
        }
        // Large ones have numbers of 29 bits: half a TiB of them is more than a memtable ever
        // holds.
        growth.next_word = first.checked_add(words).ok_or_else(full)?;
        debug_assert_eq!(
            first / PAGE_WORDS,
            (first + words - 1) / PAGE_WORDS,
            "a cell lies in one page"
        );
        *grown += self.words.grow(first);
        Ok(first)
    }
}

/// Words that bytes take in a cell.
fn inline_words(bytes: &[u8]) -> u32 {
    match bytes.len() {
        length if length > INLINE_BYTES_MAX => 0,
        length => length.div_ceil(8) as u32,
    }
}

const _: () = assert!(
    (2 * INLINE_BYTES_MAX.div_ceil(8)) as u32 + KEY_WORDS + VERSION_WORDS + BELOW_WORDS
        <= PAGE_WORDS,
    "every cell fits a page"
);

impl Growth {
    pub(crate) fn new() -> Growth {
        Growth {
            next_word: NONE + 1,
            next_large: 0,
        }
    }

    /// A number that no cell has so far, and that those which are written from now on are not
    /// below.
    pub(crate) fn next_cell(&self) -> u32 {
        self.next_word
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Zeros at the end, lengths about a word and about what is large.
    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        let length = prop_oneof![1usize..20, 1015..1035usize];
        (length, vec(any::<u8>(), 0..4)).prop_map(|(length, last)| {
            let mut text = vec![0; length];
            let end = length - last.len().min(length);
            text.truncate(end);
            text.extend(last);
            text.resize(text.len() + length % 3, 0);
            text
        })
    }

    proptest! {
        #[test]
        fn keys_and_versions_come_back_and_keys_compare_as_bytes_do(
            all in vec((any_text(), any_text()), 1..40),
        ) {
            let (cells, mut growth) = (Cells::new(), Growth::new());
            let mut keys = Vec::new();
            for (key, value) in &all {
                let new = |position, kind, value| NewVersion {
                    position: Position(position),
                    kind,
                    value,
                    below: NONE,
                };
                let added = cells.add_key(&mut growth, key, new(5, EntryKind::Put, value));
                let (cell, _) = added.unwrap();
                let operand = new(7, EntryKind::Merge, key);
                cells.add_version(&mut growth, cell, operand).unwrap();
                keys.push(cell);
            }
            for ((key, value), cell) in all.iter().zip(&keys) {
                prop_assert_eq!(cells.visible(*cell, Position(4)), NONE);
                let mut copy = Copied::new();
                cells.key(*cell).copy_to(&mut copy);
                prop_assert_eq!(copy.as_slice(), key);
                let versions = [(6, EntryKind::Put, value), (7, EntryKind::Merge, key)];
                for (at, kind, expected) in versions {
                    let entry = cells.entry(cells.visible(*cell, Position(at))).unwrap();
                    prop_assert_eq!((entry.kind, &*entry.value), (kind, expected.as_slice()));
                }
                for ((other, _), other_cell) in all.iter().zip(&keys) {
                    let order = key.cmp(other);
                    prop_assert_eq!(cells.key(*cell).cmp(&cells.key(*other_cell)), order);
                    prop_assert_eq!(cells.key(*cell).cmp(&Text::Bytes(other)), order);
                    let by_prefix = cells.key(*cell).prefix().cmp(&crate::fences::word(other));
                    prop_assert!(by_prefix.is_eq() || by_prefix == order);
                }
            }
        }
    }
}
