//! Block: sorted entries behind each other, keys cut to what differs from the key before.
//!
//! # Layout (little-endian; `v` is a variable-length integer)
//! ```text
//! | entry … | restart (4) … | restarts (4) |
//! entry: | shared v | unshared v | value length × 4 + kind v | unshared key bytes | value |
//! ```
//! An entry's key is the first `shared` bytes of the key before it, then its own. Each n-th entry is a *restart*: it
//! shares nothing, and its offset stands in the table at the end, so a search halves its way over restarts and reads
//! at most n entries. Kinds: 0 put, 1 delete, 2 merge. There is at least one entry, and the first is a restart.

use crate::direction::{Direction, Start};
use crate::fold::{Entry, Kind};
use crate::{Damage, SmallBytes, varint};
use bytes::Bytes;
use quire_planted::{Bug, planted};
use smallvec::SmallVec;
use std::cmp::Ordering as Order;
use std::ops::Range;

/// Entries per restart in a data block.
pub(crate) const DATA_RESTART: usize = 16;
/// Entries per restart in an index block: searched more often than it is read through.
pub(crate) const INDEX_RESTART: usize = 4;

/// Builds a block.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    restart_interval: usize,
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    entries: usize,
    last_key: Vec<u8>,
}

impl BlockBuilder {
    /// An empty block with a restart every `restart_interval` entries.
    pub(crate) fn new(restart_interval: usize) -> BlockBuilder {
        let (bytes, restarts, last_key) = (Vec::new(), Vec::new(), Vec::new());
        BlockBuilder {
            restart_interval,
            bytes,
            restarts,
            entries: 0,
            last_key,
        }
    }

    /// True if it has no entry.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Its length in bytes if it were finished now.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    /// The last key added.
    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Adds an entry. The caller sees to the order of keys.
    pub(crate) fn add(&mut self, key: &[u8], kind: Kind, value: &[u8]) {
        let shared = if self.entries.is_multiple_of(self.restart_interval) {
            self.restarts.push(self.bytes.len() as u32);
            0
        } else {
            shared_bytes(&self.last_key, key)
        };
        let unshared = key.get(shared..).unwrap_or_default();
        varint::put(&mut self.bytes, shared as u64);
        varint::put(&mut self.bytes, unshared.len() as u64);
        varint::put(&mut self.bytes, (value.len() as u64) << 2 | kind as u64);
        self.bytes.extend_from_slice(unshared);
        self.bytes.extend_from_slice(value);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(unshared);
        self.entries += 1;
    }

    /// Completes the block and hands it to `done`; then the builder is empty again, its last key kept.
    pub(crate) fn finish<T>(&mut self, done: impl FnOnce(&[u8]) -> T) -> T {
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        self.bytes
            .extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        let out = done(&self.bytes);
        self.bytes.clear();
        self.restarts.clear();
        self.entries = 0;
        out
    }
}

/// How many bytes two keys share at the front.
pub(crate) fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A block's contents, checked as far as its table of restarts.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    bytes: Bytes,
    entries_end: usize,
    restarts: usize,
}

/// An entry where it lies: ranges of the block.
#[derive(Debug)]
struct Place {
    shared: usize,
    unshared: Range<usize>,
    kind: Kind,
    value: Range<usize>,
}

impl Block {
    /// A block of these contents.
    ///
    /// # Errors
    /// [`Damage`] if there is no room for the restarts it says it has, or for an entry.
    pub(crate) fn parse(bytes: Bytes) -> Result<Block, Damage> {
        let restarts = match bytes.last_chunk::<4>() {
            Some(count) => u32::from_le_bytes(*count) as usize,
            None => return Err(Damage::new("restart count", 0, 4u64, bytes.len())),
        };
        let count_at = bytes.len() - 4;
        match restarts
            .checked_mul(4)
            .and_then(|table| count_at.checked_sub(table))
        {
            Some(entries_end) if restarts > 0 && entries_end > 0 => Ok(Block {
                bytes,
                entries_end,
                restarts,
            }),
            _ => Err(Damage::new(
                "restart count",
                count_at,
                count_at / 4,
                restarts,
            )),
        }
    }

