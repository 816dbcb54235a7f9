//! The pipeline over a simulated machine whose disk fills up or fails.

use quire_pipeline::{Error, Event, Format, Input, OnBad, Options, Summary, load};
use quiredb::{CollectionSettings, Database, ErrorKind, Key, SimEnv};
use std::io::{self, Cursor};

fn input(text: String) -> Input {
    Input::new("test", Format::Ndjson, || Ok(Box::new(Cursor::new(text))))
}

/// Documents of about 800 bytes that do not compress to nothing, so that the disk is used.
fn documents(count: u64) -> String {
    let noise = |id: u64, word: u64| (id * 50 + word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let text = |id| -> String {
        (0..48)
            .map(|word| format!("{:016x}", noise(id, word)))
            .collect()
    };
    (0..count)
        .map(|id| format!("{{\"_id\":{id},\"text\":\"{}\"}}\n", text(id)))
        .collect()
}

/// Loads `count` documents into two partitions of a new database; `spoil` is called once 1,000 are
/// acknowledged. Checks what must hold however it ends, and gives what the load did.
fn load_while(count: u64, spoil: impl Fn(&SimEnv)) -> Summary {
    let env = SimEnv::new(7);
    let database = Database::builder("/db").env(env.clone()).open().unwrap();
    let settings = CollectionSettings {
        partitions: 2,
        ..CollectionSettings::default()
    };
    let collection = database.create_collection("c", settings).unwrap();
    let options = Options {
        batch_documents: 50,
        on_bad: OnBad::Skip { max: 0 },
        ..Options::default()
    };
    let mut acknowledged = 0;
    let mut observe = |event: &Event<'_>| {
        if let Event::Acknowledged(progress) = event {
            let documents = progress.documents;
            assert!(documents > acknowledged, "acknowledgements go up");
            if acknowledged < 1_000 && documents >= 1_000 {
                spoil(&env);
            }
            acknowledged = documents;
        }
        Ok(())
    };
    let inputs = vec![input(documents(count))];
    let summary = load(&collection, &*env, inputs, &options, &mut observe);
    assert_eq!(summary.progress.documents, acknowledged);

    // What was acknowledged is there after a crash.
    let after = env.after_crash(8);
    after.heal();
    after.set_capacity(u64::MAX);
    let database = Database::builder("/db").env(after).open().unwrap();
    let collection = database.collection("c").unwrap();
    for id in 0..acknowledged {
        let key = Key::from(id);
        assert!(
            collection.get(&key).unwrap().is_some(),
            "{id} of {acknowledged}"
        );
    }
    summary
}

#[test]
fn all_is_loaded_where_nothing_fails() {
    let summary = load_while(5_000, |_| {});
    assert!(summary.stopped.is_none(), "{:?}", summary.stopped);
    assert_eq!(
        (summary.progress.documents, summary.progress.bytes),
        (5_000, documents(5_000).len() as u64)
    );
}

#[test]
fn a_disk_that_fills_stops_the_load_and_keeps_what_was_acknowledged() {
    let summary = load_while(40_000, |env| env.set_capacity(1));
    let Some(Error::Database(error)) = &summary.stopped else {
        panic!("{summary:?}")
    };
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    assert!((1_000..40_000).contains(&summary.progress.documents));
}

#[test]
fn a_disk_that_fails_to_sync_stops_the_load_and_keeps_what_was_acknowledged() {
    let summary = load_while(40_000, |env| env.fail_syncs(true));
    assert!(
        matches!(summary.stopped, Some(Error::Database(_))),
        "{summary:?}"
    );
    assert!((1_000..40_000).contains(&summary.progress.documents));
}

#[test]
fn an_observer_that_fails_stops_the_load() {
    let env = SimEnv::new(1);
    let database = Database::builder("/db").env(env.clone()).open().unwrap();
    let collection = database
        .create_collection("c", CollectionSettings::default())
        .unwrap();
    let mut observe = |_: &Event<'_>| Err(io::Error::from(io::ErrorKind::BrokenPipe));
    let inputs = vec![input(documents(30_000))];
    let summary = load(
        &collection,
        &*env,
        inputs,
        &Options::default(),
        &mut observe,
    );
    assert!(
        matches!(summary.stopped, Some(Error::Observer(_))),
        "{summary:?}"
    );
    assert!(summary.progress.documents < 30_000);
}
