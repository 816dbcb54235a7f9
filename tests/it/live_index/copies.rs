//! Copies of a database: a follower, a restored backup, a repaired one, a frozen one, and one whose
//! index was dropped and built again. Each has the same documents, and answers as they do.

use super::text::Text;
use super::world::{Model, World, index_stats, open, settle, verify};
use quire_query::{Answer, Options};
use quiredb::operations::{
    Applied, BackupOptions, FollowerDir, Frame, FreezeOptions, FrozenView, Replica, backup,
    copy_for_follower, freeze_by_partition, repair, restore, serve_follower,
};
use quiredb::{CollectionSettings, Database, Env, ErrorKind, IndexedFields, SimEnv, Volumes};
use std::ops::ControlFlow::Continue;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn check(world: &World, text: &Text) {
    index_all(world);
    // The index is being built, or is behind.
    let key = quiredb::Key::from(1_000);
    let last = quiredb::Document::from_json(br#"{"mark":"a","price":1}"#).unwrap();
    world.collection.put_at(&key, &last).unwrap();
    let model = Model::of_view(&world.collection.view().unwrap());

    let (env, followed) = follow(world);
    check_copy(&env, &followed, &model, text, "a follower");

    let proceed = &mut |_, _| Continue(());
    let to = Path::new("/backup");
    backup(&world.database, to, &BackupOptions::default(), proceed).unwrap();
    let volumes = Volumes::single("/restored");
    let env: Arc<dyn Env> = world.env.clone();
    restore(env, to, None, &volumes, &mut |_, _| {}).unwrap();
    let restored = open(&world.env, "/restored").unwrap();
    check_copy(&world.env, &restored, &model, text, "a restored backup");

    check_frozen(world, &model, text);

    settle(&world.env);
    index_none(world);
    settle(&world.env);
    index_all(world);
    check_copy(&world.env, &world.database, &model, text, "a rebuilt index");

    world.database.close().unwrap();
    let volumes = |path| Volumes::single(path);
    let env: Arc<dyn Env> = world.env.clone();
    let report = repair(env, volumes("/db"), volumes("/repaired"), &mut |_| {});
    assert!(report.unwrap().is_whole());
    let repaired = open(&world.env, "/repaired").unwrap();
    check_copy(&world.env, &repaired, &model, text, "a repaired database");
}

fn index_all(world: &World) {
    change_index(world, IndexedFields::all());
}

fn index_none(world: &World) {
    change_index(world, IndexedFields::none());
}

fn change_index(world: &World, index: IndexedFields) {
    let settings = CollectionSettings {
        index,
        ..CollectionSettings::clone(&world.collection.settings())
    };
    world.database.change_settings("c", settings).unwrap();
}

/// Compares a copy as it is, and once background work has ended.
fn check_copy(env: &SimEnv, database: &Database, model: &Model, text: &Text, what: &str) {
    let collection = database.collection("c").unwrap();
    for _ in 0..2 {
        let view = collection.view().unwrap();
        let found = Model::of_view(&view);
        assert_eq!(found.by_key(), model.by_key(), "{what}");
        for query in text.all_queries() {
            found.check(&view, query, what);
        }
        drop(view);
        settle(env);
    }
    let index = index_stats(&collection).unwrap();
    assert!(
        index.complete && index.lag_records == 0,
        "{what}: {index:?}"
    );
    assert_eq!(index.rebuilt, 0, "{what}: {index:?}");
    verify(database, what);
}

/// A follower on a machine of its own that has all.
fn follow(world: &World) -> (Arc<SimEnv>, Database) {
    let env = SimEnv::new(7);
    let mut dir = FollowerDir::open(env.clone(), Path::new("/follower")).unwrap();
    let from = copy_for_follower(&world.database).unwrap();
    let copy = dir.begin_copy(from.plan().as_bytes()).unwrap();
    for index in copy.missing().unwrap() {
        let mut bytes = Vec::new();
        from.send(index, &mut |piece| {
            bytes.extend_from_slice(&piece);
            Continue(())
        })
        .unwrap();
        copy.receive(index, &mut &bytes[..], &|_| Continue(()))
            .unwrap();
    }
    let path = dir.finish_copy(&copy).unwrap();
    let database = open(&env, path.to_str().unwrap()).unwrap();
    let mut replica = Replica::new(database.clone());
    let mut stream = serve_follower(&world.database, &replica.hello().unwrap()).unwrap();
    'level: while let Some(bytes) = stream.next(Duration::from_millis(100)).unwrap() {
        let mut bytes = &bytes[..];
        while let Some(frame) = Frame::read(&mut bytes).unwrap() {
            let is_heads = matches!(frame, Frame::Heads(..));
            if let Applied::StartOver(why) = replica.apply(frame).unwrap() {
                panic!("{why}");
            }
            if is_heads && replica.lag().records == 0 {
                break 'level;
            }
        }
    }
    (env, database)
}

fn check_frozen(world: &World, model: &Model, text: &Text) {
    let view = world.collection.view().unwrap();
    let dir = Path::new("/frozen");
    freeze_by_partition(&view, dir, &FreezeOptions::default(), &mut |_| {}).unwrap();
    let env: Arc<dyn Env> = world.env.clone();
    let frozen = FrozenView::open(&env, dir).unwrap();
    let mut answered = 0;
    for query in text.all_queries() {
        let prepared = query.clone().prepare().unwrap();
        match frozen.query(&prepared, &Options::default()) {
            Ok(answer) => {
                let right = Answer {
                    explain: None,
                    ..model.answer(query)
                };
                assert_eq!(answer, right, "frozen: {query:?}");
                answered += 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Invalid, "{error}"),
        }
    }
    assert!(answered > 5, "{answered}");
}
