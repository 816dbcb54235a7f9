//! Column groups with two tiers, on an SSD and a hard disk.

use quiredb::operations::{
    BackupOptions, VerifyOptions, backup, repair, restore, verify, verify_open,
};
use quiredb::query::{field, find};
use quiredb::wide::{Cell, Change, RowWrite, Schema, WideCollection};
use quiredb::{
    CollectionSettings, Database, Document, Env, ErrorKind, Key, Medium, OsEnv, SimEnv, TierStats,
    Volumes,
};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

type Tested = Result<(), Box<dyn std::error::Error>>;

const TIERS: &str = r#"{"hot":"ssd","cold":"hdd","after":"1h","bytes_per_second":1000000}"#;

/// A group with these tiers.
fn schema(tiers: &str) -> Schema {
    let schema = Schema::from_json(
        format!(
            r#"{{
                "properties": {{
                    "title": {{"type": "string"}},
                    "html": {{"type": "string", "group": "content"}},
                    "links": {{"type": "object", "additionalProperties": {{"type": "string"}},
                               "group": "content"}}
                }},
                "groups": {{"content": {{"codec": "none", "tiers": {tiers}}}}}
            }}"#
        )
        .as_bytes(),
    );
    schema.unwrap()
}

fn open(env: &Arc<SimEnv>) -> quiredb::Result<Database> {
    let builder = Database::builder("/ssd/db").env(env.clone());
    let builder = builder.scrub_every(None);
    match env.exists(Path::new("/ssd/db/CATALOG"))? {
        true => builder.open(),
        false => builder.volume("cold", "/hdd/db", Medium::Hdd).open(),
    }
}

fn create(database: &Database) -> quiredb::Result<WideCollection> {
    let settings = CollectionSettings {
        partitions: 1,
        ..CollectionSettings::default()
    };
    database.create_wide_collection("pages", schema(TIERS), settings)
}

fn key(number: u32) -> Key {
    Key::parse(&format!("page-{number}")).unwrap()
}

fn put(pages: &WideCollection, number: u32, html_bytes: usize) -> quiredb::Result<()> {
    let html = "h".repeat(html_bytes);
    let json = format!(r#"{{"title":"page {number}","html":"{html}","links":{{"a":"{number}"}}}}"#);
    pages.put(&key(number), &Document::from_json(json.as_bytes())?)?;
    Ok(())
}

fn rows(pages: &WideCollection) -> quiredb::Result<Vec<String>> {
    let rows = pages.rows()?;
    rows.map(|row| Ok(row?.document.to_json())).collect()
}

fn tiers(pages: &WideCollection) -> quiredb::Result<TierStats> {
    let stats = pages.stats()?;
    let group = stats.groups.into_iter().find_map(|group| group.tiers);
    Ok(group.unwrap())
}

fn hour(env: &SimEnv) {
    env.advance(Duration::from_secs(3600));
}

#[test]
fn each_tier_lies_on_its_disk_and_without_the_cold_one_hot_rows_are_served() -> Tested {
    let env = SimEnv::new(1);
    let database = open(&env)?;
    let pages = create(&database)?;
    (0..60).try_for_each(|number| put(&pages, number, 200))?;
    let before = rows(&pages)?;
    hour(&env);
    pages.write(&RowWrite::patch(key(7)).with(Change::set("title", Cell::String("7".into()))))?;
    pages.write(&RowWrite::patch(key(8)).with(Change::set("html", Cell::String("new".into()))))?;
    let report = pages.tier()?;
    assert_eq!(report.rows, 59, "all but the one whose content was written");
    assert!(report.bytes > 59 * 200);
    pages.flush()?;
    let stats = tiers(&pages)?;
    assert_eq!((stats.rows_hot, stats.rows_cold), (1, 59));
    assert_eq!(stats.cold_volumes.keys().collect::<Vec<_>>(), ["cold"]);
    pages.compact()?;
    let all = pages.stats()?;
    let content = &all.groups[1].volumes;
    assert!(
        content["cold"] > 59 * 200 && content["first"] < 2000,
        "{content:?}"
    );
    let after = rows(&pages)?;
    assert_eq!(before.len(), after.len());
    let by_content = find(field("links.a").eq("9"));
    assert_eq!(pages.query(by_content)?.documents.len(), 1);
    let options = VerifyOptions::default();
    let found = verify_open(&database, &options, &mut |_, _| ControlFlow::Continue(()))?;
    assert_eq!((found.damage.len(), found.documents), (0, 60));
    database.close()?;

    env.rename(Path::new("/hdd/db"), Path::new("/hdd/away"))?;
    env.create_dir_all(Path::new("/hdd/db"))?;
    let database = open(&env)?;
    let pages = database.wide_collection("pages")?;
    let html = pages.cell(&key(8), "html", None)?;
    assert_eq!(html, Some(Cell::String("new".into())));
    assert!(pages.get(&key(8))?.is_some());
    assert!(pages.get_columns(&key(9), &["title"])?.is_some());
    hour(&env);
    assert_eq!(pages.tier()?.rows, 0);
    assert!(
        tiers(&pages)?
            .stopped
            .unwrap()
            .contains("cold, which is lost")
    );
    let members = pages.members(&key(9), "links", None, None);
    for error in [
        pages.get(&key(9)).unwrap_err(),
        pages.cell(&key(9), "html", None).unwrap_err(),
        members
            .and_then(|mut members| Ok(members.next().transpose()?))
            .unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("cold"), "{error}");
    }
    assert!(pages.scan_columns(&["html"]).is_err());
    database.close()?;
    env.remove_dir_all(Path::new("/hdd/db"))?;
    env.rename(Path::new("/hdd/away"), Path::new("/hdd/db"))?;
    let database = open(&env)?;
    assert_eq!(rows(&database.wide_collection("pages")?)?, after);
    Ok(database.close()?)
}

