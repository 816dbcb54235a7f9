//! Files of a database: each is placed on a simulated machine, and read as a database reads it.

use super::{Target, Way, is_below_checksums};
use quire_env::{BlockCache, Budget, Env, SimEnv};
use quire_log::{Codec, Log, LogIdentity, LogOptions};
use quire_lsm::{FilterPager, Op, RunMeta, TableFiles, Tree, TreeContext, TreeSpec};
use quiredb::{
    CollectionSettings, Database, DatabaseOptions, Document, Durability, Key, Position, Volumes,
    Write,
};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A segment of a log.
pub(super) const LOG: Target = Target {
    name: "log",
    run: log,
    seeds: log_seeds,
    has_checksums: true,
    bytes_max: 256 << 20,
};

/// A table file.
pub(super) const TABLE: Target = Target {
    name: "table",
    run: table,
    seeds: || vec![file(&table_file().0)],
    has_checksums: true,
    bytes_max: 256 << 20,
};

/// The manifest of a partition of a database.
pub(super) const MANIFEST: Target = Target {
    name: "manifest",
    run: |input| database_with(&[MANIFEST_PATH], input),
    seeds: || {
        vec![file(
            &template().read_all(Path::new(MANIFEST_PATH)).unwrap(),
        )]
    },
    has_checksums: true,
    bytes_max: 256 << 20,
};

/// The catalog of a database, in both copies: one alone costs nothing.
pub(super) const CATALOG: Target = Target {
    name: "catalog",
    run: |input| database_with(&[CATALOG_PATH, CATALOG_COPY_PATH], input),
    seeds: || vec![file(&template().read_all(Path::new(CATALOG_PATH)).unwrap())],
    has_checksums: true,
    bytes_max: 256 << 20,
};

const LOG_PATH: &str = "/log/00000000000000000001.log";
const TABLE_PATH: &str = "/t/0000000002.table";
const MANIFEST_PATH: &str = "/db/c00000001/p0000/MANIFEST";
const CATALOG_PATH: &str = "/db/CATALOG";
const CATALOG_COPY_PATH: &str = "/db/CATALOG-2";
/// The most records or entries that are read: without checksums, a file may claim any number.
const READ_MAX: usize = 5_000;

/// A file as an input: with checksums.
pub(super) fn file(bytes: &[u8]) -> Vec<u8> {
    [&[0], bytes].concat()
}

/// The file of an input.
pub(super) fn of_input(input: &[u8]) -> &[u8] {
    input.get(1..).unwrap_or_default()
}

/// Places a file, durably.
pub(super) fn place(env: &dyn Env, path: &str, bytes: &[u8]) {
    let path = Path::new(path);
    env.create_dir_all(path.parent().unwrap()).unwrap();
    env.replace(path, bytes).unwrap();
}

fn open_log(env: &Arc<SimEnv>, codec: Codec) -> quire_log::Result<Log> {
    let identity = LogIdentity(*b"fuzzing the log!");
    let options = LogOptions {
        block_bytes: 500,
        codec,
        ..LogOptions::default()
    };
    let cache = BlockCache::new(1 << 20);
    Log::open(env.clone(), Path::new("/log"), identity, cache, options).map(|(log, _)| log)
}

/// Segments: closed and not, of one block and of many, in LZ4 and in zstd; and a compacted one with
/// a dictionary.
fn log_seeds() -> Vec<Vec<u8>> {
    let zstd = Codec::Zstd {
        level: 3,
        dictionary_bytes: 300,
    };
    let mut seeds = Vec::new();
    for (records, codec) in [0, 1, 40]
        .into_iter()
        .flat_map(|records| [(records, Codec::Lz4), (records, zstd)])
    {
        for close in [false, true] {
            let env = SimEnv::new(1);
            let log = open_log(&env, codec).unwrap();
            for n in 0..records {
                let record = format!("record {n} {}", "word ".repeat(n % 7 * 10));
                let position = log.append(&[record.as_bytes(), b"and one more"]).unwrap();
                if n % 4 == 0 {
                    log.sync(position).unwrap();
                }
            }
            log.sync(log.last()).unwrap();
            if close && codec == zstd && records > 1 {
                log.rotate().unwrap();
                assert!(log.train_dictionary().unwrap());
                let next = log.last().next();
                let mut keep = |records: &[_]| quire_log::Result::Ok(vec![true; records.len()]);
                let room = |bytes| Budget::new(bytes).charge(bytes);
                let compacted = log.compact(log.first(), next, &mut keep, &room, &|| false);
                assert!(compacted.unwrap().is_some());
            } else if close {
                log.close().unwrap();
            }
            seeds.push(file(&env.read_all(Path::new(LOG_PATH)).unwrap()));
        }
    }
    seeds
}

