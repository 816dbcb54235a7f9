//! Databases on several volumes: where tables go, and what is left when a disk is.

use quire_seeded::{Bug, assert_each_is_found};
use quiredb::operations::{BackupOptions, VerifyOptions, backup, verify};
use quiredb::wide::{Schema, WideCollection};
use quiredb::{
    CollectionSettings, Database, DatabaseBuilder, Document, Env, ErrorKind, Key, Medium, SimEnv,
    Volumes,
};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

type Tested = Result<(), Box<dyn std::error::Error>>;

pub(crate) fn builder(env: &Arc<SimEnv>) -> DatabaseBuilder {
    Database::builder("/ssd/db")
        .env(env.clone())
        .scrub_every(None)
}

/// A database on an SSD and two HDDs.
fn create(env: &Arc<SimEnv>) -> quiredb::Result<Database> {
    let (one, two) = ("/hdd1/db", "/hdd2/db");
    let builder = builder(env).volume("one", one, Medium::Hdd);
    builder.volume("two", two, Medium::Hdd).open()
}

pub(crate) fn schema() -> Schema {
    let schema = Schema::from_json(
        br#"{
            "properties": {
                "title": {"type": "string"},
                "html": {"type": "string", "group": "cold"}
            },
            "groups": {"cold": {"tier": "hdd", "codec": "none"}}
        }"#,
    );
    schema.unwrap()
}

fn settings() -> CollectionSettings {
    CollectionSettings {
        partitions: 1,
        ..CollectionSettings::default()
    }
}

pub(crate) fn key(number: u32) -> Key {
    Key::parse(&format!("page-{number}")).unwrap()
}

fn put(pages: &WideCollection, number: u32) -> quiredb::Result<()> {
    let html = number.to_string().repeat(100);
    let json = format!(r#"{{"title":"page {number}","html":"{html}"}}"#);
    pages.put(&key(number), &Document::from_json(json.as_bytes())?)?;
    Ok(())
}

/// Three flushes of rows.
fn fill(pages: &WideCollection) -> quiredb::Result<()> {
    for number in 0..90 {
        put(pages, number)?;
        if number % 30 == 29 {
            pages.flush()?;
        }
    }
    Ok(())
}

/// How many rows there are; each is read.
fn count_rows(pages: &WideCollection) -> quiredb::Result<usize> {
    let rows = pages.rows()?.collect::<Result<Vec<_>, _>>()?;
    Ok(rows.len())
}

fn title(pages: &WideCollection, number: u32) -> quiredb::Result<Option<String>> {
    let found = pages.get_columns(&key(number), &["title"])?;
    Ok(found.map(|found| found.document.to_json()))
}

#[test]
fn tables_of_a_group_lie_on_the_volumes_of_its_tier_and_an_opening_needs_only_the_first() -> Tested
{
    let env = SimEnv::new(1);
    for disk in ["/ssd", "/hdd1", "/hdd2"] {
        env.set_capacity_below(Path::new(disk), 100 << 20);
    }
    let database = create(&env)?;
    let pages = database.create_wide_collection("pages", schema(), settings())?;
    database.create_collection("plain", settings())?;
    fill(&pages)?;
    let stats = pages.stats()?;
    let on = |at: usize| stats.groups[at].volumes.keys().cloned().collect::<Vec<_>>();
    assert_eq!(on(0), ["first"]);
    assert_eq!(on(1), ["one", "two"], "spread over both disks: {stats:?}");
    database.close()?;

    let database = builder(&env).create(false).open()?;
    let names = database
        .volume_stats()
        .into_iter()
        .map(|volume| (volume.name, volume.medium));
    let names: Vec<_> = names.collect();
    let expected = [("first", "ssd"), ("one", "hdd"), ("two", "hdd")];
    assert_eq!(
        names,
        expected.map(|(name, medium)| (name.to_string(), medium.to_string()))
    );
    let pages = database.wide_collection("pages")?;
    pages.compact()?;
    assert_eq!(pages.rows()?.count(), 90);
    database.drop_collection("pages")?;
    for disk in ["/hdd1/db", "/hdd2/db"] {
        let left = env.list(Path::new(disk))?;
        assert_eq!(
            left,
            ["LOCK", "VOLUME", "c00000002"],
            "nothing of what was dropped is left"
        );
    }
    database.close()?;
    let two = builder(&env).volumes(["/hdd1/db"]).open();
    assert_eq!(two.unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}

#[test]
fn tier_without_a_volume_is_refused_and_a_foreign_directory_too() -> Tested {
    let env = SimEnv::new(1);
    let database = builder(&env).open()?;
    let refused = database.create_wide_collection("pages", schema(), settings());
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("quire volume add"), "{error}");
    env.create_dir_all(Path::new("/other/files"))?;
    let added = database.add_volume("cold", Path::new("/other"), Medium::Hdd);
    assert_eq!(added.unwrap_err().kind(), ErrorKind::Invalid);
    database.add_volume("cold", Path::new("/hdd1/db"), Medium::Hdd)?;
    let taken = database.add_volume("cold", Path::new("/hdd2/db"), Medium::Hdd);
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::Invalid);
    database.create_wide_collection("pages", schema(), settings())?;
    database.close()?;
    // The disk of another database, mounted here.
    env.remove_dir_all(Path::new("/hdd1/db"))?;
    let other = Database::builder("/x")
        .env(env.clone())
        .volumes(["/hdd1/db"]);
    other.open()?.close()?;
    assert_eq!(builder(&env).open().unwrap_err().kind(), ErrorKind::Invalid);
    Ok(())
}