    /// Bytes of memory it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn restart(&self, index: usize) -> Result<usize, Damage> {
        let at = self.entries_end + 4 * index;
        let offset = self
            .bytes
            .get(at..)
            .and_then(|rest| rest.first_chunk::<4>());
        match offset.map(|offset| u32::from_le_bytes(*offset) as usize) {
            Some(offset) if offset < self.entries_end => Ok(offset),
            found => Err(Damage::new(
                "restart",
                at,
                self.entries_end,
                found.unwrap_or(usize::MAX),
            )),
        }
    }

    fn entry(&self, at: usize) -> Result<Place, Damage> {
        let entries = self.bytes.get(..self.entries_end).unwrap_or_default();
        let mut next = at;
        let head = entries.get(at..).and_then(|rest| rest.first_chunk::<3>());
        let (shared, unshared, tag) = match head {
            // Mostly all three are short.
            Some(&[shared, unshared, tag]) if (shared | unshared | tag) < 0x80 => {
                next += 3;
                (shared.into(), unshared.into(), tag.into())
            }
            _ => (
                varint::get(entries, &mut next)?,
                varint::get(entries, &mut next)?,
                varint::get(entries, &mut next)?,
            ),
        };
        let kind = Kind::from_number(tag & 3)
            .ok_or_else(|| Damage::new("kind of an entry", at, 2u64, tag & 3))?;
        let too_long = |length| Damage::new("length in an entry", at, entries.len() - next, length);
        let range = |start: usize, length: u64| -> Result<Range<usize>, Damage> {
            let end = usize::try_from(length)
                .ok()
                .and_then(|length| start.checked_add(length));
            match end {
                Some(end) if end <= entries.len() => Ok(start..end),
                _ => Err(too_long(length)),
            }
        };
        let unshared = range(next, unshared)?;
        let value = range(unshared.end, tag >> 2)?;
        Ok(Place {
            shared: usize::try_from(shared).map_err(|_| too_long(shared))?,
            unshared,
            kind,
            value,
        })
    }

    fn slice(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// The key of the restart numbered `index`.
    fn restart_key(&self, index: usize) -> Result<&[u8], Damage> {
        let at = self.restart(index)?;
        let place = self.entry(at)?;
        if place.shared != 0 {
            return Err(Damage::new(
                "shared key bytes of a restart",
                at,
                0u64,
                place.shared,
            ));
        }
        Ok(self.slice(place.unshared))
    }

    /// The offset of the last restart before the offset `before`.
    fn restart_before(&self, before: usize) -> Result<usize, Damage> {
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            match self.restart(middle)? < before {
                true => low = middle,
                false => high = middle,
            }
        }
        match self.restart(low)? {
            found if found < before => Ok(found),
            found => Err(Damage::new("first restart", self.entries_end, 0u64, found)),
        }
    }

    /// The first entry at or after `key`: its offset, itself, and whether its key is `key`.
    fn search(&self, key: &[u8]) -> Result<Option<(usize, Place, bool)>, Damage> {
        // The last restart before the key, or the first of all.
        let (mut low, mut high) = (0, self.restarts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.restart_key(middle)? < key {
                low = middle + usize::from(planted(Bug::RestartOneTooFar) && middle + 1 < high);
            } else {
                high = middle;
            }
        }
        let mut next = self.restart(low)?;
        // Of the entry before, which is before the key: its length, and how many bytes it has in common with the key.
        let (mut before, mut common) = (0, 0);
        while next < self.entries_end {
            let place = self.entry(next)?;
            place.check_shared(next, before)?;
            before = place.shared + place.unshared.len();
            // One that has more in common with the entry before than the key has is before the key too.
            if place.shared <= common {
                let own = self.slice(place.unshared.clone());
                let rest = key.get(place.shared..).unwrap_or_default();
                match own.cmp(rest) {
                    Order::Less => common = place.shared + shared_bytes(own, rest),
                    order => return Ok(Some((next, place, order == Order::Equal))),
                }
            }
            next = place.value.end;
        }
        Ok(None)
    }

    /// What it says of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Entry>, Damage> {
        let found = self.search(key)?.filter(|(_, _, is_key)| *is_key);
        Ok(found.map(|(_, place, _)| Entry {
            kind: place.kind,
            value: SmallBytes::part(&self.bytes, self.slice(place.value)),
        }))
    }

    /// The value of the first entry at or after `key`.
    pub(crate) fn value_from(&self, key: &[u8]) -> Result<Option<&[u8]>, Damage> {
        let found = self.search(key)?;
        Ok(found.map(|(_, place, _)| self.slice(place.value)))
    }
}

