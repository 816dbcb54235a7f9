//! A lost volume is replaced from a backup: of the database, or of a follower.

use crate::volumes::{builder, key, schema};
use quiredb::operations::{
    BackupOptions, ReplaceOptions, ReplaceReport, VerifyOptions, backup, replace_volumes, restore,
    verify,
};
use quiredb::wide::WideCollection;
use quiredb::{
    CollectionSettings, Database, DatabaseBuilder, Document, Env, ErrorKind, Medium, SimEnv,
    Volumes,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Tested<T = ()> = Result<T, Box<dyn std::error::Error>>;

const BACKUP: &str = "/backup";
const COLD: &str = "/hdd/db";

fn settings(partitions: u32) -> CollectionSettings {
    CollectionSettings {
        partitions,
        ..CollectionSettings::default()
    }
}

/// Writes pages `from` to `to`, and as many cars, and flushes them.
fn write(database: &Database, from: u32, to: u32) -> quiredb::Result<()> {
    let pages = database.wide_collection("pages")?;
    let cars = database.collection("cars")?;
    for number in from..to {
        let html = number.to_string().repeat(100);
        let json = format!(r#"{{"title":"page {number}","html":"{html}"}}"#);
        pages.put(&key(number), &Document::from_json(json.as_bytes())?)?;
        let json = format!(r#"{{"price":{number}}}"#);
        cars.put_at(&key(number), &Document::from_json(json.as_bytes())?)?;
    }
    pages.flush()?;
    cars.flush()
}

/// A database on an SSD and an HDD, with 40 pages and cars.
fn create(env: &Arc<SimEnv>) -> quiredb::Result<Database> {
    let database = builder(env).volume("cold", COLD, Medium::Hdd).open()?;
    database.create_wide_collection("pages", schema(), settings(2))?;
    database.create_collection("cars", settings(2))?;
    write(&database, 0, 40)?;
    Ok(database)
}

fn back_up(database: &Database) -> quiredb::Result<()> {
    back_up_to(database, BACKUP)
}

fn back_up_to(database: &Database, to: &str) -> quiredb::Result<()> {
    let options = BackupOptions::default();
    let goes_on = &mut |_, _| ControlFlow::Continue(());
    backup(database, Path::new(to), &options, goes_on)?;
    Ok(())
}

/// Every document, as JSON.
fn contents(database: &Database) -> Tested<Vec<String>> {
    let pages = database.wide_collection("pages")?;
    let rows = pages.rows()?.collect::<Result<Vec<_>, _>>()?;
    let mut all: Vec<_> = rows.iter().map(|row| row.document.to_json()).collect();
    for found in database.collection("cars")?.view()?.scan(..)? {
        all.push(found?.document.to_json());
    }
    all.sort();
    Ok(all)
}

/// As if the disk were gone.
fn lose(env: &Arc<SimEnv>) -> quiredb::Result<()> {
    env.remove_dir_all(Path::new("/hdd"))?;
    Ok(env.create_dir_all(Path::new(COLD))?)
}

fn replace(env: &Arc<SimEnv>, options: &ReplaceOptions) -> quiredb::Result<ReplaceReport> {
    let volumes = Volumes::single("/ssd/db");
    let from = Path::new(BACKUP);
    replace_volumes(env.clone(), &volumes, from, options, &mut |_, _| {})
}

/// Opens the database, and compares it with what it was; writes to it, and verifies it.
fn check(env: &Arc<SimEnv>, expected: &[String]) -> Tested {
    let database = builder(env).create(false).open()?;
    assert!(database.volume_stats().iter().all(|volume| !volume.lost));
    assert_eq!(contents(&database)?, expected);
    write(&database, 1000, 1010)?;
    database.wide_collection("pages")?.compact()?;
    assert_eq!(contents(&database)?.len(), expected.len() + 20);
    database.close()?;
    let (volumes, options) = (Volumes::single("/ssd/db"), VerifyOptions::default());
    let found = verify(env.clone(), volumes, &options, &mut |_, _| {})?;
    assert!(found.damage.is_empty(), "{:?}", found.damage);
    for dir in ["/ssd/db", COLD] {
        let names = env.list(Path::new(dir)).unwrap_or_default();
        let left = names
            .iter()
            .find(|name| name.to_lowercase().starts_with("repla"));
        assert_eq!(left, None, "nothing of the replacement is left in {dir}");
    }
    Ok(())
}

#[test]
fn tables_that_the_backup_has_are_copied_and_the_rest_stays() -> Tested {
    let env = SimEnv::new(1);
    let database = create(&env)?;
    back_up(&database)?;
    // What lies on the SSD alone may go on meanwhile.
    let cars = database.collection("cars")?;
    cars.put_at(&key(5000), &Document::from_json(br#"{"price":1}"#)?)?;
    cars.flush()?;
    let expected = contents(&database)?;
    database.close()?;
    lose(&env)?;

    let dry = ReplaceOptions {
        dry_run: true,
        ..ReplaceOptions::default()
    };
    let planned = replace(&env, &dry)?;
    assert!(env.list(Path::new(COLD))?.is_empty(), "nothing is changed");
    let report = replace(&env, &ReplaceOptions::default())?;
    assert_eq!(report.partitions, planned.partitions);
    assert_eq!(report.volumes, planned.volumes);
    assert_eq!(report.volumes[0].name, "cold");
    let partitions = report.partitions.iter();
    let partitions: Vec<_> = partitions
        .map(|one| (&*one.collection, one.restored))
        .collect();
    assert_eq!(partitions, [("pages", false), ("pages", false)]);
    check(&env, &expected)?;
    let none = replace(&env, &ReplaceOptions::default()).unwrap_err();
    assert!(
        none.to_string()
            .contains("no volume of the database is lost"),
        "{none}"
    );
    Ok(())
}

#[test]
fn what_came_after_the_backup_is_taken_from_the_log() -> Tested {
    let env = SimEnv::new(2);
    let database = create(&env)?;
    back_up(&database)?;
    let pages = database.wide_collection("pages")?;
    write_after_backup(&database, &pages)?;
    let expected = contents(&database)?;
    database.close()?;
    lose(&env)?;
    let moved = ReplaceOptions {
        paths: BTreeMap::from([("cold".to_owned(), PathBuf::from("/new/db"))]),
        ..ReplaceOptions::default()
    };
    let report = replace(&env, &moved)?;
    assert!(
        report
            .partitions
            .iter()
            .any(|one| one.restored && one.records > 0),
        "{report:?}"
    );
    assert!(env.exists(Path::new("/new/db/VOLUME"))?);
    assert!(
        env.list(Path::new(COLD))?.is_empty(),
        "the old directory is left alone"
    );
    check(&env, &expected)
}

fn write_after_backup(database: &Database, pages: &WideCollection) -> quiredb::Result<()> {
    write(database, 40, 60)?;
    pages.delete(&key(3))?;
    pages.flush()
}

#[test]
fn a_schema_and_settings_that_changed_after_the_backup_are_kept() -> Tested {
    let env = SimEnv::new(11);
    let database = create(&env)?;
    back_up(&database)?;
    let column = br#"{"type":"integer","group":"cold"}"#;
    let pages = database.alter_wide_collection("pages", |schema| {
        let renamed = schema.with_renamed("title", "heading")?;
        renamed.with_property("size", column)
    })?;
    let row = br#"{"heading":"new","html":"x","size":7}"#;
    pages.put(&key(1), &Document::from_json(row)?)?;
    pages.flush()?;
    let expected = contents(&database)?;
    database.close()?;
    lose(&env)?;
    let report = replace(&env, &ReplaceOptions::default())?;
    assert!(
        report.partitions.iter().any(|one| one.restored),
        "{report:?}"
    );
    let database = builder(&env).create(false).open()?;
    assert_eq!(contents(&database)?, expected);
    let columns = database.wide_collection("pages")?.settings().wide.clone();
    assert!(columns.is_some_and(|schema| schema.to_json().contains("size")));
    database.close()?;

    // A collection that is newer than the backup.
    let database = builder(&env).create(false).open()?;
    let newer = database.create_wide_collection("newer", schema(), settings(1))?;
    newer.put(&key(1), &Document::from_json(br#"{"html":"x"}"#)?)?;
    newer.flush()?;
    database.close()?;
    lose(&env)?;
    let refused = replace(&env, &ReplaceOptions::default()).unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains(r#"collection "newer" is newer than snapshot 1"#),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_backup_from_before_the_database_was_set_back_is_refused() -> Tested {
    let env = SimEnv::new(13);
    let database = create(&env)?;
    back_up_to(&database, "/older")?;
    write(&database, 100, 120)?;
    back_up(&database)?;
    database.close()?;
    for dir in ["/ssd", "/hdd"] {
        env.remove_dir_all(Path::new(dir))?;
    }
    let volumes = Volumes::named([
        ("first".to_owned(), PathBuf::from("/ssd/db"), Medium::Ssd),
        ("cold".to_owned(), PathBuf::from(COLD), Medium::Hdd),
    ])?;
    restore(
        env.clone(),
        Path::new("/older"),
        None,
        &volumes,
        &mut |_, _| {},
    )?;
    let database = builder(&env).open()?;
    write(&database, 200, 240)?;
    let expected = contents(&database)?;
    back_up_to(&database, "/newest")?;
    database.close()?;
    lose(&env)?;
    let refused = replace(&env, &ReplaceOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert!(env.list(Path::new(COLD))?.iter().all(|name| name == "LOCK"));
    env.remove_dir_all(Path::new(BACKUP))?;
    env.rename(Path::new("/newest"), Path::new(BACKUP))?;
    replace(&env, &ReplaceOptions::default())?;
    check(&env, &expected)
}

#[test]
fn a_follower_with_other_files_on_one_volume_gives_what_was_lost() -> Tested {
    let env = SimEnv::new(7);
    let database = create(&env)?;
    write(&database, 30, 50)?;
    back_up_to(&database, "/nightly")?;
    let expected = contents(&database)?;
    database.close()?;
    // A follower is a copy that writes files of its own.
    let copy = Volumes::single("/copy");
    restore(
        env.clone(),
        Path::new("/nightly"),
        None,
        &copy,
        &mut |_, _| {},
    )?;
    let follower = DatabaseBuilder::on(&copy).env(env.clone()).open()?;
    follower.wide_collection("pages")?.compact()?;
    back_up(&follower)?;
    follower.close()?;
    lose(&env)?;
    let report = replace(&env, &ReplaceOptions::default())?;
    let partitions = report.partitions.iter();
    let partitions: Vec<_> = partitions.map(|one| (one.restored, one.records)).collect();
    assert_eq!(partitions, [(true, 0), (true, 0)]);
    check(&env, &expected)
}

#[test]
fn where_the_log_lacks_what_came_after_a_backup_only_a_newer_one_is_taken() -> Tested {
    let env = SimEnv::new(8);
    let database = builder(&env).segment(64 << 10);
    let database = database.volume("cold", COLD, Medium::Hdd).open()?;
    // The partitions of a collection share how much of the log is kept: each has little of it.
    let pages = database.create_wide_collection("pages", schema(), settings(512))?;
    let mut random = 1_u64;
    let mut put = || -> quiredb::Result<()> {
        let mut html = String::new();
        for _ in 0..4000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            html.push_str(&random.to_string());
        }
        let json = format!(r#"{{"title":"one","html":"{html}"}}"#);
        pages.put(&key(1), &Document::from_json(json.as_bytes())?)?;
        pages.flush()
    };
    put()?;
    back_up(&database)?;
    for _ in 0..40 {
        put()?;
    }
    back_up_to(&database, "/newer")?;
    let expected = pages.get(&key(1))?.map(|found| found.document);
    database.close()?;
    lose(&env)?;
    let names = || env.list(Path::new("/ssd/db"));
    let before = names()?;
    let refused = replace(&env, &ReplaceOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    let said = refused.to_string();
    assert!(
        said.contains("the log here no longer has all records"),
        "{said}"
    );
    assert!(said.contains(r#"of collection "pages""#), "{said}");
    assert_eq!(names()?, before);
    env.remove_dir_all(Path::new(BACKUP))?;
    env.rename(Path::new("/newer"), Path::new(BACKUP))?;
    replace(&env, &ReplaceOptions::default())?;
    let database = builder(&env).create(false).open()?;
    let found = database.wide_collection("pages")?.get(&key(1))?;
    assert_eq!(found.map(|found| found.document), expected);
    Ok(database.close()?)
}

#[test]
fn a_plain_collection_over_two_disks_is_whole_again_from_any_backup() -> Tested {
    let env = SimEnv::new(9);
    for disk in ["/ssd", "/hdd"] {
        env.set_capacity_below(Path::new(disk), 100 << 20);
    }
    let database = builder(&env).volume("second", COLD, Medium::Ssd).open()?;
    let cars = database.create_collection("cars", settings(3))?;
    let mut expected = 0;
    for round in 0..8 {
        for number in 0..30 {
            let json = format!(r#"{{"price":{number},"round":{round}}}"#);
            cars.put_at(
                &key(20 * round + number),
                &Document::from_json(json.as_bytes())?,
            )?;
        }
        cars.flush()?;
        expected = cars.count()?;
        if round == 2 {
            back_up(&database)?;
        }
    }
    let all = |database: &Database| -> Tested<Vec<String>> {
        let view = database.collection("cars")?.view()?;
        let found = view.scan(..)?.map(|found| Ok(found?.document.to_json()));
        found.collect()
    };
    let before = all(&database)?;
    assert_eq!(before.len() as u64, expected);
    database.close()?;
    lose(&env)?;
    let report = replace(&env, &ReplaceOptions::default())?;
    assert!(
        report.partitions.iter().any(|one| one.records > 0),
        "{report:?}"
    );
    let database = builder(&env).create(false).open()?;
    assert_eq!(all(&database)?, before);
    database.close()?;
    let (volumes, options) = (Volumes::single("/ssd/db"), VerifyOptions::default());
    let found = verify(env.clone(), volumes, &options, &mut |_, _| {})?;
    assert!(found.damage.is_empty(), "{:?}", found.damage);
    Ok(())
}

#[test]
fn a_backup_without_what_was_lost_changes_nothing_and_says_why() -> Tested {
    let env = SimEnv::new(3);
    let database = create(&env)?;
    database.close()?;
    lose(&env)?;
    let none = replace(&env, &ReplaceOptions::default()).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::NotFound, "{none}");
    // The backup of another database.
    let other = Database::builder("/other").env(env.clone()).open()?;
    back_up(&other)?;
    other.close()?;
    let foreign = replace(&env, &ReplaceOptions::default()).unwrap_err();
    assert!(
        foreign.to_string().contains("is a backup of database"),
        "{foreign}"
    );
    let wrong = ReplaceOptions {
        paths: BTreeMap::from([("first".to_owned(), PathBuf::from("/new/db"))]),
        ..ReplaceOptions::default()
    };
    env.remove_dir_all(Path::new(BACKUP))?;
    env.remove_dir_all(Path::new("/ssd"))?;
    env.remove_dir_all(Path::new("/hdd"))?;

    let database = create(&env)?;
    back_up(&database)?;
    let expected = contents(&database)?;
    database.close()?;
    lose(&env)?;
    let refused = replace(&env, &wrong).unwrap_err();
    assert!(
        refused.to_string().contains("volume first is not lost"),
        "{refused}"
    );
    env.replace(Path::new("/hdd/db/notes"), b"something else")?;
    let taken = replace(&env, &ReplaceOptions::default()).unwrap_err();
    assert!(taken.to_string().contains("holds notes"), "{taken}");
    env.remove(Path::new("/hdd/db/notes"))?;
    replace(&env, &ReplaceOptions::default())?;
    check(&env, &expected)
}

#[test]
fn a_damaged_file_of_the_backup_is_named_and_nothing_is_changed() -> Tested {
    let env = SimEnv::new(4);
    let database = create(&env)?;
    back_up(&database)?;
    let expected = contents(&database)?;
    database.close()?;
    lose(&env)?;
    let mut tables = Vec::new();
    let mut dirs = vec![PathBuf::from("/backup/files")];
    while let Some(dir) = dirs.pop() {
        for name in env.list(&dir)? {
            let path = dir.join(&name);
            match name.starts_with("table-") {
                true => tables.push(path),
                false if !name.contains('-') => dirs.push(path),
                false => {}
            }
        }
    }
    let mut named = 0;
    for path in &tables {
        let whole = env.read(path, 1 << 20)?;
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        env.replace(path, &bytes)?;
        match replace(
            &env,
            &ReplaceOptions {
                dry_run: false,
                ..ReplaceOptions::default()
            },
        ) {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(
                    error.to_string().contains(&path.display().to_string()),
                    "{error}"
                );
                named += 1;
            }
            // The file was not needed.
            Ok(_) => {
                check(&env, &expected)?;
                assert!(named == 0, "then the volume would not have been lost");
                return Ok(());
            }
        }
        env.replace(path, &whole)?;
    }
    assert!(named > 0);
    replace(&env, &ReplaceOptions::default())?;
    check(&env, &expected)
}

#[test]
fn a_crash_at_any_step_leaves_a_database_that_the_next_replacement_makes_whole() -> Tested {
    for after_backup in [false, true] {
        let prepare = |env: &Arc<SimEnv>| -> Tested<Vec<String>> {
            let database = create(env)?;
            back_up(&database)?;
            if after_backup {
                let pages = database.wide_collection("pages")?;
                write_after_backup(&database, &pages)?;
            }
            let expected = contents(&database)?;
            database.close()?;
            lose(env)?;
            Ok(expected)
        };
        let whole = SimEnv::new(5);
        let expected = prepare(&whole)?;
        let begin = whole.operations();
        replace(&whole, &ReplaceOptions::default())?;
        let end = whole.operations();
        check(&whole, &expected)?;
        assert!(end - begin > 50);
        for step in begin..end {
            let env = SimEnv::new(5);
            prepare(&env)?;
            env.crash_at(step);
            replace(&env, &ReplaceOptions::default()).unwrap_err();
            let env = env.after_crash(step);
            let again = replace(&env, &ReplaceOptions::default());
            match again {
                Ok(_) => {}
                // It was complete but for what an opening tidies up.
                Err(error) if error.to_string().contains("is lost") => {}
                Err(error) => return Err(format!("crash at step {step}: {error}").into()),
            }
            check(&env, &expected).map_err(|error| format!("crash at step {step}: {error}"))?;
        }
    }
    Ok(())
}

#[test]
fn a_database_without_collections_gets_its_volume_back() -> Tested {
    let env = SimEnv::new(10);
    let database = builder(&env).volume("cold", COLD, Medium::Hdd).open()?;
    back_up(&database)?;
    database.close()?;
    lose(&env)?;
    let report = replace(&env, &ReplaceOptions::default())?;
    assert_eq!(report.volumes.len(), 1);
    let database = builder(&env).open()?;
    assert!(!database.volume_stats()[1].lost);
    Ok(database.close()?)
}

#[test]
fn all_lost_volumes_are_replaced_at_once() -> Tested {
    let env = SimEnv::new(12);
    for disk in ["/ssd", "/hdd", "/hdd2"] {
        env.set_capacity_below(Path::new(disk), 100 << 20);
    }
    let database = builder(&env)
        .volume("cold", COLD, Medium::Hdd)
        .volume("more", "/hdd2/db", Medium::Hdd)
        .open()?;
    database.create_wide_collection("pages", schema(), settings(2))?;
    database.create_collection("cars", settings(2))?;
    for round in 0..5 {
        write(&database, 10 * round, 10 * round + 20)?;
        if round == 2 {
            back_up(&database)?;
        }
    }
    let volumes = &database.wide_collection("pages")?.stats()?.groups[1].volumes;
    assert_eq!(volumes.len(), 2, "there are tables on both disks");
    let expected = contents(&database)?;
    database.close()?;
    lose(&env)?;
    env.remove_dir_all(Path::new("/hdd2"))?;
    let report = replace(&env, &ReplaceOptions::default())?;
    assert_eq!(report.volumes.len(), 2);
    assert!(env.exists(Path::new("/hdd2/db/VOLUME"))?);
    check(&env, &expected)
}

#[test]
fn a_full_disk_changes_nothing() -> Tested {
    let env = SimEnv::new(6);
    let database = create(&env)?;
    back_up(&database)?;
    let expected = contents(&database)?;
    database.close()?;
    lose(&env)?;
    env.set_capacity_below(Path::new("/hdd"), 3000);
    let full = replace(&env, &ReplaceOptions::default()).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Full, "{full}");
    env.set_capacity_below(Path::new("/hdd"), 100 << 20);
    let database = builder(&env).open()?;
    assert!(database.volume_stats()[1].lost);
    database.close()?;
    replace(&env, &ReplaceOptions::default())?;
    check(&env, &expected)
}
