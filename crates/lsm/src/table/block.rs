//! Block: sorted entries behind each other, in one of two layouts; the last four bytes tell which.
//!
//! - [`prefixed`]: keys cut to what differs from the key before. For all entries.
//! - [`fixed`]: a column of keys and one of values, where all keys are of one length, and all
//!   values. Found by arithmetic.
//!
//! There is at least one entry. Kinds: 0 put, 1 delete, 2 merge.

mod builder;
mod contents;
mod cursor;
mod fixed;
mod layout;
mod look_up;
mod place;
mod prefixed;

pub(crate) use builder::{BlockBuilder, DATA_RESTART, INDEX_RESTART};
pub(crate) use contents::Block;
pub(crate) use cursor::BlockCursor;
pub(crate) use look_up::visit_entry;

#[cfg(test)]
mod tests {
    use super::layout::Layout;
    use super::*;
    use crate::TableDamage;
    use crate::entry_kind::EntryKind;
    use bytes::Bytes;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

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

    fn read(block: &Block, from: Option<&[u8]>) -> Result<Pairs, TableDamage> {
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
    fn read_back(block: &Block, before: Option<&[u8]>) -> Result<Pairs, TableDamage> {
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
            entries in any_entries(),
            restart_interval in 1usize..20,
            probe in vec(any::<u8>(), 0..6),
        ) {
            let block = Arc::new(Block::parse(build(&entries, restart_interval)).unwrap());
            let lengths = |(key, (kind, value)): (&Vec<u8>, &(u8, Vec<u8>))| {
                (key.len(), *kind, value.len())
            };
            let first = entries.iter().map(lengths).next();
            let is_as_first = |one: (usize, u8, usize)| one.1 == 0 && Some(one) == first;
            let uniform = entries.iter().map(lengths).all(is_as_first);
            prop_assert_eq!(uniform, matches!(block.layout, Layout::Fixed(_)));
            let mut all: Vec<_> = entries.clone().into_iter().collect();
            prop_assert_eq!(&read(&block, None).unwrap(), &all);
            all.reverse();
            prop_assert_eq!(read_back(&block, None).unwrap(), all);
            for key in entries.keys().chain([&probe]) {
                let found = block.get(key).unwrap();
                let found = found.map(|entry| (entry.kind as u8, entry.value.to_vec()));
                prop_assert_eq!(found.as_ref(), entries.get(key));
                let owned = |(key, value): (&Vec<u8>, &(u8, Vec<u8>))| (key.clone(), value.clone());
                let expected: Vec<_> = entries.range(key.clone()..).map(owned).collect();
                prop_assert_eq!(read(&block, Some(key)).unwrap(), expected);
                let before = entries.range(..key.clone()).rev().map(owned);
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
