//! A leader and a follower, each on a simulated machine, with their messages handed over by hand.

use super::*;
use crate::{BackupOptions, backup, restore};
use quire_collection::{Expiry, Write};
use quire_database::{
    Alias, AliasChange, Collection, CollectionSettings, Database, DatabaseOptions, Error,
    ErrorKind, IndexedFields, Result, WideCollection, engine,
};
use quire_env::{Env, IoClass, IoScope, Medium, SimEnv, Volumes};
use quire_model::{Document, Key, Position};
use quire_query::{Filter, field, find};
use quire_store::Durability;
use quire_wide::{Cell, Change, ColumnType, Group, GroupTiers, Operand, RowWrite, Schema};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn open(env: &Arc<SimEnv>, path: &Path) -> Result<Database> {
    let options = DatabaseOptions {
        segment_bytes: 2 << 10,
        retention: path == Path::new("/leader"),
        ..DatabaseOptions::default()
    };
    let builder = Database::builder(path).env(env.clone()).options(options);
    match path == Path::new("/leader") {
        true => builder.volume("cold", "/leader-hdd", Medium::Hdd).open(),
        false => builder.open(),
    }
}

fn settings(partitions: u32) -> CollectionSettings {
    CollectionSettings {
        partitions,
        ..CollectionSettings::default()
    }
}

