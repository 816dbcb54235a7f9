//! Block: sorted entries behind each other, in one of two layouts; the last four bytes tell which.
//!
//! - [`prefixed`]: keys cut to what differs from the key before. For all entries.
//! - [`fixed`]: a column of keys and one of values, where all keys are of one length, and all
//!   values. Found by arithmetic.
//!
//! There is at least one entry. Kinds: 0 put, 1 delete, 2 merge.

mod builder;
mod cursor;
mod fixed;
mod prefixed;

pub(crate) use builder::{BlockBuilder, DATA_RESTART, INDEX_RESTART};
pub(crate) use cursor::BlockCursor;

use crate::entry::{Entry, EntryKind, Visit};
use crate::{Damage, SmallBytes};
use bytes::Bytes;
use fixed::Fixed;
use prefixed::Prefixed;
use quire_env::Cached;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A block's contents, checked as far as its table of restarts, or whole.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Bytes,
    layout: Layout,
    used: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
enum Layout {
    Prefixed(Prefixed),
    Fixed(Fixed),
}

/// An entry where it lies: ranges of the block.
#[derive(Debug)]
struct Place {
    /// Where it is: an offset, or a number in order.
    at: usize,
    /// Where the next one is, or would be.
    next: usize,
    /// So many bytes of its key are those of the key before, or of the part that all share.
    shared: usize,
    unshared: Range<usize>,
    kind: EntryKind,
    value: Range<usize>,
}

impl Layout {
    /// That of a block of these contents.
    fn parse(contents: &[u8]) -> Result<Layout, Damage> {
        match contents.last_chunk::<4>() {
            Some(&fixed::MARK) => Fixed::parse(contents).map(Layout::Fixed),
            _ => Prefixed::parse(contents).map(Layout::Prefixed),
        }
    }

    /// The first entry at or after `key`, and whether its key is `key`.
    fn search(self, contents: &[u8], key: &[u8]) -> Result<Option<(Place, bool)>, Damage> {
        match self {
            Layout::Prefixed(prefixed) => prefixed.search(contents, key),
            Layout::Fixed(fixed) => Ok(fixed.search(contents, key)),
        }
    }
}

/// What a block of these contents says of `key`, lent or copied: they lie in memory of others.
///
/// # Errors
/// [`Damage`] if the contents make no sense.
pub(super) fn visit_entry(
    contents: &[u8],
    key: &[u8],
    visit: &mut Visit<'_>,
) -> Result<Option<Entry>, Damage> {
    let found = Layout::parse(contents)?.search(contents, key)?;
    Ok(found
        .filter(|(_, is_key)| *is_key)
        .map(|(place, _)| visit.entry(place.kind, contents.get(place.value).unwrap_or_default())))
}

impl Block {
    /// A block of these contents.
    ///
    /// # Errors
    /// [`Damage`] if they are not as long as they say, or have no entry.
    pub(crate) fn parse(bytes: Bytes) -> Result<Block, Damage> {
        Ok(Block {
            layout: Layout::parse(&bytes)?,
            bytes,
            used: AtomicBool::new(false),
        })
    }

    /// Says that it was used, to the cache that holds it.
    pub(super) fn set_used(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// A range of its bytes; `range` is one that an entry gave.
    #[inline]
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// What it says of `key`.
    pub(crate) fn get(self: &Arc<Self>, key: &[u8]) -> Result<Option<Entry>, Damage> {
        let found = self.search(key)?.filter(|(_, is_key)| *is_key);
        Ok(found.map(|(place, _)| self.entry_at(place.kind, place.value)))
    }

    fn entry_at(self: &Arc<Self>, kind: EntryKind, value: Range<usize>) -> Entry {
        let value = SmallBytes::part(self, value);
        Entry { kind, value }
    }

    /// The first entry at or after `key`, and whether its key is `key`.
    fn search(&self, key: &[u8]) -> Result<Option<(Place, bool)>, Damage> {
        self.layout.search(&self.bytes, key)
    }

    /// Where an entry after the last would be.
    #[inline]
    fn end(&self) -> usize {
        match self.layout {
            Layout::Prefixed(prefixed) => prefixed.end(),
            Layout::Fixed(fixed) => fixed.end(),
        }
    }
}

impl Cached for Block {
    fn bytes(&self) -> u64 {
        (self.bytes.len() + size_of::<Block>()) as u64
    }

    fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
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
        let byte = || prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()];
        let entry = (0u8..4, vec(any::<u8>(), 0..12)).prop_map(|(kind, value)| match kind {
            3 => (kind, [vec![1; 8], value].concat()),
            _ => (kind, value),
        });
        let any_lengths = btree_map(vec(byte(), 1..12), entry, 1..60);
        let one_length = (vec(byte(), 0..4), 1usize..12, 0usize..9).prop_flat_map(
            move |(shared, key_bytes, value_bytes)| {
                let key = vec(byte(), key_bytes).prop_map(move |own| [&shared[..], &own].concat());
                let value = vec(any::<u8>(), value_bytes);
                btree_map(key, (Just(0u8), value), 1..60)
            },
        );
        prop_oneof![any_lengths, one_length]
    }

    fn build(entries: &BTreeMap<Vec<u8>, (u8, Vec<u8>)>, restart_interval: usize) -> Bytes {
        let mut builder = BlockBuilder::new(restart_interval);
        for (key, (kind, value)) in entries {
            builder.add(
                key,
                EntryKind::from_number(u64::from(*kind)).unwrap(),
                value,
            );
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
            let block = Arc::new(Block::parse(build(&entries, restart_interval)).unwrap());
            let lengths = |(key, (kind, value)): (&Vec<u8>, &(u8, Vec<u8>))| (key.len(), *kind, value.len());
            let uniform = entries.iter().map(lengths).all(|one| one.1 == 0 && Some(one) == entries.iter().map(lengths).next());
            prop_assert_eq!(uniform, matches!(block.layout, Layout::Fixed(_)));
            prop_assert_eq!(read(&block, None).unwrap(), entries.clone().into_iter().collect::<Vec<_>>());
            prop_assert_eq!(read_back(&block, None).unwrap(), entries.clone().into_iter().rev().collect::<Vec<_>>());
            for key in entries.keys().chain([&probe]) {
                let found = block.get(key).unwrap().map(|entry| (entry.kind as u8, entry.value.to_vec()));
                prop_assert_eq!(found.as_ref(), entries.get(key));
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
            let marked = [noise.clone(), fixed::MARK.to_vec()].concat();
            for bytes in [damaged, noise, marked] {
                if let Ok(block) = Block::parse(Bytes::from(bytes)) {
                    let _ = Arc::new(Block::parse(block.bytes.clone()).unwrap()).get(b"\x01");
                    let _ = read(&block, None);
                    let _ = read(&block, Some(b"\x01"));
                    let _ = read_back(&block, None);
                    let _ = read_back(&block, Some(b"\x01"));
                }
            }
        }
    }
}