impl Place {
    /// Refuses an entry at `at` that shares more than there is of the key before.
    fn check_shared(&self, at: usize, before: usize) -> Result<(), Damage> {
        match self.shared > before {
            true => Err(Damage::new("shared key bytes", at, before, self.shared)),
            false => Ok(()),
        }
    }
}

/// Goes through a block in order. It does not hold the block: every call is handed it, so that a pinned block is
/// searched by many threads without touching a shared count.
#[derive(Debug)]
pub(crate) struct BlockCursor {
    key: SmallVec<[u8; 64]>,
    kind: Kind,
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
            kind: Kind::Delete,
            value: 0..0,
            at: 0,
            next: 0,
            valid: false,
        }
    }

    /// The key it is on, or `None` past the end.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.valid.then_some(&self.key)
    }

    /// The kind of the entry it is on.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The value it is on.
    pub(crate) fn value<'a>(&self, block: &'a Block) -> &'a [u8] {
        block.slice(self.value.clone())
    }

    /// The entry it is on; a value that is not short shares the block's memory.
    pub(crate) fn entry(&self, block: &Block) -> Entry {
        Entry {
            kind: self.kind,
            value: SmallBytes::part(&block.bytes, self.value(block)),
        }
    }

    /// Moves to the first entry.
    pub(crate) fn first(&mut self, block: &Block) -> Result<(), Damage> {
        self.key.clear();
        self.next = 0;
        self.advance(block)
    }

    /// Moves to the first entry at or after `key`.
    pub(crate) fn seek(&mut self, block: &Block, key: &[u8]) -> Result<(), Damage> {
        (self.valid, self.next) = (false, block.entries_end);
        if let Some((at, place, _)) = block.search(key)? {
            // What it shares with the entry before, that shares with `key`.
            self.key.clear();
            self.key
                .extend_from_slice(key.get(..place.shared).unwrap_or_default());
            self.stand_on(block, at, place);
        }
        Ok(())
    }

    /// Moves to the last entry before `key`.
    pub(crate) fn seek_before(&mut self, block: &Block, key: &[u8]) -> Result<(), Damage> {
        self.seek(block, key)?;
        self.retreat(block)
    }

    /// Moves to where `start` says.
    pub(crate) fn place(&mut self, block: &Block, start: Start<'_>) -> Result<(), Damage> {
        match start {
            Start::From([]) => self.first(block),
            Start::From(key) => self.seek(block, key),
            Start::Before(key) => self.seek_before(block, key),
            Start::Last => self.last(block),
        }
    }

    /// Moves on, one way or the other.
    pub(crate) fn go(&mut self, block: &Block, direction: Direction) -> Result<(), Damage> {
        match direction {
            Direction::Forwards => self.advance(block),
            Direction::Backwards => self.retreat(block),
        }
    }

    /// Moves to the last entry.
    pub(crate) fn last(&mut self, block: &Block) -> Result<(), Damage> {
        self.valid = false;
        self.retreat(block)
    }

    /// Stands on the entry at `at`; `key` holds what that shares.
    fn stand_on(&mut self, block: &Block, at: usize, place: Place) {
        self.at = at;
        self.key.extend_from_slice(block.slice(place.unshared));
        self.kind = place.kind;
        self.next = place.value.end;
        self.value = place.value;
        self.valid = true;
    }

    /// Moves to the next entry.
    pub(crate) fn advance(&mut self, block: &Block) -> Result<(), Damage> {
        self.valid = self.next < block.entries_end;
        if self.valid {
            // Not valid until the entry has proved whole.
            self.valid = false;
            let at = self.next;
            let place = block.entry(at)?;
            place.check_shared(at, self.key.len())?;
            self.key.truncate(place.shared);
            self.stand_on(block, at, place);
        }
        Ok(())
    }

    /// Moves to the entry before; to the last, if it is on none. Entries lead forward only: it goes on from the restart before.
    pub(crate) fn retreat(&mut self, block: &Block) -> Result<(), Damage> {
        let before = match self.valid {
            true => self.at,
            false => block.entries_end,
        };
        self.valid = false;
        if before == 0 {
            return Ok(());
        }
        let mut at = block.restart_before(before)?;
        self.key.clear();
        loop {
            let place = block.entry(at)?;
            place.check_shared(at, self.key.len())?;
            self.key.truncate(place.shared);
            if place.value.end >= before {
                self.stand_on(block, at, place);
                return Ok(());
            }
            self.key
                .extend_from_slice(block.slice(place.unshared.clone()));
            at = place.value.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Key, number of its kind, value.
    type Pairs = Vec<(Vec<u8>, (u8, Vec<u8>))>;

    fn any_entries() -> impl Strategy<Value = BTreeMap<Vec<u8>, (u8, Vec<u8>)>> {
        let key = vec(
            prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()],
            1..12,
        );
        btree_map(key, (0u8..3, vec(any::<u8>(), 0..12)), 1..60)
    }

    fn build(entries: &BTreeMap<Vec<u8>, (u8, Vec<u8>)>, restart_interval: usize) -> Bytes {
        let mut builder = BlockBuilder::new(restart_interval);
        for (key, (kind, value)) in entries {
            builder.add(key, Kind::from_number(u64::from(*kind)).unwrap(), value);
        }
        let bytes = builder.bytes();
        let built = builder.finish(Bytes::copy_from_slice);
        assert_eq!(built.len(), bytes);
        built
    }

    fn read(block: &Block, from: Option<&[u8]>) -> Result<Pairs, Damage> {
        let mut cursor = BlockCursor::new();
        match from {
            Some(key) => cursor.seek(block, key)?,
            None => cursor.first(block)?,
        }
        let mut all = Vec::new();
        while let Some(key) = cursor.key() {
            all.push((
                key.to_vec(),
                (cursor.kind() as u8, cursor.value(block).to_vec()),
            ));
            cursor.advance(block)?;
        }
        Ok(all)
    }

    /// All before `before`, last first.
    fn read_back(block: &Block, before: Option<&[u8]>) -> Result<Pairs, Damage> {
        let mut cursor = BlockCursor::new();
        match before {
            Some(key) => cursor.seek_before(block, key)?,
            None => cursor.last(block)?,
        }
        let mut all = Vec::new();
        while let Some(key) = cursor.key() {
            let value = (cursor.kind() as u8, cursor.value(block).to_vec());
            all.push((key.to_vec(), value));
            cursor.retreat(block)?;
        }
        Ok(all)
    }

    proptest! {
        #[test]
        fn seeking_any_key_finds_what_a_map_finds(
            entries in any_entries(), restart_interval in 1usize..20, probe in vec(any::<u8>(), 0..6),
        ) {
            let block = Block::parse(build(&entries, restart_interval)).unwrap();
            prop_assert_eq!(read(&block, None).unwrap(), entries.clone().into_iter().collect::<Vec<_>>());
            prop_assert_eq!(read_back(&block, None).unwrap(), entries.clone().into_iter().rev().collect::<Vec<_>>());
            for key in entries.keys().chain([&probe]) {
                let expected: Vec<_> = entries.range(key.clone()..).map(|(k, v)| (k.clone(), v.clone())).collect();
                prop_assert_eq!(read(&block, Some(key)).unwrap(), expected);
                let before = entries.range(..key.clone()).rev().map(|(k, v)| (k.clone(), v.clone()));
                prop_assert_eq!(read_back(&block, Some(key)).unwrap(), before.collect::<Vec<_>>());
            }
        }

        #[test]
        fn any_bytes_end_in_an_error_or_an_end_and_never_panic(
            entries in any_entries(), at: usize, with: u8, noise in vec(any::<u8>(), 0..60),
        ) {
            let mut damaged = build(&entries, 4).to_vec();
            let at = at % damaged.len();
            damaged[at] = with;
            for bytes in [damaged, noise] {
                if let Ok(block) = Block::parse(Bytes::from(bytes)) {
                    let _ = read(&block, None);
                    let _ = read(&block, Some(b"\x01"));
                    let _ = read_back(&block, None);
                    let _ = read_back(&block, Some(b"\x01"));
                }
            }
        }
    }
}
