//! Backup and restore on the simulated machine: every snapshot restores to exactly what the model
//! was at its moment, whatever was written while it was copied, and wherever the machine stopped or
//! failed.

use quire_env::Fault;
use quiredb::operations::{self, BackupOptions, BackupReport};
use quiredb::wide::{Cell, Change, ColumnType, Operand, RowWrite, Schema, WideCollection};
use quiredb::{
    CollectionSettings, Database, DatabaseBuilder, DatabaseOptions, Document, Durability, Env,
    ErrorKind, Key, Medium, Position, Result, SimEnv, Volumes, Write,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow::{self, Break, Continue};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Documents by collection and key, each with its version.
type State = BTreeMap<String, BTreeMap<Key, (Position, String)>>;

fn backup_dir() -> &'static Path {
    Path::new("/backup")
}

fn volumes_of(names: &[&str]) -> Volumes {
    Volumes::new(names.iter().map(|name| (PathBuf::from(name), Medium::Ssd))).unwrap()
}

fn open(env: &Arc<SimEnv>, volumes: Volumes) -> Result<Database> {
    let options = DatabaseOptions {
        // Several segments, so that there are sealed ones.
        segment_bytes: 4 << 10,
        memory_bytes: 16 << 20,
        ..DatabaseOptions::default()
    };
    DatabaseBuilder::on(&volumes)
        .env(env.clone())
        .options(options)
        .open()
}

fn one() -> Volumes {
    Volumes::single("/db")
}

fn settings() -> CollectionSettings {
    CollectionSettings {
        partitions: 2,
        durability: Durability::None,
        ..CollectionSettings::default()
    }
}

/// The contents of the database, and its coprocessors as a collection of their own.
fn state(database: &Database) -> State {
    let coprocessors = database.coprocessors().unwrap().into_iter().map(|one| {
        let name = format!("{}/{}", one.name, one.version);
        let module = database.coprocessor_module(&name).unwrap().1;
        let key = Key::parse(&name).unwrap();
        (
            key,
            (Position(u64::from(one.version)), format!("{module:?}")),
        )
    });
    let coprocessors = ("(coprocessors)".to_string(), coprocessors.collect());
    database
        .collections()
        .into_iter()
        .chain(database.wide_collections())
        .map(|name| {
            if let Ok(wide) = database.wide_collection(&name) {
                return (name, rows(&wide));
            }
            let found = database.collection(&name).unwrap().scan(..).unwrap();
            let documents = found.map(|found| {
                let found = found.unwrap();
                (found.key, (found.version, found.document.to_json()))
            });
            (name, documents.collect())
        })
        .chain([coprocessors])
        .collect()
}

/// A filter that keeps every row, as WebAssembly.
const KEEPS_ALL: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x05\x01\x60\0\x01\x7f\
    \x03\x02\x01\0\
    \x05\x03\x01\0\x01\
    \x07\x1b\x02\x06memory\x02\0\x0equire_1_filter\0\0\
    \x0a\x06\x01\x04\0\x41\x01\x0b";

/// The rows of a wide collection.
fn rows(wide: &WideCollection) -> BTreeMap<Key, (Position, String)> {
    let found = wide.rows().unwrap().map(|found| {
        let found = found.unwrap();
        (found.key, (found.version, found.document.to_json()))
    });
    found.collect()
}

/// Restores a snapshot on fresh volumes, verifies it, and returns its contents.
fn restored(env: &Arc<SimEnv>, number: u64, target: &Volumes) -> Result<State> {
    quiredb::operations::restore(
        env.clone(),
        backup_dir(),
        Some(number),
        target,
        &mut |_, _| {},
    )?;
    let report = quiredb::operations::verify(
        env.clone(),
        target.clone(),
        &Default::default(),
        &mut |_, _| {},
    )
    .unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
    let database = open(env, target.clone()).unwrap();
    let found = state(&database);
    database.close().unwrap();
    for volume in target.iter() {
        env.remove_dir_all(&volume.path).unwrap();
    }
    env.sync_dir(Path::new("/")).unwrap();
    Ok(found)
}

