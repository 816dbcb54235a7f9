use super::*;
use crate::direction::Start;
use crate::entry::{Entry, EntryRef, Visit};
use crate::entry_kind::EntryKind;
use crate::testing::{any_codec, context};
use crate::{BlockCodec, Error, ErrorKind, Result, SmallBytes, TableMeta, TreeContext, TreeSpec};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use quire_env::{BlockCache, SimEnv};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

type Entries = BTreeMap<Vec<u8>, Entry>;

fn spec(block_bytes: usize, codec: BlockCodec, filter_bits_per_key: u32) -> TreeSpec {
    TreeSpec {
        block_bytes,
        codec,
        filter_bits_per_key,
        ..TreeSpec::new(3, "t")
    }
}

fn put(value: impl Into<Vec<u8>>) -> Entry {
    Entry {
        kind: EntryKind::Put,
        value: value.into().into(),
    }
}

/// Entries whose blocks compress, with all kinds.
fn entries(count: u32, word: &str) -> Entries {
    let entry = |number: u32| match number % 5 {
        2 if number.is_multiple_of(3) => Entry {
            kind: EntryKind::PutUntil,
            value: u64::from(number).to_le_bytes().to_vec().into(),
        },
        3 => Entry::delete(),
        4 => Entry {
            kind: EntryKind::Merge,
            value: number.to_string().into_bytes().into(),
        },
        _ => put(format!("{word} {word} {word} {number}")),
    };
    (0..count)
        .map(|number| (format!("key/{:04}", number * 3).into_bytes(), entry(number)))
        .collect()
}

/// Entries whose blocks are in the fixed layout.
fn uniform(count: u32) -> Entries {
    (0..count)
        .map(|number| {
            let key = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
            (key.to_vec(), put(format!("{number:05}")))
        })
        .collect()
}

fn write(spec: &TreeSpec, context: &TreeContext, entries: &Entries) -> Result<TableMeta> {
    write_with(spec, context, entries, &[])
}

fn write_with(
    spec: &TreeSpec,
    context: &TreeContext,
    entries: &Entries,
    ranges: &[(&str, &str)],
) -> Result<TableMeta> {
    let (file, output) = context.files.create(None, &[], None)?;
    let mut writer = TableWriter::new(spec, context, file, output)?;
    for (from, to) in ranges {
        writer.add_range(from.as_bytes(), to.as_bytes());
    }
    for (key, entry) in entries {
        let (kind, value) = (entry.kind, &*entry.value);
        writer.add(EntryRef { key, kind, value })?;
    }
    writer.finish()
}

fn open(context: &TreeContext, meta: &TableMeta) -> Result<Arc<Table>> {
    open_as(context, meta, false, Origin::Manifest)
}

fn open_as(
    context: &TreeContext,
    meta: &TableMeta,
    mapped: bool,
    origin: Origin,
) -> Result<Arc<Table>> {
    let spec = TreeSpec {
        mapped,
        ..spec(100, BlockCodec::None, 10)
    };
    Table::open(context, &Arc::default(), &spec, meta.clone(), origin).map(Arc::new)
}

fn get(table: &Table, key: &[u8]) -> Result<Option<Entry>> {
    table.get(
        key,
        hash(key),
        &table.query(hash(key)),
        &mut Visit::default(),
    )
}

fn scan(table: &Arc<Table>, access: Access, start: Start<'_>) -> Result<Vec<(Vec<u8>, Entry)>> {
    let mut cursor = TableCursor::open(Arc::clone(table), access, start)?;
    let mut all = Vec::new();
    while let (Some(key), Some(entry)) = (cursor.key(), cursor.entry()) {
        all.push((key.to_vec(), entry));
        cursor.advance()?;
    }
    Ok(all)
}

