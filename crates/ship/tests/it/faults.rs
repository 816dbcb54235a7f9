//! Whatever the faults and kills, the sink equals the source.

use crate::fake::{FAULTS, Fake, Fault, PATIENCE};
use proptest::prelude::*;
use quire_ship::{
    Access, BulkOptions, BulkSink, CollectionSource, Error, FileSink, FileSource, Http, Progress,
    ShipOptions, Source, Target, ship, status,
};
use quiredb::{Collection, CollectionSettings, Database, Document, Env, Key, OsEnv};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A client that waits as long as any machine takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn env() -> Arc<dyn Env> {
    OsEnv::new().unwrap()
}

pub(crate) fn target(env: &Arc<dyn Env>, url: &str, timeout: Duration) -> Target {
    let access = Access {
        url: url.to_owned(),
        timeout,
        ..Access::default()
    };
    let http = Http::new(&**env, &access, 4).unwrap();
    let options = BulkOptions {
        gzip: false,
        doc_type: None,
        concurrency_max: 4,
    };
    Target {
        name: "search".into(),
        sink: Arc::new(BulkSink::new(http, "tracks", options)),
        bulk_bytes: Some(2_000),
        concurrency: Some(4),
        dead_letters_max: 10,
    }
}

pub(crate) fn run(
    env: &Arc<dyn Env>,
    source: &dyn Source,
    target: &Target,
    state: &Path,
    stop: &(dyn Fn() -> bool + Sync),
) -> quire_ship::Result<Progress> {
    let options = ShipOptions {
        state: state.to_owned(),
        once: true,
        report_every: Duration::from_millis(100),
    };
    let targets = std::slice::from_ref(target);
    let mut ends = ship(env, source, targets, &options, &|_| (), stop).unwrap();
    ends.remove(0)
}

/// A collection with changes by turns: documents put, replaced, deleted.
fn write(collection: &Collection, changes: &[(u8, u8)]) {
    for (key, value) in changes {
        let key = Key::from(u64::from(*key));
        match value % 4 {
            0 => drop(collection.delete(&key).unwrap()),
            _ => {
                let json = format!("{{\"_id\":{key},\"value\":{value},\"text\":\"é\\n\"}}");
                let document = Document::from_json(json.as_bytes()).unwrap();
                collection.put(&document).unwrap();
            }
        }
    }
}

pub(crate) fn documents(collection: &Collection) -> BTreeMap<String, Value> {
    let found = collection.scan(..).unwrap().map(|found| {
        let document = found.unwrap().document;
        let mut value: Value = serde_json::from_str(&document.to_json()).unwrap();
        let id = value.as_object_mut().unwrap().shift_remove("_id").unwrap();
        (id.to_string(), value)
    });
    found.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    // A run is stopped after a number of looks at the flag, which leaves what a kill leaves: a
    // cursor of some earlier moment. The next run goes on, and the last one comes to the end.
    #[test]
    fn whatever_the_faults_and_kills_the_sink_equals_the_source(
        first in prop::collection::vec((0..60_u8, any::<u8>()), 1..300),
        second in prop::collection::vec((0..60_u8, any::<u8>()), 0..100),
        faults in prop::collection::vec(0..FAULTS.len(), 0..12),
        kills in prop::collection::vec(1..40_u64, 0..4),
    ) {
        // Late answers cost real time: one is enough.
        let mut faults: Vec<Fault> = faults.into_iter().map(|index| FAULTS[index]).collect();
        let mut is_late = false;
        faults.retain(|fault| *fault != Fault::Late || !std::mem::replace(&mut is_late, true));
        let fake = Fake::start(faults);
        let (env, dir) = (env(), tempfile::tempdir().unwrap());
        let database = Database::open(dir.path().join("db")).unwrap();
        let settings = CollectionSettings { partitions: 3, ..CollectionSettings::default() };
        let collection = database.create_collection("tracks", settings).unwrap();
        let source = CollectionSource::new(collection.clone(), "db/tracks", false);
        let state = dir.path().join("state");
        // Only a late answer is not waited for: what is given up may still be under way there.
        let target = target(&env, &fake.url, if is_late { PATIENCE } else { LONG });
        write(&collection, &first);
        for kill in kills {
            let looks = AtomicU64::new(0);
            let stop = || looks.fetch_add(1, Ordering::Relaxed) > kill;
            match run(&env, &source, &target, &state, &stop) {
                Ok(_) | Err(Error::Stopped) => {}
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            }
        }
        run(&env, &source, &target, &state, &|| false).unwrap();
        prop_assert_eq!(fake.state.lock().unwrap().documents(), documents(&collection));
        write(&collection, &second);
        let progress = run(&env, &source, &target, &state, &|| false).unwrap();
        prop_assert!(progress.is_level);
        prop_assert_eq!(progress.lag_changes, Some(0));
        let server = fake.state.lock().unwrap();
        prop_assert_eq!(server.documents(), documents(&collection));
        prop_assert!(!server.key_in_two_bulks || is_late);
    }
}