/// Verifies, opens and reads the log in each way, writes to it and opens it again: all answers
/// agree.
fn log(input: &[u8]) -> Way {
    let env = SimEnv::new(1);
    place(&*env, LOG_PATH, of_input(input));
    let mut damage = Vec::new();
    let identity = Some(LogIdentity(*b"fuzzing the log!"));
    let on_damage = &mut |found: quire_log::LogDamage| damage.push(found.what);
    let verified = quire_log::verify(&*env, Path::new("/log"), identity, on_damage, &mut |_| {});
    let outcome = read_log(&env);
    if !is_below_checksums(input) {
        let verified = verified.as_ref().unwrap();
        match &outcome {
            Ok(records) => {
                assert_eq!(damage, Vec::<String>::new(), "what is damaged was read");
                assert_eq!(*records, verified.records);
            }
            Err(error) => assert_ne!(damage, Vec::<String>::new(), "{error}"),
        }
    }
    let damage = damage.first().map_or(Way(0), |damage| Way::of(damage));
    Way::of_result(&outcome).and(damage)
}

fn read_log(env: &Arc<SimEnv>) -> quire_log::Result<u64> {
    let log = open_log(env, Codec::Lz4)?;
    let read = |log: &Log| -> quire_log::Result<Vec<(Position, Vec<u8>)>> {
        let scanned = log.scan(log.first()).take(READ_MAX);
        let scanned: Vec<_> = scanned.collect::<quire_log::Result<_>>()?;
        let mut records = Vec::with_capacity(scanned.len());
        for (position, record) in scanned {
            assert_eq!(log.read(position)?, record, "record {position}");
            records.push((position, record.to_vec()));
        }
        Ok(records)
    };
    let before = read(&log)?;
    let position = log.append(&[b"after all"])?;
    log.sync(position)?;
    log.close()?;
    let again = open_log(env, Codec::Lz4)?;
    let after = read(&again)?;
    assert!(after.starts_with(&before), "records changed by writing on");
    if before.len() < READ_MAX {
        assert_eq!(again.last(), position);
        assert_eq!(again.read(position)?, &b"after all"[..]);
    }
    Ok(before.len() as u64)
}

fn tree_context(env: &Arc<SimEnv>) -> TreeContext {
    let env: Arc<dyn Env> = env.clone();
    let files = TableFiles::new(Arc::clone(&env), Volumes::single("/"), "t".into(), 1);
    TreeContext {
        files: Arc::new(files),
        filters: FilterPager::new(Arc::clone(&env), 1 << 20),
        env,
        cache: BlockCache::new(1 << 20),
        budget: Budget::new(64 << 20),
    }
}

fn tree_spec() -> TreeSpec {
    TreeSpec {
        block_bytes: 300,
        // Reads use blocks that do not compress in place, from the second read on.
        mapped: true,
        ..TreeSpec::new(3, "fuzz")
    }
}

fn table_key(n: u32) -> Vec<u8> {
    format!("key/{:05}", n * 3).into_bytes()
}

/// A table of 120 keys, some deleted, with range tombstones, and its entry in a manifest.
fn table_file() -> &'static (Vec<u8>, RunMeta) {
    static FILE: OnceLock<(Vec<u8>, RunMeta)> = OnceLock::new();
    FILE.get_or_init(|| {
        let env = SimEnv::new(1);
        let tree = Tree::open(tree_spec(), tree_context(&env), Vec::new()).unwrap();
        let write = |n: u32, key: &[u8], op: Op<'_>| {
            tree.write(key, Position(u64::from(n) + 1), op).unwrap();
        };
        let flush = || {
            tree.freeze();
            tree.install(tree.flush().unwrap().unwrap());
        };
        // Deletions are kept only where an older run may have the key; this run is too large to be
        // merged with the other.
        for n in 0..500_u32 {
            write(0, &n.to_be_bytes(), Op::Put(&[0; 2_000]));
        }
        flush();
        for n in [0, 30, 31, 200] {
            let (from, to) = (table_key(n), table_key(n + 20));
            write(1, &from, Op::DeleteRange(&to));
        }
        for n in 0..120 {
            let value = format!("value {n} {}", "word ".repeat(n as usize % 5));
            // The first is past it, the other is not.
            let timed = |deadline: u64| [&deadline.to_le_bytes(), value.as_bytes()].concat();
            let (past, future) = (timed(0), timed(u64::MAX));
            let op = match n % 10 {
                7 => Op::Delete,
                // Here it is made a tombstone.
                5 if n < 40 => Op::PutUntil(&past),
                6 => Op::PutUntil(&future),
                _ => Op::Put(value.as_bytes()),
            };
            write(n + 2, &table_key(n), op);
        }
        flush();
        let stats = tree.stats();
        assert_eq!((stats.range_tombstones, stats.timed), (3, 12));
        let bytes = env.read_all(Path::new(TABLE_PATH)).unwrap();
        (bytes, tree.runs().remove(0))
    })
}