fn put(collection: &Collection, numbers: std::ops::Range<u64>, content: &str, how: Durability) {
    let write = |n: u64| {
        let document = format!(r#"{{"n":{n},"content":"{content}"}}"#);
        let document = Document::from_json(document.as_bytes()).unwrap();
        Write::put(Key::from(n as i64), document)
    };
    for result in collection
        .batch()
        .writes(numbers.map(write))
        .durability(how)
        .write()
    {
        result.unwrap();
    }
}

type Contents = BTreeMap<String, Vec<(Key, u64, String)>>;

/// All documents of all collections, with their versions, and the aliases.
fn contents(database: &Database) -> Result<Contents> {
    let mut contents = Contents::new();
    for name in database.collections() {
        let mut documents = Vec::new();
        for found in database.collection(&name)?.scan(..)? {
            let found = found?;
            documents.push((found.key, found.version.0, found.document.to_json()));
        }
        contents.insert(name, documents);
    }
    for name in database.wide_collections() {
        let mut documents = Vec::new();
        for found in database.wide_collection(&name)?.rows()? {
            let found = found?;
            documents.push((found.key, found.version.0, found.document.to_json()));
        }
        contents.insert(name, documents);
    }
    for (alias, of) in database.aliases().iter() {
        contents.insert(format!("{alias}: {of:?}"), Vec::new());
    }
    for (name, template) in database.templates() {
        contents.insert(format!("template {name}: {template}"), Vec::new());
    }
    for one in database.coprocessors()? {
        let name = format!("{}/{}: {:?}", one.name, one.version, one.kinds);
        database.coprocessor(&format!("{}/{}", one.name, one.version))?;
        contents.insert(name, Vec::new());
    }
    Ok(contents)
}

/// A filter that keeps every row, as WebAssembly.
const KEEPS_ALL: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x05\x01\x60\0\x01\x7f\
    \x03\x02\x01\0\
    \x05\x03\x01\0\x01\
    \x07\x1b\x02\x06memory\x02\0\x0equire_1_filter\0\0\
    \x0a\x06\x01\x04\0\x41\x01\x0b";

/// A follower's directory, and the copy that counts, if there is one.
struct Follower {
    dir: FollowerDir,
    replica: Option<Replica>,
    /// Files that came.
    received: usize,
}

impl Follower {
    fn open(env: &Arc<SimEnv>) -> Result<Follower> {
        let dir = FollowerDir::open(env.clone(), Path::new("/follower"))?;
        let replica = match dir.current() {
            Some(path) => Some(Replica::new(open(env, &path)?)),
            None => None,
        };
        Ok(Follower {
            dir,
            replica,
            received: 0,
        })
    }

    fn copy(&mut self, env: &Arc<SimEnv>, leader: &Database) -> Result<()> {
        let from = copy_for_follower(leader).unwrap();
        let copy = self.dir.begin_copy(from.plan().as_bytes())?;
        for index in copy.missing()? {
            let mut bytes = Vec::new();
            from.send(index, &mut |piece| {
                bytes.extend_from_slice(&piece);
                Continue(())
            })
            .unwrap();
            copy.receive(index, &mut &bytes[..], &|_| Continue(()))?;
            self.received += 1;
        }
        self.replica = None;
        let path = self.dir.finish_copy(&copy)?;
        self.replica = Some(Replica::new(open(env, &path)?));
        self.dir.remove_older()
    }

    /// Copies if it must, then follows until it has all. Says why it started over, if it did.
    fn catch_up(&mut self, env: &Arc<SimEnv>, leader: &Database) -> Result<Option<String>> {
        if self.replica.is_none() {
            self.copy(env, leader)?;
        }
        let Some(replica) = &mut self.replica else {
            unreachable!("it was copied")
        };
        let mut stream = serve_follower(leader, &replica.hello()?).unwrap();
        while let Some(bytes) = stream.next(Duration::from_millis(100)).unwrap() {
            let mut bytes = &bytes[..];
            while let Some(frame) = Frame::read(&mut bytes)? {
                let is_heads = matches!(frame, Frame::Heads(..));
                if let Applied::StartOver(why) = replica.apply(frame)? {
                    self.copy(env, leader)?;
                    return Ok(Some(why));
                }
                if is_heads && replica.lag().records == 0 {
                    assert!(replica.lag().time.unwrap() < Duration::from_secs(1));
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    fn contents(&self) -> Contents {
        contents(self.replica.as_ref().unwrap().database()).unwrap()
    }
}

fn put_template(database: &Database, name: &str, patterns: &[&str]) {
    let template = serde_json::json!({ "index_patterns": patterns });
    let put = |templates: &mut quire_database::Templates| {
        templates.insert(name.to_owned(), template);
        Ok::<(), Error>(())
    };
    database.change_templates(put).unwrap();
}

fn add_alias(database: &Database, collection: &str, alias: &str) {
    let add = AliasChange::Add {
        collection: collection.into(),
        alias: alias.into(),
        options: Alias::default(),
    };
    database.change_aliases(&[add]).unwrap();
}

/// The wide collection of a leader, made if it is not there.
fn wide_or_create(database: &Database) -> WideCollection {
    if let Ok(wide) = database.wide_collection("wide") {
        return wide;
    }
    let schema = Schema::new()
        .with_column("title", ColumnType::String, "meta")
        .and_then(|schema| {
            schema.with_group(Group {
                tiers: Some(GroupTiers::after(HOUR)),
                ..Group::new("content")
            })
        })
        .and_then(|schema| schema.with_column("html", ColumnType::String, "content"))
        .and_then(|schema| schema.with_family("links", ColumnType::Int, "links"))
        .unwrap();
    database
        .create_wide_collection("wide", schema, settings(2))
        .unwrap()
}

/// Rows that each have cells in three groups, written together.
fn put_rows(wide: &WideCollection, numbers: std::ops::Range<i64>, content: &str) {
    for number in numbers {
        let row = format!(r#"{{"title":"{content}","html":"{content}","links":{{"a":{number}}}}}"#);
        let row = Document::from_json(row.as_bytes()).unwrap();
        wide.put(&Key::from(number), &row).unwrap();
    }
}

/// A leader's life in three parts, between which a follower may come and go.
struct Leader {
    env: Arc<SimEnv>,
    database: Database,
}

impl Leader {
    fn new() -> Leader {
        let env = SimEnv::new(1);
        let database = open(&env, Path::new("/leader")).unwrap();
        Leader { env, database }
    }

    fn part(&self, number: u32) {
        let database = &self.database;
        let settings = || settings(2);
        let songs = database.collection_or_create("songs", settings).unwrap();
        match number {
            0 => {
                put(&songs, 0..30, "first", Durability::Sync);
                let gone = database.collection_or_create("gone", settings).unwrap();
                put(&gone, 0..5, "gone", Durability::Sync);
                add_alias(database, "gone", "newest");
                put_template(database, "index/logs", &["logs-*"]);
                songs.flush().unwrap();
                put(&songs, 10..20, "second", Durability::Sync);
                database.add_coprocessor("all", KEEPS_ALL).unwrap();
                let wide = wide_or_create(database);
                put_rows(&wide, 0..8, "first");
                wide.flush().unwrap();
                put_rows(&wide, 5..10, "second");
                self.env.advance(HOUR);
                assert_eq!(wide.tier().unwrap().rows, 10);
            }
            1 => {
                songs.delete(&Key::from(3)).unwrap();
                put(&songs, 25..40, "third", Durability::None);
                let changed = CollectionSettings {
                    segment_age_secs: 77,
                    retention_bytes: 1 << 30,
                    ..CollectionSettings::clone(&songs.settings())
                };
                database.change_settings("songs", changed).unwrap();
                database.drop_collection("gone").unwrap();
                let new = database.collection_or_create("new", settings).unwrap();
                put(&new, 0..9, "new", Durability::Sync);
                add_alias(database, "new", "newest");
                add_alias(database, "songs", "first");
                put_template(database, "index/logs", &["logs-*", "traces-*"]);
                put_template(database, "component/times", &[]);
                database
                    .alter_wide_collection("wide", |schema| {
                        schema.with_renamed("title", "heading")?.with_column(
                            "size",
                            ColumnType::Int,
                            "sizes",
                        )
                    })
                    .unwrap();
                database.add_coprocessor("all", KEEPS_ALL).unwrap();
                database.drop_coprocessor("all/1").unwrap();
                let wide = wide_or_create(database);
                wide.delete(&Key::from(2)).unwrap();
                wide.flush().unwrap();
                wide.compact().unwrap();
                let write = RowWrite::upsert(Key::from(3))
                    .with(Change::set("size", Cell::Int(7)))
                    .with(Change::merge("links", Operand::Add(5)).of_member("a"))
                    .with(Change::merge(
                        "html",
                        Operand::Append(Cell::String("+".into())),
                    ));
                wide.write(&write).unwrap();
                assert_eq!(wide.tier().unwrap().rows, 1);
            }
            _ => {
                let patch = Document::from_json(br#"{"content":"patched"}"#).unwrap();
                songs.patch(&Key::from(1), &patch).unwrap();
                // An alias gives way to a collection of its name.
                let songs = "songs".to_owned();
                let alias = "first".to_owned();
                database
                    .change_aliases(&[AliasChange::Remove {
                        collection: songs,
                        alias,
                    }])
                    .unwrap();
                database.create_collection("first", settings()).unwrap();
                // Another collection of the same name.
                let again = database.create_collection("gone", settings()).unwrap();
                put(
                    &again,
                    0..3,
                    "again",
                    Durability::Async(Duration::from_millis(10)),
                );
            }
        }
    }
}

#[test]
fn a_follower_that_crashes_at_any_step_has_what_its_leader_has_in_the_end() {
    let life = |env: &Arc<SimEnv>, leader: &Leader, part: &mut u32| -> Result<()> {
        let mut follower = Follower::open(env)?;
        while *part < 3 {
            leader.part(*part);
            *part += 1;
            follower.catch_up(env, &leader.database)?;
        }
        follower
            .replica
            .take()
            .map_or(Ok(()), |replica| replica.database().close())
    };
    let steps = {
        let env = SimEnv::new(2);
        let leader = Leader::new();
        life(&env, &leader, &mut 0).unwrap();
        env.operations()
    };
    assert!(steps > 100, "{steps} steps");
    for step in (0..steps).step_by(3) {
        let leader = Leader::new();
        let env = SimEnv::new(step);
        env.crash_at(step);
        let mut part = 0;
        let _ = life(&env, &leader, &mut part);
        let env = env.after_crash(step);
        (part..3).for_each(|part| leader.part(part));
        let mut follower = Follower::open(&env).unwrap();
        assert_eq!(
            follower.catch_up(&env, &leader.database).unwrap(),
            None,
            "crash at {step}"
        );
        let expected = contents(&leader.database).unwrap();
        assert_eq!(follower.contents(), expected, "crash at {step}");
        let collections = |database: &Database| engine::catalog(database).unwrap().collections;
        let replica = follower.replica.as_ref().unwrap();
        assert_eq!(
            collections(replica.database()),
            collections(&leader.database)
        );
        follower.replica.take().unwrap().database().close().unwrap();
        drop(follower);
        assert_eq!(Follower::open(&env).unwrap().contents(), expected);
    }
}

#[test]
fn what_has_come_of_a_copy_is_not_sent_again() {
    let leader = Leader::new();
    leader.part(0);
    let env = SimEnv::new(3);
    {
        let follower = Follower::open(&env).unwrap();
        let from = copy_for_follower(&leader.database).unwrap();
        let copy = follower.dir.begin_copy(from.plan().as_bytes()).unwrap();
        let all = copy.missing().unwrap();
        for index in &all[1..] {
            let mut bytes = Vec::new();
            let mut take = |piece: Vec<u8>| {
                bytes.extend_from_slice(&piece);
                Continue(())
            };
            assert!(from.send(*index, &mut take).unwrap());
            // Whatever is cut or garbled of it is not used.
            for end in [0, 1, bytes.len() / 2, bytes.len() - 1] {
                let error = copy.receive(*index, &mut &bytes[..end], &|_| Continue(()));
                assert!(matches!(error, Err(Error::Leader(_))), "{error:?}");
            }
            let mut garbled = bytes.clone();
            garbled[bytes.len() / 3] ^= 4;
            let error = copy.receive(*index, &mut &garbled[..], &|_| Continue(()));
            assert!(matches!(error, Err(Error::Leader(_))), "{error:?}");
            copy.receive(*index, &mut &bytes[..], &|_| Continue(()))
                .unwrap();
        }
        assert_eq!(copy.missing().unwrap(), &all[..1]);
    }
    let mut follower = Follower::open(&env).unwrap();
    assert!(follower.replica.is_none());
    follower.catch_up(&env, &leader.database).unwrap();
    assert_eq!(follower.received, 1);
    assert_eq!(follower.contents(), contents(&leader.database).unwrap());
}

#[test]
fn a_follower_behind_a_compaction_starts_over_and_loses_nothing() {
    let leader = Leader::new();
    leader.part(0);
    let env = SimEnv::new(4);
    let mut follower = Follower::open(&env).unwrap();
    follower.catch_up(&env, &leader.database).unwrap();
    let songs = leader.database.collection("songs").unwrap();
    for _ in 0..4 {
        put(
            &songs,
            0..30,
            "once more, and longer than before",
            Durability::Sync,
        );
    }
    songs.compact().unwrap();
    let why = follower.catch_up(&env, &leader.database).unwrap().unwrap();
    assert!(why.contains("no longer has"), "{why}");
    assert_eq!(follower.catch_up(&env, &leader.database).unwrap(), None);
    assert_eq!(follower.contents(), contents(&leader.database).unwrap());
}

#[test]
fn a_follower_serves_a_collection_that_is_split_until_it_has_copied_it_anew() {
    let leader = Leader::new();
    leader.part(0);
    let env = SimEnv::new(2);
    let mut follower = Follower::open(&env).unwrap();
    assert_eq!(follower.catch_up(&env, &leader.database).unwrap(), None);
    let before = follower.contents();
    let songs = leader.database.collection("songs").unwrap();
    let identity = songs.identity();
    let split = |partitions: u32| {
        let write = |_| {
            put(&songs, 5..8, "while it is split", Durability::Sync);
            true
        };
        let split = leader
            .database
            .split_collection("songs", partitions, &write);
        split.unwrap();
    };
    split(6);
    let replica = follower.replica.as_mut().unwrap();
    let mut stream = serve_follower(&leader.database, &replica.hello().unwrap()).unwrap();
    let mut is_told = false;
    while let Some(bytes) = stream.next(Duration::from_millis(100)).unwrap() {
        let mut bytes = &bytes[..];
        while let Some(frame) = Frame::read(&mut bytes).unwrap() {
            is_told |= matches!(replica.apply(frame).unwrap(), Applied::StartOver(_));
        }
    }
    assert!(is_told);
    assert_eq!(follower.contents(), before);
    for partitions in [0, 12] {
        if partitions > 0 {
            // It was away when the collection was split.
            drop(follower);
            split(partitions);
            follower = Follower::open(&env).unwrap();
        }
        let why = follower.catch_up(&env, &leader.database).unwrap();
        assert!(why.unwrap().contains("no longer has all records"));
        put(&songs, 3..33, "after it was split", Durability::Sync);
        assert_eq!(follower.catch_up(&env, &leader.database).unwrap(), None);
        assert_eq!(follower.contents(), contents(&leader.database).unwrap());
        let replica = follower.replica.as_ref().unwrap().database();
        let copied = replica.collection("songs").unwrap();
        assert_eq!(copied.identity(), identity);
        assert_eq!(copied.positions(), songs.positions());
    }
}

#[test]
fn a_follower_of_a_split_collection_whose_log_was_compacted_does_not_copy_it_again() {
    let leader = Leader::new();
    let songs = leader
        .database
        .create_collection("songs", settings(1))
        .unwrap();
    put(&songs, 0..1, "before", Durability::Sync);
    leader
        .database
        .split_collection("songs", 2, &|_| true)
        .unwrap();
    // The last record of a partition may be of what the other one has: it is removed.
    songs.flush().unwrap();
    songs.compact().unwrap();
    let env = SimEnv::new(2);
    let mut follower = Follower::open(&env).unwrap();
    follower.catch_up(&env, &leader.database).unwrap();
    for _ in 0..2 {
        assert_eq!(follower.catch_up(&env, &leader.database).unwrap(), None);
        assert_eq!(follower.contents(), contents(&leader.database).unwrap());
    }
}

#[test]
fn a_follower_copies_a_collection_anew_that_is_merged_and_follows_it_then() {
    let leader = Leader::new();
    let songs = leader
        .database
        .create_collection("songs", settings(4))
        .unwrap();
    // One without documents has partitions that begin with nothing.
    let empty = leader
        .database
        .create_collection("empty", settings(4))
        .unwrap();
    put(&songs, 0..20, "before", Durability::Sync);
    let env = SimEnv::new(2);
    let mut follower = Follower::open(&env).unwrap();
    follower.catch_up(&env, &leader.database).unwrap();
    for partitions in [2, 1] {
        let write = |_| {
            put(&songs, 5..8, "while they are merged", Durability::Sync);
            true
        };
        for name in ["songs", "empty"] {
            let merged = leader.database.merge_collection(name, partitions, &write);
            merged.unwrap();
        }
        for collection in [&songs, &empty] {
            collection.flush().unwrap();
            collection.compact().unwrap();
        }
        let why = follower.catch_up(&env, &leader.database).unwrap();
        assert!(why.is_some(), "it starts over");
        for _ in 0..2 {
            assert_eq!(follower.catch_up(&env, &leader.database).unwrap(), None);
            assert_eq!(follower.contents(), contents(&leader.database).unwrap());
        }
        put(&songs, 3..33, "after they were merged", Durability::Sync);
        put(
            &empty,
            0..u64::from(2 - partitions),
            "the first",
            Durability::Sync,
        );
        assert_eq!(follower.catch_up(&env, &leader.database).unwrap(), None);
        assert_eq!(follower.contents(), contents(&leader.database).unwrap());
        let replica = follower.replica.as_ref().unwrap().database();
        let copied = replica.collection("songs").unwrap();
        assert_eq!(copied.positions(), songs.positions());
    }
}

#[test]
fn a_follower_copies_a_wide_collection_anew_that_is_split() {
    let leader = Leader::new();
    let rows = wide_or_create(&leader.database);
    put_rows(&rows, 0..20, "before");
    let env = SimEnv::new(2);
    let mut follower = Follower::open(&env).unwrap();
    follower.catch_up(&env, &leader.database).unwrap();
    for partitions in [4, 12] {
        let write = |_| {
            put_rows(&rows, 5..8, "while it is split");
            true
        };
        let split = leader.database.split_collection("wide", partitions, &write);
        split.unwrap();
        assert_eq!(rows.positions().len() as u32, partitions);
        let why = follower.catch_up(&env, &leader.database).unwrap();
        assert!(why.is_some(), "it copies");
        put_rows(&rows, 3..33, "after it was split");
        assert_eq!(follower.catch_up(&env, &leader.database).unwrap(), None);
        assert_eq!(follower.contents(), contents(&leader.database).unwrap());
        let replica = follower.replica.as_ref().unwrap().database();
        let copied = replica.wide_collection("wide").unwrap();
        assert_eq!(copied.identity(), rows.identity());
        assert_eq!(copied.positions(), rows.positions());
    }
}

#[test]
fn a_follower_has_the_indexes_of_its_leader_whatever_becomes_of_columns() {
    let leader = Leader::new();
    let database = &leader.database;
    let rows = wide_or_create(database);
    put_rows(&rows, 0..20, "before");
    database
        .set_wide_index("wide", IndexedFields::all())
        .unwrap();
    let env = SimEnv::new(2);
    let mut follower = Follower::open(&env).unwrap();
    follower.catch_up(&env, database).unwrap();
    let settle = |env: &SimEnv| {
        for _ in 0..100 {
            env.run_due();
            env.advance(Duration::from_millis(20));
        }
    };
    let count = |database: &Database, filter: Filter| {
        let wide = database.wide_collection("wide").unwrap();
        let page = wide.query(find(filter).with_count()).unwrap();
        let index = wide.stats().unwrap().index;
        (
            page.count.unwrap(),
            index.is_some_and(|index| index.complete),
        )
    };
    let agree = |follower: &Follower, filters: &[(Filter, u64)]| {
        let copy = follower.replica.as_ref().unwrap().database();
        for (filter, wanted) in filters {
            assert_eq!(count(copy, filter.clone()).0, *wanted, "{filter:?}");
        }
        settle(&env);
        for (filter, wanted) in filters {
            assert_eq!(count(copy, filter.clone()), (*wanted, true), "{filter:?}");
        }
    };
    settle(&env);
    agree(&follower, &[(field("title").eq("before"), 20)]);

    put_rows(&rows, 10..15, "after");
    rows.delete(&Key::from(3)).unwrap();
    follower.catch_up(&env, database).unwrap();
    let (before, after) = (field("title").eq("before"), field("title").eq("after"));
    agree(&follower, &[(before, 14), (after, 5)]);

    let grown = database.alter_wide_collection("wide", |schema| {
        schema
            .with_renamed("title", "heading")?
            .with_column("more", ColumnType::Int, "meta")
    });
    let grown = grown.unwrap();
    for number in 0..8 {
        let more = Change::set("more", Cell::Int(number % 2));
        grown
            .write(&RowWrite::upsert(Key::from(number)).with(more))
            .unwrap();
    }
    follower.catch_up(&env, database).unwrap();
    let (title, heading) = (field("title").exists(), field("heading").eq("after"));
    agree(
        &follower,
        &[(title, 0), (heading, 5), (field("more").eq(1), 4)],
    );
}

#[test]
fn a_follower_is_tailed_as_its_leader_is() {
    let leader = Leader::new();
    let rows = wide_or_create(&leader.database);
    leader
        .database
        .set_log_retention("wide", 1_000_000)
        .unwrap();
    put_rows(&rows, 0..20, "before");
    let env = SimEnv::new(2);
    let mut follower = Follower::open(&env).unwrap();
    follower.catch_up(&env, &leader.database).unwrap();
    let changes = |database: &Database| {
        let wide = database.wide_collection("wide").unwrap();
        let tail = wide.tail(Position(1)).unwrap();
        tail.map(|change| change.unwrap()).collect::<Vec<_>>()
    };
    let agree = |follower: &Follower, count: usize| {
        let of_leader = changes(&leader.database);
        assert_eq!(of_leader.len(), count);
        let replica = follower.replica.as_ref().unwrap().database();
        assert_eq!(changes(replica), of_leader);
    };
    agree(&follower, 20);
    rows.flush().unwrap();
    put_rows(&rows, 5..8, "again");
    rows.delete(&Key::from(3)).unwrap();
    rows.flush().unwrap();
    follower.catch_up(&env, &leader.database).unwrap();
    agree(&follower, 24);

    let split = leader.database.split_collection("wide", 4, &|_| true);
    split.unwrap();
    let why = follower.catch_up(&env, &leader.database).unwrap();
    assert!(why.is_some(), "it copies");
    put_rows(&rows, 9..10, "after it was split");
    assert_eq!(follower.catch_up(&env, &leader.database).unwrap(), None);
    agree(&follower, 25);
    assert_eq!(follower.contents(), contents(&leader.database).unwrap());
}

#[test]
fn a_follower_deletes_what_its_leader_deletes_and_nothing_else() {
    let leader = Leader::new();
    let env = SimEnv::new(2);
    let settings = CollectionSettings {
        retention_secs: 100,
        ..settings(2)
    };
    let songs = leader
        .database
        .create_collection("songs", settings)
        .unwrap();
    put(&songs, 0..20, "old", Durability::Sync);
    let mut follower = Follower::open(&env).unwrap();
    follower.catch_up(&env, &leader.database).unwrap();
    let pass = |env: &SimEnv, secs| {
        env.advance(Duration::from_secs(secs));
        env.run_due();
    };
    pass(&env, 1000);
    assert_eq!(follower.contents()["songs"].len(), 20);
    pass(&leader.env, 50);
    put(&songs, 20..30, "new", Durability::Sync);
    pass(&leader.env, 60);
    pass(&leader.env, 2);
    follower.catch_up(&env, &leader.database).unwrap();
    assert_eq!(follower.contents(), contents(&leader.database).unwrap());
    assert_eq!(follower.contents()["songs"].len(), 10);
}

#[test]
fn a_follower_reads_what_has_expired_as_deleted_and_leaves_deleting_to_its_leader() {
    let leader = Leader::new();
    let env = SimEnv::new(2);
    let songs = leader.database.create_collection("songs", settings(2));
    let songs = songs.unwrap();
    put(&songs, 0..5, "stays", Durability::Sync);
    let at = leader.env.now_micros().max(env.now_micros()) + 60_000_000;
    for n in 5..25 {
        let document = Document::from_json(b"{}").unwrap();
        let put = songs.write().expiry(Expiry::At(at));
        put.put_at(&Key::from(n), &document).unwrap();
    }
    let mut follower = Follower::open(&env).unwrap();
    follower.catch_up(&env, &leader.database).unwrap();
    assert_eq!(follower.contents()["songs"].len(), 25);
    let count = |follower: &Follower| {
        let copy = follower.replica.as_ref().unwrap().database();
        copy.collection("songs").unwrap().count().unwrap()
    };
    env.advance(HOUR);
    env.run_due();
    assert_eq!(follower.contents()["songs"].len(), 5);
    assert_eq!(count(&follower), 25);
    leader.env.advance(HOUR);
    leader.env.run_due();
    assert_eq!(songs.count().unwrap(), 5);
    follower.catch_up(&env, &leader.database).unwrap();
    assert_eq!(count(&follower), 5);
    assert_eq!(follower.contents(), contents(&leader.database).unwrap());
}

/// A trigger that sets the column or field `title`, as WebAssembly: it emits `{"title":"set"}`.
const SETS_TITLE: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x09\x02\x60\x02\x7f\x7f\0\x60\0\0\
    \x02\x10\x01\x07quire_1\x04emit\0\0\
    \x03\x02\x01\x01\
    \x05\x03\x01\0\x01\
    \x07\x1c\x02\x06memory\x02\0\x0fquire_1_trigger\0\x01\
    \x0a\x0a\x01\x08\0\x41\0\x41\x0f\x10\0\x0b\
    \x0b\x15\x01\0\x41\0\x0b\x0f{\"title\":\"set\"}";

#[test]
fn a_follower_has_what_triggers_wrote_and_runs_none_itself() {
    let leader = Leader::new();
    let env = SimEnv::new(2);
    let database = &leader.database;
    let songs = database.create_collection("songs", settings(2)).unwrap();
    let wide = wide_or_create(database);
    let mut follower = Follower::open(&env).unwrap();
    follower.catch_up(&env, database).unwrap();
    database.add_coprocessor("sets", SETS_TITLE).unwrap();
    for name in ["songs", "wide"] {
        database
            .attach_trigger(name, "sets", &Default::default())
            .unwrap();
    }
    put(&songs, 0..20, "new", Durability::Sync);
    put_rows(&wide, 0..20, "new");
    follower.catch_up(&env, database).unwrap();
    assert_eq!(follower.contents(), contents(database).unwrap());
    let copy = follower.replica.as_ref().unwrap().database();
    for name in ["songs", "wide"] {
        let set = follower.contents()[name].clone();
        assert_eq!(set.len(), 20);
        assert!(
            set.iter()
                .all(|(_, _, json)| json.contains(r#""title":"set""#))
        );
        assert_eq!(
            copy.triggers(name).unwrap(),
            database.triggers(name).unwrap()
        );
    }

    // The follower takes the writes after the trigger is gone, and before it knows that.
    put(&songs, 20..30, "newer", Durability::Sync);
    put_rows(&wide, 20..30, "newer");
    for name in ["songs", "wide"] {
        database.detach_trigger(name, "sets").unwrap();
    }
    database.drop_coprocessor("sets").unwrap();
    put(&songs, 30..40, "last", Durability::Sync);
    follower.catch_up(&env, database).unwrap();
    assert_eq!(follower.contents(), contents(database).unwrap());
    let copy = follower.replica.as_ref().unwrap().database();
    assert!(copy.triggers("songs").unwrap().is_empty());
    assert_eq!(copy.coprocessors().unwrap(), []);
    let has_title = |(_, _, json): &&(Key, u64, String)| json.contains(r#""title":"set""#);
    assert_eq!(
        follower.contents()["songs"]
            .iter()
            .filter(has_title)
            .count(),
        30
    );
}

#[test]
fn a_follower_of_another_history_is_refused_and_stays_as_it_is() {
    let leader = Leader::new();
    leader.part(0);
    let back_up = |database: &Database| {
        let options = BackupOptions::default();
        backup(database, Path::new("/backup"), &options, &mut |_, _| {
            Continue(())
        })
        .unwrap();
    };
    back_up(&leader.database);
    leader.part(1);
    let env = SimEnv::new(5);
    let mut follower = Follower::open(&env).unwrap();
    follower.catch_up(&env, &leader.database).unwrap();
    let before = follower.contents();

    let restored = |to: &str| {
        let volumes = Volumes::single(Path::new(to));
        restore(
            leader.env.clone(),
            Path::new("/backup"),
            None,
            &volumes,
            &mut |_, _| (),
        )
        .unwrap();
        open(&leader.env, Path::new(to)).unwrap()
    };
    // One that is behind; then one that went another way, past where the follower is.
    let behind = restored("/behind");
    let other = restored("/other");
    let songs = other.collection("songs").unwrap();
    for name in ["a", "b"] {
        other.create_collection(name, settings(1)).unwrap();
    }
    put(&songs, 0..100, "another way", Durability::Sync);
    let alien = open(&leader.env, Path::new("/alien")).unwrap();
    for leader in [&behind, &other, &alien] {
        let error = follower.catch_up(&env, leader).unwrap_err();
        assert!(matches!(error, Error::Diverged(_)), "{error}");
        assert_eq!(error.kind(), ErrorKind::Conflict);
        assert_eq!(follower.contents(), before);
    }
    // Its own leader is still the one it follows.
    leader.part(2);
    follower.catch_up(&env, &leader.database).unwrap();
    assert_eq!(follower.contents(), contents(&leader.database).unwrap());
}

#[test]
fn garbled_messages_are_errors_and_change_nothing() {
    let leader = Leader::new();
    leader.part(0);
    let env = SimEnv::new(6);
    let mut follower = Follower::open(&env).unwrap();
    follower.catch_up(&env, &leader.database).unwrap();
    leader.part(1);
    let replica = follower.replica.as_mut().unwrap();
    let mut stream = serve_follower(&leader.database, &replica.hello().unwrap()).unwrap();
    let bytes = stream.next(Duration::from_secs(1)).unwrap().unwrap();
    let before = contents(replica.database()).unwrap();
    for at in (0..bytes.len()).step_by(11) {
        let mut garbled = bytes.clone();
        garbled[at] ^= 1 << (at % 8);
        let mut source = &garbled[..];
        let first = Frame::read(&mut source);
        // Up to where it is garbled all is as it was sent: the first message is the catalog.
        assert!(first.is_err() || at > 9);
    }
    // Under right checksums, but not what can come next.
    let records = |first: u64, record: &'static [u8]| Records {
        clock_micros: 1,
        collection: 1,
        partition: 0,
        first: quire_model::Position(first),
        whole: true,
        records: vec![bytes::Bytes::from_static(record)],
    };
    let songs = replica.database().collection("songs").unwrap();
    let next = songs.view().unwrap().positions()[0].0 + 1;
    for wrong in [
        Frame::Records(records(next + 1, b"")),
        Frame::Records(records(next - 1, b"")),
        Frame::Records(records(next, b"no record")),
        Frame::Records(Records {
            collection: 9,
            ..records(next, b"")
        }),
        Frame::Records(Records {
            partition: 9,
            ..records(next, b"")
        }),
        Frame::Catalog(bytes::Bytes::from_static(b"no catalog")),
        Frame::Data(bytes::Bytes::new()),
    ] {
        assert!(replica.apply(wrong).is_err());
    }
    assert_eq!(contents(replica.database()).unwrap(), before);
    follower.catch_up(&env, &leader.database).unwrap();
    assert_eq!(follower.contents(), contents(&leader.database).unwrap());
}

/// What was said of a collection before it was dropped once kept a follower from ever being level
/// again.
#[test]
fn records_of_a_dropped_collection_are_not_waited_for() {
    let env = SimEnv::new(1);
    let database = open(&env, Path::new("/follower")).unwrap();
    let mut replica = Replica::new(database);
    replica.hello().unwrap();
    let dropped = Head {
        collection: 7,
        partition: 0,
        last: Position(5),
    };
    replica.apply(Frame::Heads(1, vec![dropped])).unwrap();
    assert_eq!(replica.lag().records, 0);
    assert!(replica.lag().time.is_some());
}

/// The class of what this thread reads and writes, as a scope shows it.
fn io_class() -> String {
    format!("{:?}", IoScope::enter(IoClass::Read))
}

#[test]
fn a_copy_and_a_verification_are_background_for_the_disks() {
    let leader = Leader::new();
    let database = &leader.database;
    let songs = database.create_collection("songs", settings(1)).unwrap();
    put(&songs, 0..20, "x", Durability::Sync);
    songs.flush().unwrap();
    let env = SimEnv::new(2);
    let dir = FollowerDir::open(env, Path::new("/follower")).unwrap();
    let from = copy_for_follower(database).unwrap();
    let copy = dir.begin_copy(from.plan().as_bytes()).unwrap();
    let seen = RefCell::new(Vec::new());
    let note = || seen.borrow_mut().push(io_class());
    for index in copy.missing().unwrap() {
        let mut bytes = Vec::new();
        let sent = from.send(index, &mut |piece| {
            note();
            bytes.extend_from_slice(&piece);
            Continue(())
        });
        assert!(sent.unwrap());
        let received = copy.receive(index, &mut &bytes[..], &|_| {
            note();
            Continue(())
        });
        received.unwrap();
    }
    let verified = crate::verify_open(database, &Default::default(), &mut |_, _| {
        note();
        Continue(())
    });
    assert!(verified.unwrap().damage.is_empty());
    let seen = seen.into_inner();
    assert!(
        seen.len() > 3 && seen.iter().all(|class| class.contains("Background")),
        "{seen:?}"
    );
    assert!(io_class().contains("Read"));
}