#[test]
fn a_refused_document_is_put_aside_with_the_reason_and_too_many_stop_the_run() {
    let fake = Fake::start(vec![Fault::RejectItems, Fault::HalfAnswer]);
    let (env, dir) = (env(), tempfile::tempdir().unwrap());
    let file = dir.path().join("in.ndjson");
    let lines = |bad: u32| -> String {
        let lines = (0..50).map(|n| format!("{{\"_id\":\"k{n}\",\"bad\":{}}}\n", n < bad));
        lines.collect()
    };
    std::fs::write(&file, lines(3)).unwrap();
    let source = FileSource::new(Arc::clone(&env), vec![file.clone()], "_id");
    let target = target(&env, &fake.url, LONG);
    let state = dir.path().join("state");
    let progress = run(&env, &source, &target, &state, &|| false).unwrap();
    assert_eq!((progress.changes, progress.dead_letters), (50, 3));
    assert_eq!(fake.state.lock().unwrap().documents().len(), 47);
    let dead = std::fs::read_to_string(state.join("search.dead.ndjson")).unwrap();
    let dead: Vec<Value> = dead
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut keys: Vec<_> = dead
        .iter()
        .map(|line| line["change"]["key"].to_string())
        .collect();
    keys.sort();
    assert_eq!(keys, ["\"k0\"", "\"k1\"", "\"k2\""]);
    assert_eq!(dead[0]["reason"], "status 400: mapper: bad");

    // More lines at the end of the file are the next run's.
    let mut grown = lines(3);
    grown.push_str(&lines(20));
    std::fs::write(&file, grown).unwrap();
    let error = run(&env, &source, &target, &state, &|| false).unwrap_err();
    assert!(error.to_string().contains("dead_letters_max"), "{error}");
    let stored = status(&*env, &state, "search").unwrap().unwrap();
    assert_eq!(stored.changes, 50, "what was refused is not passed over");
}

#[test]
fn files_hold_each_change_once_though_the_run_was_killed() {
    let (env, dir) = (env(), tempfile::tempdir().unwrap());
    let input = dir.path().join("in.ndjson");
    let line = |n: u32| format!("{{\"sku\":\"k{n}\",\"n\":{n}}}\n");
    std::fs::write(&input, (0..500).map(line).collect::<String>()).unwrap();
    let source = FileSource::new(Arc::clone(&env), vec![input], "sku");
    let (state, out) = (dir.path().join("state"), dir.path().join("out"));
    for kill in [3, 5, 9, u64::MAX] {
        let looks = AtomicU64::new(0);
        let target = Target {
            name: "archive".into(),
            sink: Arc::new(FileSink::lines(Arc::clone(&env), out.clone(), 20_000)),
            bulk_bytes: Some(2_000),
            concurrency: None,
            dead_letters_max: 0,
        };
        let stop = || looks.fetch_add(1, Ordering::Relaxed) > kill;
        let end = run(&env, &source, &target, &state, &stop);
        assert!(end.is_ok() || kill < u64::MAX, "{end:?}");
        if kill < u64::MAX && end.is_err() {
            // What a kill leaves after the stored length.
            let mut names: Vec<_> = std::fs::read_dir(&out).unwrap().flatten().collect();
            names.sort_by_key(|name| name.file_name());
            let last = names.pop().unwrap().path();
            let mut bytes = std::fs::read(&last).unwrap();
            bytes.extend_from_slice(b"{\"partition\":0,\"posi");
            std::fs::write(&last, bytes).unwrap();
        }
    }
    let mut names: Vec<_> = std::fs::read_dir(&out).unwrap().flatten().collect();
    names.sort_by_key(|name| name.file_name());
    assert!(names.len() > 1, "a new file begins when one is full");
    let mut keys = Vec::new();
    for name in names {
        for line in std::fs::read_to_string(name.path()).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            keys.push(line["key"].as_str().unwrap().to_owned());
        }
    }
    let expected: Vec<String> = (0..500).map(|n| format!("k{n}")).collect();
    assert_eq!(keys, expected);
}