/// Opens the table, reads it by key and in order, and verifies it: all answers agree.
fn table(input: &[u8]) -> Way {
    let env = SimEnv::new(1);
    let (whole, run) = table_file();
    let bytes = of_input(input);
    place(&*env, TABLE_PATH, bytes);
    let mut run = run.clone();
    run.tables[0].bytes = bytes.len() as u64;
    let verified = quire_lsm::verify_table(&*env, Path::new(TABLE_PATH), &run.tables[0]);
    let outcome = read_table(&env, run);
    if !is_below_checksums(input) {
        assert_eq!(verified.is_ok(), bytes == whole, "{verified:?}");
        if let (Ok(found), Ok(verified)) = (&outcome, &verified) {
            assert_eq!(*found, 104, "{verified:?}");
        }
    }
    let verified = verified.map(|_| 1);
    Way::of_result(&outcome).and(Way::of_result(&verified))
}

fn read_table(env: &Arc<SimEnv>, run: RunMeta) -> quire_lsm::Result<u64> {
    let tree = Tree::open(tree_spec(), tree_context(env), vec![run])?;
    let snapshot = tree.snapshot(Position(1_000));
    let mut failed = None;
    for n in (0..120).step_by(3) {
        failed = snapshot.get(&table_key(n)).err().or(failed);
    }
    let mut found = 0;
    for entry in snapshot
        .scan(Bound::Unbounded, Bound::Unbounded)?
        .take(READ_MAX)
    {
        entry?;
        found += 1;
    }
    failed.map_or(Ok(found), Err)
}

/// A machine with a small database of one collection, one partition, tables and a log, closed.
pub(super) fn template() -> &'static Arc<SimEnv> {
    static TEMPLATE: OnceLock<Arc<SimEnv>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let env = SimEnv::new(1);
        let database = open_database(&env).unwrap();
        let settings = CollectionSettings {
            partitions: 1,
            ..CollectionSettings::default()
        };
        let collection = database.create_collection("docs", settings).unwrap();
        for round in 0..3 {
            let put = |n: u32| {
                let text = format!(
                    r#"{{"n":{n},"round":{round},"x":"{}"}}"#,
                    "x".repeat(n as usize)
                );
                Write::put(
                    Key::from(i64::from(n)),
                    Document::from_json(text.as_bytes()).unwrap(),
                )
            };
            let batch = (round * 10..round * 10 + 20).map(put);
            for result in collection
                .batch()
                .writes(batch)
                .durability(Durability::None)
                .write()
            {
                result.unwrap();
            }
            collection.flush().unwrap();
        }
        collection.delete(&Key::from(5)).unwrap();
        drop(collection);
        database.close().unwrap();
        env.after_crash(1)
    })
}

pub(super) fn open_database(env: &Arc<SimEnv>) -> quiredb::Result<Database> {
    let options = DatabaseOptions {
        memory_bytes: 16 << 20,
        create_if_missing: env.files().is_empty(),
        ..DatabaseOptions::default()
    };
    Database::builder("/db")
        .env(env.clone())
        .options(options)
        .open()
}

/// Opens, reads, verifies and writes to the database with one of its files replaced, in each of its
/// copies.
fn database_with(copies: &[&str], input: &[u8]) -> Way {
    let env = template().after_crash(1);
    let whole = env.read_all(Path::new(copies[0])).unwrap();
    let bytes = of_input(input);
    for path in copies {
        place(&*env, path, bytes);
    }
    let verified = quiredb::operations::verify(
        env.clone(),
        Volumes::single("/db"),
        &Default::default(),
        &mut |_, _| {},
    );
    let outcome = read_database(&env);
    if !is_below_checksums(input) {
        // A whole catalog of version 1, which had no number, is read too.
        let old = quire_store::unseal("quire-catalog", 1, "catalog", bytes);
        let is_whole = bytes == whole || old.is_ok();
        assert_eq!(outcome.is_ok(), is_whole, "{outcome:?}");
        let clean = verified
            .as_ref()
            .is_ok_and(|report| report.damage.is_empty());
        assert_eq!(clean, is_whole, "{verified:?}");
    }
    let verified = match &verified {
        Ok(report) => Way::of(report.damage.first().map_or("", |damage| &damage.what)),
        Err(error) => Way::of(&error.to_string()),
    };
    Way::of_result(&outcome).and(verified)
}

pub(super) fn read_database(env: &Arc<SimEnv>) -> quiredb::Result<u64> {
    let database = open_database(env)?;
    let mut found = 0;
    let mut failed = None;
    for name in database.collections() {
        let read = || -> quiredb::Result<u64> {
            let collection = database.collection(&name)?;
            let mut found = 0;
            for document in collection.scan(..)?.take(READ_MAX) {
                document?;
                found += 1;
            }
            collection.get(&Key::from(7))?;
            collection.put_at(&Key::from(7), &Document::from_json(b"{}")?)?;
            collection.flush()?;
            collection.compact()?;
            Ok(found)
        };
        match read() {
            Ok(count) => found += count,
            Err(error) => failed = Some(error),
        }
    }
    database.close()?;
    failed.map_or(Ok(found), Err)
}