fn go_on(_: u64, _: u64) -> ControlFlow<()> {
    Continue(())
}

fn backup(database: &Database) -> Result<BackupReport> {
    operations::backup(
        database,
        backup_dir(),
        &BackupOptions::default(),
        &mut go_on,
    )
}

/// A seeded source of choices.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The wide collection of the database, made if it is not there.
fn wide_or_create(database: &Database) -> Result<WideCollection> {
    match database.wide_collection("wide") {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        opened => return opened,
    }
    let schema = Schema::new()
        .with_column("hot", ColumnType::Int, "meta")?
        .with_column("text", ColumnType::String, "content")?
        .with_family("links", ColumnType::Int, "links")?;
    let one = CollectionSettings {
        partitions: 1,
        ..settings()
    };
    database.create_wide_collection("wide", schema, one)
}

/// Runs a random operation on the wide collection.
fn act_wide(database: &Database, dice: &mut Dice) -> Result<()> {
    let wide = wide_or_create(database)?;
    let key = Key::from(dice.below(20) as u32);
    let number = dice.below(1000) as i64;
    match dice.below(12) {
        0 => wide.flush(),
        1 => wide.compact(),
        2 => wide.delete(&key).map(drop),
        3 => {
            let name = format!("column_{}", dice.below(1 << 40));
            let added = database.alter_wide_collection("wide", |schema| {
                schema.with_column(&name, ColumnType::Int, "added")
            });
            added.map(drop)
        }
        4..8 => {
            let filler = "x".repeat(dice.below(600) as usize);
            let json = format!(r#"{{"hot":{number},"text":"{filler}","links":{{"a":1}}}}"#);
            let document = Document::from_json(json.as_bytes()).unwrap();
            wide.put(&key, &document).map(drop)
        }
        _ => {
            let member = format!("m{}", dice.below(4));
            let write = RowWrite::upsert(key)
                .with(Change::set("hot", Cell::Int(number)))
                .with(Change::merge("links", Operand::Add(1)).of_member(member));
            wide.write(&write).map(drop)
        }
    }
}

/// Runs a random operation on the database, or none if the machine has crashed.
fn act(database: &Database, dice: &mut Dice) -> Result<()> {
    let name = format!("c{}", dice.below(3));
    if dice.below(3) == 0 {
        return act_wide(database, dice);
    }
    match dice.below(20) {
        0 if database.collections().len() > 1 => match database.drop_collection(&name) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            dropped => dropped,
        },
        1 | 2 => database.flush(),
        3 => database.collection_or_create(&name, settings)?.compact(),
        4 => database.collection_or_create(&name, settings)?.sync(),
        _ => {
            let collection = database.collection_or_create(&name, settings)?;
            let count = 1 + dice.below(12);
            let writes = (0..count).map(|_| {
                let key = Key::from(dice.below(40) as u32);
                if dice.below(5) == 0 {
                    return Write::delete(key);
                }
                let filler = "x".repeat(dice.below(600) as usize);
                let json = format!(r#"{{"n":{},"text":"{filler}"}}"#, dice.below(1000));
                Write::put(key, Document::from_json(json.as_bytes()).unwrap())
            });
            let writes: Vec<Write> = writes.collect();
            let durability = [Durability::None, Durability::Sync][dice.below(2) as usize];
            let results = collection
                .batch()
                .writes(writes)
                .durability(durability)
                .write();
            results.into_iter().try_for_each(|result| result.map(drop))
        }
    }
}

/// One run: a database is changed, backed up while it changes, reopened, and crashes in the end.
fn run(seed: u64) {
    let dice = &mut Dice(seed);
    let mut env = SimEnv::new(seed);
    let volumes = match dice.below(3) {
        0 => volumes_of(&["/db", "/disk2"]),
        _ => one(),
    };
    let restore_to = match dice.below(3) {
        0 => volumes_of(&["/copy", "/copy2", "/copy3"]),
        _ => Volumes::single("/copy"),
    };
    let mut snapshots: BTreeMap<u64, State> = BTreeMap::new();
    for _life in 0..3 {
        let mut database = open(&env, volumes.clone()).unwrap();
        if dice.below(2) == 0 {
            env.crash_at(env.operations() + dice.below(600));
        }
        // The contents of an unfinished backup: its snapshot may be there all the same.
        let mut in_doubt = None;
        let mut removed = Vec::new();
        for _step in 0..12 {
            if env.crashed() {
                break;
            }
            for _ in 0..dice.below(6) {
                let _ = act(&database, dice);
            }
            if dice.below(8) == 0 {
                let _ = database.close();
                match open(&env, volumes.clone()) {
                    Ok(opened) => database = opened,
                    Err(_) => break,
                }
            }
            let keep = (dice.below(4) == 0).then_some(2);
            let options = BackupOptions {
                keep,
                rate_bytes: [None, Some(1 << 20)][dice.below(2) as usize],
            };
            let (mut at_moment, mut stop) = (None, dice.below(10) == 0);
            // A backup takes every applied record, acknowledged or not.
            let acknowledged = database
                .collections()
                .iter()
                .try_for_each(|name| database.collection(name)?.sync());
            let wide_synced = || match database.wide_collection("wide") {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                wide => wide?.sync(),
            };
            let acknowledged = acknowledged.and_then(|()| wide_synced());
            if acknowledged.is_err() {
                break;
            }
            let result = operations::backup(&database, backup_dir(), &options, &mut |done, _| {
                if done == 0 && at_moment.is_none() && !env.crashed() {
                    at_moment = Some(state(&database));
                }
                if dice.below(3) == 0 {
                    let _ = act(&database, dice);
                }
                if stop && dice.below(4) == 0 {
                    stop = false;
                    return Break(());
                }
                Continue(())
            });
            match result {
                Ok(report) => {
                    assert!(report.damaged_snapshots.is_empty());
                    snapshots.insert(report.snapshot.number, at_moment.unwrap());
                    for number in report.removed_snapshots {
                        snapshots.remove(&number).unwrap();
                    }
                    assert!(keep.is_none_or(|keep| snapshots.len() <= keep as usize));
                }
                Err(error) if error.kind() == ErrorKind::Closed => {}
                Err(_) if env.crashed() => {
                    in_doubt = at_moment;
                    if keep.is_some() {
                        removed = snapshots.keys().copied().collect();
                        removed.pop();
                    }
                }
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        drop(database);
        if env.crashed() {
            env = env.after_crash(dice.below(u64::MAX));
        }
        let present = match quiredb::operations::snapshots(env.clone(), backup_dir()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            listed => listed.unwrap(),
        };
        let present: Vec<u64> = present.iter().map(|snapshot| snapshot.number).collect();
        for number in &present {
            if !snapshots.contains_key(number) {
                let unfinished = in_doubt.take();
                snapshots.insert(*number, unfinished.expect("a snapshot that nobody took"));
            }
        }
        for number in snapshots.keys().copied().collect::<Vec<_>>() {
            if !present.contains(&number) {
                assert!(
                    removed.contains(&number),
                    "seed {seed}: snapshot {number} is lost"
                );
                snapshots.remove(&number);
            }
        }
        for (number, expected) in &snapshots {
            let found = restored(&env, *number, &restore_to).unwrap();
            assert_eq!(&found, expected, "seed {seed}, snapshot {number}");
        }
    }
}

#[test]
fn every_snapshot_restores_to_exactly_the_state_of_its_moment() {
    let seeds = std::env::var("QUIRE_BACKUP_SEEDS").ok();
    let count = seeds.and_then(|text| text.parse().ok()).unwrap_or(40);
    for seed in 0..count {
        run(seed);
    }
}

/// A database with tables and a log in several segments, one backup of it, and changes since.
fn backed_up(env: &Arc<SimEnv>) -> (Database, State) {
    let database = open(env, one()).unwrap();
    let dice = &mut Dice(7);
    let letters = database.create_collection("letters", settings()).unwrap();
    let write = |dice: &mut Dice, numbers: std::ops::Range<u32>| {
        let batch = numbers.map(|number| {
            let filler = "y".repeat(dice.below(300) as usize);
            let json = format!(r#"{{"n":{number},"text":"{filler}"}}"#);
            Write::put(
                Key::from(number % 30),
                Document::from_json(json.as_bytes()).unwrap(),
            )
        });
        for result in letters
            .batch()
            .writes(batch)
            .durability(Durability::Sync)
            .write()
        {
            result.unwrap();
        }
    };
    let act_wide = |dice: &mut Dice, times: u32| {
        (0..times).for_each(|_| act_wide(&database, dice).unwrap());
        wide_or_create(&database).unwrap().sync().unwrap();
    };
    write(dice, 0..20);
    letters.flush().unwrap();
    act_wide(dice, 20);
    write(dice, 20..35);
    database.add_coprocessor("all", KEEPS_ALL).unwrap();
    let first = state(&database);
    backup(&database).unwrap();
    act_wide(dice, 15);
    database.add_coprocessor("all", KEEPS_ALL).unwrap();
    database.drop_coprocessor("all/1").unwrap();
    write(dice, 35..60);
    letters.flush().unwrap();
    letters.compact().unwrap();
    write(dice, 60..70);
    (database, first)
}

#[test]
fn a_crash_at_any_step_of_a_backup_leaves_the_snapshots_before_it_and_the_next_goes_on() {
    let steps = {
        let env = SimEnv::new(1);
        let (database, _) = backed_up(&env);
        let before = env.operations();
        backup(&database).unwrap();
        env.operations() - before
    };
    assert!(steps > 20, "{steps}");
    for step in 0..=steps {
        for fault in [None, Some(Fault::Eio), Some(Fault::Enospc)] {
            let env = SimEnv::new(1);
            let (database, first) = backed_up(&env);
            let second = state(&database);
            let at = env.operations() + step;
            match fault {
                None => env.crash_at(at),
                Some(fault) => env.fail_at(at, fault),
            }
            let result = backup(&database);
            if fault.is_some() {
                env.heal();
            }
            drop(database);
            let env = match fault {
                None => env.after_crash(step),
                Some(_) => env,
            };
            let what = format!("step {step}, fault {fault:?}");
            let copy = Volumes::single("/copy");
            assert_eq!(restored(&env, 1, &copy).unwrap(), first, "{what}");
            if result.is_ok() {
                assert_eq!(restored(&env, 2, &copy).unwrap(), second, "{what}");
            }
            let database = open(&env, one()).unwrap();
            let report = backup(&database).unwrap();
            drop(database);
            let number = report.snapshot.number;
            assert_eq!(restored(&env, number, &copy).unwrap(), second, "{what}");
            // The files of the interrupted backup are removed.
            let files = env.files();
            let left = files.iter().find(|path| {
                path.starts_with("/backup/files") && path.extension().is_some_and(|e| e == "tmp")
            });
            assert_eq!(left, None, "{what}");
        }
    }
}

#[test]
fn a_restore_that_stops_at_any_step_is_no_database_and_can_begin_anew() {
    let env = SimEnv::new(1);
    let (database, first) = backed_up(&env);
    database.close().unwrap();
    let two = volumes_of(&["/copy", "/copy2"]);
    let before = env.operations();
    assert_eq!(restored(&env, 1, &two).unwrap(), first);
    let steps = env.operations() - before;
    for step in 0..steps {
        for fault in [None, Some(Fault::Eio)] {
            let env = SimEnv::new(1);
            let (database, _) = backed_up(&env);
            database.close().unwrap();
            let at = env.operations() + step;
            match fault {
                None => env.crash_at(at),
                Some(fault) => env.fail_at(at, fault),
            }
            let result = quiredb::operations::restore(
                env.clone(),
                backup_dir(),
                Some(1),
                &two,
                &mut |_, _| {},
            );
            env.heal();
            let env = match fault {
                None => env.after_crash(step),
                Some(_) => env,
            };
            let what = format!("step {step}, fault {fault:?}: {result:?}");
            let options = DatabaseOptions {
                create_if_missing: false,
                ..DatabaseOptions::default()
            };
            match DatabaseBuilder::on(&two)
                .env(env.clone())
                .options(options)
                .open()
            {
                Ok(database) => {
                    assert_eq!(state(&database), first, "{what}");
                    database.close().unwrap();
                }
                Err(error) => {
                    assert!(result.is_err(), "{what}: {error}");
                    let kind = error.kind();
                    assert!(
                        matches!(kind, ErrorKind::Invalid | ErrorKind::NotFound),
                        "{what}: {error}"
                    );
                    assert_eq!(restored(&env, 1, &two).unwrap(), first, "{what}");
                }
            }
        }
    }
}

#[test]
fn no_damage_of_a_backup_is_restored() {
    let env = SimEnv::new(1);
    let (database, first) = backed_up(&env);
    drop(database);
    let copy = Volumes::single("/copy");
    let files = env.files().into_iter();
    let files: Vec<_> = files
        .filter(|path| path.starts_with(backup_dir()))
        .collect();
    let mut refused = 0;
    for path in files {
        let bytes = env.read_all(&path).unwrap();
        let step = (bytes.len() as u64 * 8 / 60).max(1) | 1;
        for bit in (0..bytes.len() as u64 * 8).step_by(step as usize) {
            env.flip_bit(&path, bit).unwrap();
            let what = format!("{}: bit {bit}", path.display());
            match restored(&env, 1, &copy) {
                Ok(found) => assert_eq!(found, first, "{what}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
                    assert!(error.to_string().contains("/backup/"), "{what}: {error}");
                    refused += 1;
                }
            }
            env.flip_bit(&path, bit).unwrap();
        }
        if !bytes.is_empty() {
            env.truncate_file(&path, bytes.len() as u64 / 2).unwrap();
            let error = restored(&env, 1, &copy).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            env.replace(&path, &bytes).unwrap();
        }
    }
    assert!(refused > 300, "{refused}");
    assert_eq!(restored(&env, 1, &copy).unwrap(), first);
}

#[test]
fn a_damaged_database_is_not_backed_up_and_the_damage_is_named() {
    let names = {
        let env = SimEnv::new(1);
        let (database, _) = backed_up(&env);
        drop(database);
        env.files()
    };
    let mut seen = 0;
    for path in names {
        let kept = path.starts_with("/db/c00000001")
            && path.extension().is_some_and(|e| e == "table" || e == "log");
        if !kept {
            continue;
        }
        let env = SimEnv::new(1);
        let (database, first) = backed_up(&env);
        let bits = env.read_all(&path).unwrap().len() as u64 * 8;
        env.flip_bit(&path, bits / 3).unwrap();
        match backup(&database) {
            // A file that the first backup has, or that the manifest does not name any more, is not
            // read again.
            Ok(report) => {
                let second = state_of_backup(&env, report.snapshot.number);
                assert_eq!(second.len(), 1);
            }
            Err(error) => {
                seen += 1;
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                let name = path.file_name().unwrap().to_str().unwrap();
                assert!(error.to_string().contains(name), "{error}");
            }
        }
        drop(database);
        assert_eq!(restored(&env, 1, &Volumes::single("/copy")).unwrap(), first);
    }
    assert!(seen >= 3, "{seen}");
}

fn state_of_backup(env: &Arc<SimEnv>, number: u64) -> State {
    restored(env, number, &Volumes::single("/copy")).unwrap()
}

#[test]
fn a_second_backup_copies_only_what_is_new() {
    let env = SimEnv::new(1);
    let database = open(&env, one()).unwrap();
    let logs = database.create_collection("logs", settings()).unwrap();
    let write = |from: u32| {
        let filler = "z".repeat(2000);
        let batch = (from..from + 100).map(|number| {
            let json = format!(r#"{{"n":{number},"text":"{filler}"}}"#);
            Write::put(
                Key::from(number),
                Document::from_json(json.as_bytes()).unwrap(),
            )
        });
        logs.batch().writes(batch).write();
    };
    (0..10).for_each(|part| write(part * 100));
    database.flush().unwrap();
    let all = backup(&database).unwrap();
    assert_eq!(all.copied_bytes, all.snapshot.bytes);
    assert_eq!(backup(&database).unwrap().copied_bytes, 0);
    write(5000);
    let more = backup(&database).unwrap();
    assert!(
        more.copied_bytes > 0 && more.copied_bytes < all.copied_bytes / 4,
        "{more:?}"
    );
    let expected = state(&database);
    assert_eq!(state_of_backup(&env, 3), expected);

    // With the others removed it is still whole, and no file is left that it does not need.
    let options = BackupOptions {
        keep: Some(1),
        ..BackupOptions::default()
    };
    let last = operations::backup(&database, backup_dir(), &options, &mut go_on).unwrap();
    assert_eq!(last.removed_snapshots, [1, 2, 3]);
    assert_eq!(state_of_backup(&env, 4), expected);
    let pieces = env.files().into_iter();
    let pieces = pieces.filter(|path| path.starts_with("/backup/files"));
    let bytes: u64 = pieces
        .map(|path| env.read_all(&path).unwrap().len() as u64)
        .sum();
    assert_eq!(bytes, last.snapshot.bytes);
}

#[test]
fn copies_that_went_different_ways_can_be_backed_up_to_one_place() {
    let env = SimEnv::new(1);
    let (database, first) = backed_up(&env);
    database.close().unwrap();
    let copy = Volumes::single("/copy");
    quiredb::operations::restore(env.clone(), backup_dir(), Some(1), &copy, &mut |_, _| {})
        .unwrap();
    let mut expected = vec![first];
    for (volumes, word) in [(one(), "here"), (copy, "there"), (one(), "home")] {
        let database = open(&env, volumes).unwrap();
        let letters = database.collection("letters").unwrap();
        for number in 0..20u32 {
            // Of one length, so that logs and tables differ in nothing but what is in them.
            let json = format!(r#"{{"word":"{word:5}"}}"#);
            letters
                .put_at(
                    &Key::from(number),
                    &Document::from_json(json.as_bytes()).unwrap(),
                )
                .unwrap();
        }
        letters.flush().unwrap();
        backup(&database).unwrap();
        expected.push(state(&database));
        database.close().unwrap();
    }
    for (at, state) in expected.iter().enumerate() {
        let target = Volumes::single("/third");
        assert_eq!(
            &restored(&env, at as u64 + 1, &target).unwrap(),
            state,
            "{at}"
        );
    }
}

#[test]
fn what_is_no_place_for_it_is_refused_and_left_alone() {
    let env = SimEnv::new(1);
    let (database, _) = backed_up(&env);
    let to = |path: &str| {
        operations::backup(
            &database,
            Path::new(path),
            &BackupOptions::default(),
            &mut go_on,
        )
    };
    env.create_dir_all(Path::new("/home")).unwrap();
    env.replace(Path::new("/home/letter.txt"), b"dear all")
        .unwrap();
    for (path, word) in [("/home", "no backup"), ("/db", "no backup")] {
        let error = to(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(env.list(Path::new("/home")).unwrap(), ["letter.txt"]);

    let other = open(&env, Volumes::single("/other")).unwrap();
    let error = backup(&other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("backup of database"), "{error}");

    let restore = |from: &str, number, target: &str| {
        let target = Volumes::single(target);
        quiredb::operations::restore(
            env.clone(),
            Path::new(from),
            number,
            &target,
            &mut |_, _| {},
        )
        .unwrap_err()
    };
    assert_eq!(restore("/home", None, "/new").kind(), ErrorKind::NotFound);
    let error = restore("/backup", Some(9), "/new");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("(it has: 1)"), "{error}");
    for target in ["/home", "/db", "/other", "/backup"] {
        assert_eq!(
            restore("/backup", None, target).kind(),
            ErrorKind::Invalid,
            "{target}"
        );
    }
    assert_eq!(env.list(Path::new("/home")).unwrap(), ["letter.txt"]);
    assert!(!env.exists(Path::new("/new")).unwrap());

    // One at a time.
    let mut inner = None;
    operations::backup(
        &database,
        backup_dir(),
        &BackupOptions::default(),
        &mut |_, _| {
            inner.get_or_insert_with(|| backup(&database).unwrap_err().kind());
            Continue(())
        },
    )
    .unwrap();
    assert_eq!(inner, Some(ErrorKind::Locked));
}