#[test]
fn a_position_of_another_source_is_refused_and_so_is_a_second_run() {
    let (env, dir) = (env(), tempfile::tempdir().unwrap());
    let fake = Fake::start(vec![]);
    let target = target(&env, &fake.url, LONG);
    let state = dir.path().join("state");
    for (name, is_first) in [("a", true), ("b", false)] {
        let path = dir.path().join(name);
        std::fs::write(&path, "{\"_id\":1}\n").unwrap();
        let source = FileSource::new(Arc::clone(&env), vec![path], "_id");
        let end = run(&env, &source, &target, &state, &|| false);
        match is_first {
            true => assert_eq!(end.unwrap().changes, 1),
            false => assert!(end.unwrap_err().to_string().contains("another source")),
        }
    }
    let _lock = env.lock_dir(&state).unwrap();
    let source = FileSource::new(Arc::clone(&env), vec![], "_id");
    let options = ShipOptions {
        state: state.clone(),
        once: true,
        report_every: Duration::from_secs(1),
    };
    let error = ship(&env, &source, &[target], &options, &|_| (), &|| false).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
}

#[test]
fn a_key_for_which_the_whole_bulk_is_refused_is_put_aside_alone() {
    let fake = Fake::start(vec![Fault::RejectItems]);
    let (env, dir) = (env(), tempfile::tempdir().unwrap());
    let file = dir.path().join("in.ndjson");
    let line = |n: u32| match n {
        13 => format!("{{\"_id\":\"{}\"}}\n", "k".repeat(600)),
        31 => "{\"_id\":\"\"}\n".to_owned(),
        n => format!("{{\"_id\":\"k{n}\"}}\n"),
    };
    std::fs::write(&file, (0..50).map(line).collect::<String>()).unwrap();
    let source = FileSource::new(Arc::clone(&env), vec![file.clone()], "_id");
    let target = target(&env, &fake.url, LONG);
    let state = dir.path().join("state");
    let progress = run(&env, &source, &target, &state, &|| false).unwrap();
    assert_eq!((progress.changes, progress.dead_letters), (50, 2));
    assert_eq!(fake.state.lock().unwrap().documents().len(), 48);
    let dead = std::fs::read_to_string(state.join("search.dead.ndjson")).unwrap();
    assert_eq!(dead.matches("id is too long").count(), 2, "{dead}");

    // A sink that refuses all is not one with wrong documents.
    let grown = (0..90).map(|n| line(n % 10)).collect::<String>();
    std::fs::write(&file, (0..50).map(line).collect::<String>() + &grown).unwrap();
    fake.state.lock().unwrap().refuses_all = true;
    let end = run(&env, &source, &target, &state, &|| false);
    assert!(matches!(end, Err(Error::Sink { .. })), "{end:?}");
    let after = std::fs::read_to_string(state.join("search.dead.ndjson")).unwrap();
    assert_eq!(after, dead);
}

#[test]
fn a_last_line_without_an_end_is_shipped_if_it_is_whole() {
    let (env, dir) = (env(), tempfile::tempdir().unwrap());
    let fake = Fake::start(vec![]);
    let target = target(&env, &fake.url, LONG);
    let state = dir.path().join("state");
    let files = [dir.path().join("a"), dir.path().join("b")];
    std::fs::write(&files[0], "{\"_id\":1}\n{\"_id\":2}").unwrap();
    let source = FileSource::new(Arc::clone(&env), files.to_vec(), "_id");
    for (text, changes) in [
        ("{\"_id\":3}\n{\"_id\":4,\"a\":{}", 3),
        ("{\"_id\":3}\n{\"_id\":4,\"a\":{}}", 1),
        ("{\"_id\":3}\n{\"_id\":4,\"a\":{}}\n", 0),
        ("{\"_id\":3}\n{\"_id\":4,\"a\":{}}\n{\"_id\":5}", 1),
    ] {
        std::fs::write(&files[1], text).unwrap();
        let progress = run(&env, &source, &target, &state, &|| false).unwrap();
        assert_eq!(progress.changes, changes, "{text}");
    }
    assert_eq!(fake.state.lock().unwrap().documents().len(), 5);
    // What is whole and no document is said.
    let text = std::fs::read_to_string(&files[1]).unwrap();
    std::fs::write(&files[1], text + "\n{\"id\":6}").unwrap();
    let error = run(&env, &source, &target, &state, &|| false).unwrap_err();
    assert!(error.to_string().contains("no field \"_id\""), "{error}");
}