/// Reads everything in every way: an error, or exactly `entries`.
fn read_all(
    context: &TreeContext,
    meta: &TableMeta,
    codec: BlockCodec,
    entries: &Entries,
) -> Result<()> {
    let table = open(context, meta)?;
    let mut mapped = vec![open_as(context, meta, true, Origin::Manifest)?];
    if codec == BlockCodec::None {
        mapped.push(open_as(context, meta, true, Origin::JustWritten)?);
    }
    let expected: Vec<_> = entries
        .iter()
        .map(|(key, entry)| (key.clone(), entry.clone()))
        .collect();
    let mut failed = None;
    for access in [Access::Cached, Access::Sequential] {
        match scan(&table, access, Start::FIRST) {
            Ok(found) => assert_eq!(found, expected),
            Err(error) => failed = Some(error),
        }
    }
    for (key, entry) in entries {
        // Of a mapped table a block is read by the first, and looked at where it lies by the
        // others.
        for table in mapped.iter().chain([&table]).chain(&mapped) {
            match get(table, key) {
                Ok(found) => assert_eq!(found.as_ref(), Some(entry)),
                Err(error) => failed = Some(error),
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// The only errors that damage may lead to.
fn is_report(error: &Error) -> bool {
    match error {
        Error::Corrupt { path, .. } => path.to_string_lossy().ends_with(".table"),
        Error::Env(error) => error.kind() == quire_env::ErrorKind::UnexpectedEnd,
        _ => false,
    }
}

/// Entries of any kind and length, or puts of one length.
fn any_entries() -> impl Strategy<Value = Entries> {
    let byte = || prop_oneof![Just(0u8), Just(255), any::<u8>()];
    let entry = (0u64..4, vec(any::<u8>(), 0..40)).prop_map(|(kind, value)| {
        let kind = EntryKind::from_number(kind).unwrap();
        let value = match kind {
            EntryKind::Delete => SmallBytes::EMPTY,
            EntryKind::PutUntil => [vec![7; 8], value].concat().into(),
            _ => value.into(),
        };
        Entry { kind, value }
    });
    let any_lengths = btree_map(vec(byte(), 1..9), entry, 1..300);
    let one_length = (1usize..12, 0usize..40).prop_flat_map(move |(key, value)| {
        let value = vec(any::<u8>(), value).prop_map(put);
        btree_map(vec(byte(), key), value, 1..300)
    });
    prop_oneof![any_lengths, one_length]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_table_reads_as_the_map_it_was_written_from(
        entries in any_entries(),
        block_bytes in prop_oneof![Just(1usize), 1usize..200, Just(4096)],
        codec in any_codec(),
        filter_bits in prop_oneof![Just(0u32), Just(10), 1u32..65],
        probes in vec(vec(any::<u8>(), 0..9), 8),
    ) {
        let env = SimEnv::new(1);
        let context = context(&env);
        let spec = spec(block_bytes, codec, filter_bits);
        let meta = write(&spec, &context, &entries).unwrap();
        prop_assert_eq!(meta.entries, entries.len() as u64);
        prop_assert_eq!(Some(&meta.smallest), entries.keys().next());
        prop_assert_eq!(Some(&meta.largest), entries.keys().next_back());
        read_all(&context, &meta, codec, &entries).unwrap();
        let table = open(&context, &meta).unwrap();
        for probe in &probes {
            prop_assert_eq!(get(&table, probe).unwrap(), entries.get(probe).cloned());
            let expected = entries.range(probe.clone()..);
            let expected: Vec<_> = expected.map(|(k, e)| (k.clone(), e.clone())).collect();
            prop_assert_eq!(scan(&table, Access::Cached, Start::From(probe)).unwrap(), expected);
        }
        let path = context.files.path(meta.file).unwrap();
        let check = verify_table(context.env.as_ref(), &path, &meta).unwrap();
        prop_assert_eq!((check.bytes, check.entries), (meta.bytes, meta.entries));
    }
}

/// A small table of several index blocks, which deletes ranges, and its file.
fn small(
    env: &Arc<SimEnv>,
    context: &TreeContext,
    codec: BlockCodec,
    entries: Entries,
) -> (Entries, TableMeta, PathBuf) {
    let ranges = [
        ("key/0100", "key/0200"),
        ("key/0200", "key/0207"),
        ("l", ""),
    ];
    let meta = write_with(&spec(100, codec, 10), context, &entries, &ranges).unwrap();
    let path = context.files.path(meta.file).unwrap();
    let table = open(context, &meta).unwrap();
    let found: Vec<_> = table.range_tombstones().iter().collect();
    for (tombstone, (from, to)) in found.iter().zip(ranges) {
        assert_eq!(
            (&*tombstone.from, &*tombstone.to),
            (from.as_bytes(), to.as_bytes())
        );
    }
    assert_eq!((found.len(), table.range_tombstone_count()), (3, 3));
    assert!(env.read_all(&path).unwrap().len() < 4096);
    (entries, meta, path)
}

#[test]
fn every_flipped_bit_is_found_by_verify_and_never_makes_a_wrong_value() {
    for (codec, entries) in [
        (BlockCodec::None, entries(40, "abc")),
        (BlockCodec::Lz4, entries(40, "abc")),
        (BlockCodec::None, uniform(60)),
    ] {
        let env = SimEnv::new(1);
        let context = context(&env);
        let (entries, meta, path) = small(&env, &context, codec, entries);
        for byte in 0..meta.bytes {
            let bit = byte * 8 + byte % 8;
            env.flip_bit(&path, bit).unwrap();
            let error =
                verify_table(context.env.as_ref(), &path, &meta).expect_err("a flipped bit");
            assert!(is_report(&error), "bit {bit}: {error}");
            if let Err(error) = read_all(&context, &meta, codec, &entries) {
                assert!(is_report(&error), "bit {bit}: {error}");
            }
            env.flip_bit(&path, bit).unwrap();
        }
        read_all(&context, &meta, codec, &entries).unwrap();
    }
}

#[test]
fn every_cut_is_refused_before_and_after_opening() {
    let env = SimEnv::new(1);
    let context = context(&env);
    let (entries, meta, path) = small(&env, &context, BlockCodec::None, entries(40, "abc"));
    let table = open(&context, &meta).unwrap();
    let mapped = open_as(&context, &meta, true, Origin::Manifest).unwrap();
    for length in (0..meta.bytes).rev() {
        for (key, entry) in &entries {
            match get(&mapped, key) {
                Ok(found) => assert_eq!(found.as_ref(), Some(entry)),
                Err(error) => assert!(is_report(&error), "{length}: {error}"),
            }
        }
        env.truncate_file(&path, length).unwrap();
        for error in [
            open(&context, &meta).expect_err("a cut file"),
            verify_table(context.env.as_ref(), &path, &meta).expect_err("a cut file"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{length}: {error}");
        }
        match scan(&table, Access::Sequential, Start::FIRST) {
            Ok(found) => assert_eq!(found.len(), entries.len()),
            Err(error) => assert!(is_report(&error), "{length}: {error}"),
        }
    }
}

#[test]
fn damage_to_a_block_that_was_looked_at_before_is_found_at_the_next_look() {
    let env = SimEnv::new(1);
    let context = context(&env);
    for entries in [entries(40, "abc"), uniform(60)] {
        let (entries, meta, path) = small(&env, &context, BlockCodec::None, entries);
        for origin in [Origin::Manifest, Origin::JustWritten] {
            let table = open_as(&context, &meta, true, origin).unwrap();
            let reads = || {
                let get = |(key, entry): (&Vec<u8>, &Entry)| match get(&table, key) {
                    Ok(found) => (found.as_ref() == Some(entry))
                        .then_some(0)
                        .ok_or("another value"),
                    Err(error) if error.kind() == ErrorKind::Corrupt => Ok(1),
                    Err(_) => Err("another error"),
                };
                entries
                    .iter()
                    .map(get)
                    .sum::<std::result::Result<usize, _>>()
            };
            assert_eq!((reads(), reads()), (Ok(0), Ok(0)));
            let data_end = table.file.properties.ranges_offset;
            for byte in (super::footer::HEADER_BYTES as u64..data_end).step_by(7) {
                env.flip_bit(&path, byte * 8).unwrap();
                assert!(reads().unwrap() > 0, "byte {byte}");
                env.flip_bit(&path, byte * 8).unwrap();
            }
            assert_eq!(reads(), Ok(0));
        }
    }
}

#[test]
fn a_table_swapped_with_another_is_refused_even_if_it_looks_the_same() {
    let env = SimEnv::new(1);
    let context = context(&env);
    let spec = spec(100, BlockCodec::None, 10);
    let metas =
        ["abc", "abd", "abc"].map(|word| write(&spec, &context, &entries(40, word)).unwrap());
    let paths = [0, 1, 2].map(|index: usize| context.files.path(metas[index].file).unwrap());
    let originals = [0, 1, 2].map(|index: usize| env.read_all(&paths[index]).unwrap());
    for other in [1, 2] {
        assert_eq!(metas[0].bytes, metas[other].bytes);
        env.overwrite(&paths[0], 0, &originals[other]).unwrap();
        assert_eq!(
            open(&context, &metas[0]).expect_err("another table").kind(),
            ErrorKind::Corrupt
        );
        let error =
            verify_table(context.env.as_ref(), &paths[0], &metas[0]).expect_err("another table");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        // Any chunk of the other file at its own place: all blocks are whole, and yet not ours.
        env.overwrite(&paths[0], 0, &originals[0]).unwrap();
        for start in (0..originals[0].len()).step_by(50) {
            let end = (start + 300).min(originals[0].len());
            env.overwrite(&paths[0], start as u64, &originals[other][start..end])
                .unwrap();
            if let Err(error) = read_all(&context, &metas[0], BlockCodec::None, &entries(40, "abc"))
            {
                assert!(is_report(&error), "{error}");
            }
            assert!(verify_table(context.env.as_ref(), &paths[0], &metas[0]).is_err());
            env.overwrite(&paths[0], start as u64, &originals[0][start..end])
                .unwrap();
        }
    }
    let foreign = TreeSpec { id: 4, ..spec };
    let foreign = Table::open(
        &context,
        &Arc::default(),
        &foreign,
        metas[0].clone(),
        Origin::Manifest,
    )
    .expect_err("another tree's table");
    assert_eq!(foreign.kind(), ErrorKind::Corrupt);
}

#[test]
fn a_large_value_gets_a_block_of_its_own_and_reads_ahead_whole() {
    let env = SimEnv::new(1);
    let context = context(&env);
    for codec in [
        BlockCodec::None,
        BlockCodec::Lz4,
        BlockCodec::Zstd { level: 3 },
    ] {
        let mut entries = entries(2000, "abc");
        let noise: Vec<u8> = (0..700_000u32)
            .map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8)
            .collect();
        entries.insert(b"key/1000x".to_vec(), put(noise));
        entries.insert(b"key/1001x".to_vec(), put(vec![7; 700_000]));
        let meta = write(&spec(4096, codec, 10), &context, &entries).unwrap();
        read_all(&context, &meta, codec, &entries).unwrap();
        verify_table(
            context.env.as_ref(),
            &context.files.path(meta.file).unwrap(),
            &meta,
        )
        .unwrap();
    }
    assert_eq!(
        context.budget.used(),
        0,
        "buffers and pinned indexes are given back"
    );
    assert!(context.budget.peak() > 256 << 10);
}

#[test]
fn a_long_scan_reads_ahead_on_its_way_and_leaves_the_cache_to_others() {
    let env = SimEnv::new(1);
    for (codec, entries) in [
        (BlockCodec::None, uniform(80_000)),
        (BlockCodec::Lz4, entries(80_000, "abc")),
    ] {
        let context = TreeContext {
            cache: BlockCache::new(16 << 20),
            ..context(&env)
        };
        let meta = write(&spec(4096, codec, 10), &context, &entries).unwrap();
        let table = open(&context, &meta).unwrap();
        for key in entries.keys().step_by(7_000) {
            get(&table, key).unwrap().unwrap();
        }
        let mut expected: Vec<_> = entries.into_iter().collect();
        for start in [Start::FIRST, Start::Last] {
            let before = env.operations();
            assert!(scan(&table, Access::Cached, start).unwrap() == expected);
            let (reads, ahead) = (env.operations() - before, meta.bytes >> 16);
            assert!(reads < 80 + 2 * ahead, "{reads} reads, for {ahead} chunks");
            expected.reverse();
        }
        let (held, all) = (context.cache.bytes(), meta.bytes);
        assert!(held < 300 << 10 && 2 * held < all, "{held} of {all} bytes");

        let path = context.files.path(meta.file).unwrap();
        env.flip_bit(&path, meta.bytes / 2 * 8).unwrap();
        for start in [Start::FIRST, Start::Last] {
            let error = scan(&table, Access::Cached, start).unwrap_err();
            assert!(is_report(&error), "{error}");
        }
    }
}