#[test]
fn cells_move_in_the_background_at_the_rate_of_their_group() -> Tested {
    let env = SimEnv::new(1);
    let database = open(&env)?;
    let pages = create(&database)?;
    (0..60).try_for_each(|number| put(&pages, number, 100_000))?;
    pages.flush()?;
    hour(&env);
    let mut seconds = 0;
    // A step is of 1 MiB and a row at most.
    while tiers(&pages)?.rows_cold < 60 {
        env.run_due();
        let moved = tiers(&pages)?.bytes_moved;
        assert!(
            moved <= 1_000_000 * seconds + 1_200_000,
            "{moved} in {seconds} s"
        );
        env.advance(Duration::from_secs(1));
        seconds += 1;
        assert!(seconds < 1000, "{:?}", tiers(&pages)?);
    }
    assert!(seconds >= 4, "{seconds} s for 6 MB");
    put(&pages, 1, 10)?;
    let title = Change::set("links", Cell::String("x".into())).of_member("b");
    pages.write(&RowWrite::patch(key(2)).with(title))?;
    for _ in 0..20 {
        env.advance(Duration::from_secs(1));
        env.run_due();
    }
    let stats = tiers(&pages)?;
    assert_eq!((stats.rows_hot, stats.moved_hot), (2, 1), "{stats:?}");
    // With one tier all come back, and then nothing is left to do.
    let one = |schema: Schema| schema.with_group_json("content", br#"{"tier":"ssd"}"#);
    let pages = database.alter_wide_collection("pages", one)?;
    for _ in 0..200 {
        env.advance(Duration::from_secs(1));
        env.run_due();
    }
    assert!(pages.stats()?.groups[1].tiers.is_none());
    env.run_until_idle();
    pages.compact()?;
    assert_eq!(
        pages.stats()?.groups[1].volumes.keys().collect::<Vec<_>>(),
        ["first"]
    );
    Ok(database.close()?)
}

#[test]
fn full_cold_disk_stops_moves_and_writes_go_on() -> Tested {
    let env = SimEnv::new(1);
    env.set_capacity_below(Path::new("/ssd"), 1 << 30);
    env.set_capacity_below(Path::new("/hdd"), 50 << 20);
    let database = open(&env)?;
    let pages = create(&database)?;
    (0..20).try_for_each(|number| put(&pages, number, 100))?;
    let before = rows(&pages)?;
    hour(&env);
    assert_eq!(pages.tier()?.rows, 0);
    let stopped = tiers(&pages)?.stopped.unwrap();
    assert!(stopped.contains("no cells move to cold"), "{stopped}");
    pages.flush()?;
    assert_eq!(rows(&pages)?, before);
    put(&pages, 20, 100)?;
    env.set_capacity_below(Path::new("/hdd"), 1 << 30);
    assert_eq!(pages.tier()?.rows, 20);
    assert_eq!(tiers(&pages)?.stopped, None);
    assert_eq!(rows(&pages)?.len(), 21);
    Ok(database.close()?)
}

#[test]
fn tiers_without_a_volume_are_refused_and_can_be_added_to_rows_that_are_there() -> Tested {
    let env = SimEnv::new(1);
    let builder = Database::builder("/ssd/db").env(env.clone());
    let database = builder.open()?;
    let refused = create(&database).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("tier hdd"), "{refused}");
    let plain =
        Schema::from_json(br#"{"properties":{"html":{"type":"string","group":"content"}}}"#)?;
    let pages = database.create_wide_collection("pages", plain, Default::default())?;
    let document = Document::from_json(br#"{"html":"<html>"}"#)?;
    (0..9).try_for_each(|number| pages.put(&key(number), &document).map(drop))?;
    hour(&env);
    let two = |schema: Schema| {
        let group = format!(r#"{{"tiers":{TIERS}}}"#);
        schema.with_group_json("content", group.as_bytes())
    };
    let refused = database.alter_wide_collection("pages", two).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    database.add_volume("cold", Path::new("/hdd/db"), Medium::Hdd)?;
    database.close()?;
    let database = open(&env)?;
    let before = rows(&database.wide_collection("pages")?)?;
    let pages = database.alter_wide_collection("pages", two)?;
    assert_eq!(pages.tier()?.rows, 9);
    pages.flush()?;
    assert_eq!(
        tiers(&pages)?.cold_volumes.keys().collect::<Vec<_>>(),
        ["cold"]
    );
    assert_eq!(rows(&pages)?, before);
    Ok(database.close()?)
}

#[test]
fn copies_and_a_repair_have_each_row_once_and_whole() -> Tested {
    let env = SimEnv::new(1);
    let database = open(&env)?;
    let pages = create(&database)?;
    (0..40).try_for_each(|number| put(&pages, number, 300))?;
    hour(&env);
    (0..10).try_for_each(|number| put(&pages, number, 20))?;
    assert_eq!(pages.tier()?.rows, 30);
    pages.flush()?;
    // These come back, and their moves are in the log alone.
    let html = || Change::set("html", Cell::String("again".into()));
    for number in 20..25 {
        pages.write(&RowWrite::patch(key(number)).with(html()))?;
    }
    assert_eq!(pages.tier()?.rows, 5);
    let expected = rows(&pages)?;
    backup(
        &database,
        Path::new("/backup"),
        &BackupOptions::default(),
        &mut |_, _| ControlFlow::Continue(()),
    )?;
    database.close()?;
    let checked = verify(
        env.clone(),
        Volumes::single("/ssd/db"),
        &VerifyOptions::default(),
        &mut |_, _| {},
    )?;
    assert_eq!((checked.damage.len(), checked.documents), (0, 40));
    let copy = Volumes::single("/copy");
    restore(
        env.clone(),
        Path::new("/backup"),
        None,
        &copy,
        &mut |_, _| (),
    )?;
    let restored = Database::builder("/copy").env(env.clone()).open()?;
    let pages = restored.wide_collection("pages")?;
    assert_eq!(rows(&pages)?, expected);
    assert_eq!(tiers(&pages)?.rows_cold, 25);
    // Where there is no hard disk, the first one has both tiers.
    hour(&env);
    assert_eq!(pages.tier()?.rows, 15);
    assert_eq!(rows(&pages)?, expected);
    restored.close()?;
    let report = repair(
        env.clone(),
        Volumes::single("/ssd/db"),
        Volumes::single("/repaired"),
        &mut |_| {},
    )?;
    assert!(report.is_whole());
    let repaired = Database::builder("/repaired").env(env.clone()).open()?;
    assert_eq!(rows(&repaired.wide_collection("pages")?)?, expected);
    Ok(repaired.close()?)
}

#[test]
fn readers_beside_moves_see_each_row_once_with_all_of_its_cells() -> Tested {
    const ROWS: u32 = 40;
    let dir = tempfile::tempdir()?;
    let hdd = dir.path().join("hdd");
    let env = OsEnv::new()?;
    let builder = Database::builder(dir.path().join("db")).env(env.clone());
    let database = builder.volume("cold", hdd, Medium::Hdd).open()?;
    let two = TIERS.replace("1h", "1s");
    let pages = database.create_wide_collection("pages", schema(&two), Default::default())?;
    (0..ROWS).try_for_each(|number| put(&pages, number, 300))?;
    let expected = rows(&pages)?;
    let done = AtomicBool::new(false);
    let read = || -> quiredb::Result<u64> {
        let mut count = 0;
        while !done.load(Ordering::Acquire) {
            assert_eq!(rows(&pages)?, expected);
            let batches = pages.scan_columns(&["html", "title"])?;
            let cells: Vec<_> = batches.collect::<Result<_, _>>()?;
            let html = cells.iter().flat_map(|batch| &batch.columns[0]);
            assert_eq!(html.filter(|cell| cell.is_some()).count(), ROWS as usize);
            for number in 0..ROWS {
                let found = pages
                    .get(&key(number))?
                    .map(|found| found.document.to_json());
                assert!(expected.contains(&found.unwrap()));
                let mut links = pages.members(&key(number), "links", None, None)?;
                let (_, link) = links.next().unwrap()?;
                assert_eq!(link, Cell::String(number.to_string()));
            }
            count += 1;
        }
        Ok(count)
    };
    let moved = std::thread::scope(|scope| {
        let reader = scope.spawn(read);
        env.sleep(Duration::from_millis(1100));
        let moves = || -> quiredb::Result<u64> {
            let mut moved = 0;
            for round in 0..12 {
                let group = match round % 2 {
                    0 => format!(r#"{{"tiers":{two}}}"#),
                    _ => r#"{"tier":"ssd"}"#.to_string(),
                };
                let shape = |schema: Schema| schema.with_group_json("content", group.as_bytes());
                let pages = database.alter_wide_collection("pages", shape)?;
                moved += pages.tier()?.rows;
                if round % 3 == 0 {
                    pages.flush()?;
                }
            }
            Ok(moved)
        };
        let moved = moves();
        done.store(true, Ordering::Release);
        let read = reader.join().unwrap();
        read.and_then(|read| moved.map(|moved| (moved, read)))
    });
    let (moved, read) = moved?;
    // A background step may have moved some of them.
    assert!(
        moved >= u64::from(ROWS) && read > 0,
        "{moved} moved, {read} read"
    );
    Ok(database.close()?)
}