#[test]
fn lost_volume_is_named_and_what_does_not_lie_on_it_is_served() -> Tested {
    let env = SimEnv::new(1);
    let database = create(&env)?;
    let pages = database.create_wide_collection("pages", schema(), settings())?;
    let plain = database.create_collection("plain", settings())?;
    let document = Document::from_json(br#"{"a":1}"#)?;
    plain.put_at(&key(1), &document)?;
    fill(&pages)?;
    database.close()?;
    let bytes =
        |env: &Arc<SimEnv>| env.read(Path::new("/ssd/db/c00000001/p0000/MANIFEST"), 1 << 20);
    let manifest = bytes(&env)?;
    // As if the disks were not mounted.
    for disk in ["/hdd1/db", "/hdd2/db"] {
        env.rename(Path::new(disk), Path::new(&format!("{disk}.away")))?;
        env.create_dir_all(Path::new(disk))?;
    }

    let database = builder(&env).open()?;
    assert!(database.volume_stats()[1].lost && !database.volume_stats()[0].lost);
    let plain = database.collection("plain")?;
    plain.put_at(&key(2), &document)?;
    assert!(plain.get(&key(1))?.is_some());
    let pages = database.wide_collection("pages")?;
    assert_eq!(
        title(&pages, 7)?.as_deref(),
        Some(r#"{"_id":"page-7","title":"page 7"}"#)
    );
    for error in [
        pages.get(&key(7)).unwrap_err(),
        pages.get_columns(&key(7), &["html"]).unwrap_err(),
        put(&pages, 1000).unwrap_err(),
        pages.flush().unwrap_err(),
        pages.compact().unwrap_err(),
        backup(
            &database,
            Path::new("/backup"),
            &BackupOptions::default(),
            &mut |_, _| ControlFlow::Continue(()),
        )
        .unwrap_err(),
        database.create_collection("more", settings()).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("is lost"), "{error}");
    }
    assert!(pages.scan_columns(&["html"]).is_err());
    assert_eq!(
        pages
            .scan_columns(&["title"])?
            .map(|batch| batch.unwrap().keys.len())
            .sum::<usize>(),
        90
    );
    database.close()?;
    let volumes = Volumes::single("/ssd/db");
    let report = verify(
        env.clone(),
        volumes,
        &VerifyOptions::default(),
        &mut |_, _| {},
    )?;
    assert!(
        report
            .damage
            .iter()
            .any(|damage| damage.what.contains("is lost")),
        "{report:?}"
    );
    for disk in ["/hdd1/db", "/hdd2/db"] {
        assert!(
            env.list(Path::new(disk))?.is_empty(),
            "nothing is written to a mount point"
        );
        env.remove_dir_all(Path::new(disk))?;
        env.rename(Path::new(&format!("{disk}.away")), Path::new(disk))?;
    }
    assert_eq!(bytes(&env)?, manifest);

    let database = builder(&env).open()?;
    let pages = database.wide_collection("pages")?;
    assert_eq!(count_rows(&pages)?, 90);
    put(&pages, 1000)?;
    pages.compact()?;
    Ok(database.close()?)
}

#[test]
fn copy_of_the_first_volume_does_not_share_the_others() -> Tested {
    let env = SimEnv::new(1);
    let database = create(&env)?;
    let catalog = env.read(Path::new("/ssd/db/CATALOG"), 1 << 20)?;
    env.create_dir_all(Path::new("/copy"))?;
    env.replace(Path::new("/copy/CATALOG"), &catalog)?;
    let copy = Database::builder("/copy").env(env.clone()).open();
    assert_eq!(copy.unwrap_err().kind(), ErrorKind::Locked);
    Ok(database.close()?)
}

#[test]
fn bugs_of_lost_volumes_are_found() {
    assert_each_is_found(Bug::OF_VOLUMES, || {
        lost_volume_is_named_and_what_does_not_lie_on_it_is_served().unwrap();
    });
}

#[test]
fn full_or_failing_disk_gives_way_to_another_of_its_tier() -> Tested {
    let env = SimEnv::new(1);
    env.set_capacity_below(Path::new("/hdd1"), 100 << 20);
    env.set_capacity_below(Path::new("/hdd2"), 2000);
    let database = create(&env)?;
    let pages = database.create_wide_collection("pages", schema(), settings())?;
    fill(&pages)?;
    let stats = pages.stats()?;
    assert_eq!(stats.groups[1].volumes.keys().collect::<Vec<_>>(), ["one"]);
    env.set_capacity_below(Path::new("/hdd2"), 100 << 20);
    env.vanish(Path::new("/hdd1"), quire_env::Absence::Failing)?;
    put(&pages, 1000)?;
    // What lies on the disk can't be merged, and what is new goes to the other one.
    pages.flush()?;
    let stats = pages.stats()?;
    assert_eq!(
        stats.groups[1].volumes.keys().collect::<Vec<_>>(),
        ["one", "two"]
    );
    assert!(pages.get_columns(&key(1000), &["html"])?.is_some());
    env.bring_back(Path::new("/hdd1"));
    database.close()?;
    let database = builder(&env).open()?;
    let pages = database.wide_collection("pages")?;
    assert_eq!(count_rows(&pages)?, 91);
    Ok(database.close()?)
}

#[test]
fn crash_while_volumes_are_made_added_and_filled_leaves_a_database_that_opens() -> Tested {
    let work = |env: &Arc<SimEnv>, acked: &mut u32| -> quiredb::Result<()> {
        let database = builder(env).volume("one", "/hdd1/db", Medium::Hdd).open()?;
        let pages = database.create_wide_collection("pages", schema(), settings())?;
        database.add_volume("two", Path::new("/hdd2/db"), Medium::Hdd)?;
        database.close()?;
        drop(pages);
        let database = builder(env).open()?;
        let pages = database.wide_collection("pages")?;
        for number in 0..20 {
            put(&pages, number)?;
            *acked = number + 1;
            if number % 5 == 4 {
                pages.flush()?;
            }
        }
        pages.compact()?;
        database.close()
    };
    let whole = SimEnv::new(1);
    work(&whole, &mut 0)?;
    for step in 0..whole.operations() {
        let env = SimEnv::new(step);
        env.crash_at(step);
        let mut acked = 0;
        work(&env, &mut acked).unwrap_err();
        let env = env.after_crash(step);
        let database = match builder(&env).create(false).open() {
            Ok(database) => database,
            Err(error) if error.kind() == ErrorKind::NotFound && acked == 0 => builder(&env)
                .volume("one", "/hdd1/db", Medium::Hdd)
                .open()?,
            Err(error) => return Err(format!("crash at step {step}: {error}").into()),
        };
        let stats = database.volume_stats();
        assert!(
            stats.iter().all(|volume| !volume.lost),
            "crash at step {step}: {stats:?}"
        );
        if stats.len() < 3 {
            database.add_volume("two", Path::new("/hdd2/db"), Medium::Hdd)?;
        }
        let pages = match database.wide_collection("pages") {
            Ok(pages) => pages,
            Err(_) => database.create_wide_collection("pages", schema(), settings())?,
        };
        let rows = pages.rows()?.collect::<Result<Vec<_>, _>>()?;
        assert!(rows.len() as u32 >= acked, "crash at step {step}");
        put(&pages, 100)?;
        pages.compact()?;
        database.close()?;
        let found = verify(
            env.clone(),
            Volumes::single("/ssd/db"),
            &VerifyOptions::default(),
            &mut |_, _| {},
        )?;
        assert!(
            found.damage.is_empty(),
            "crash at step {step}: {:?}",
            found.damage
        );
    }
    Ok(())
}
