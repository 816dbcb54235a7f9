//! Writes with options, and batches, atomic and not.

use quiredb::{
    Collection, CollectionSettings, Database, Document, Durability, Effect, ErrorKind, Key, SimEnv,
    Write,
};
use std::sync::Arc;

fn open(env: &Arc<SimEnv>, partitions: u32) -> (Database, Collection) {
    let database = Database::builder("/db").env(env.clone()).open().unwrap();
    let settings = || CollectionSettings {
        partitions,
        ..CollectionSettings::default()
    };
    let notes = database.collection_or_create("notes", settings).unwrap();
    (database, notes)
}

fn note(key: &str) -> Document {
    Document::from_json(format!(r#"{{"_id":"{key}"}}"#).as_bytes()).unwrap()
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

#[test]
fn a_document_is_put_under_its_key_field_or_under_a_given_key() {
    let (_database, notes) = open(&SimEnv::new(1), 3);
    notes.put(&note("a")).unwrap();
    let contradicting = notes.put_at(&key("b"), &note("a")).unwrap_err();
    assert_eq!(contradicting.kind(), ErrorKind::Invalid);
    let keyless = Document::from_json(b"{}").unwrap();
    notes.put_at(&key("b"), &keyless).unwrap();
    notes.put_at(&key("c"), &note("c")).unwrap();
    assert_eq!(notes.count().unwrap(), 3);
    let error = notes.put(&keyless).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("_id"), "{error}");
    let mut batch = notes.batch();
    assert_eq!(batch.put(&keyless).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(batch.is_empty());
}

#[test]
fn options_of_a_single_write_hold() {
    let env = SimEnv::new(1);
    let (_database, notes) = open(&env, 1);
    let write = || notes.write().if_absent().durability(Durability::None);
    let first = write().put(&note("a")).unwrap();
    // Nothing was synced, so a crash may take it.
    let left = |seed| open(&env.after_crash(seed), 1).1.count().unwrap();
    assert!((0..16).any(|seed| left(seed) == 0));
    assert_eq!(
        write().put(&note("a")).unwrap_err().kind(),
        ErrorKind::Conflict
    );
    let version = notes.write().if_version(first.version);
    let second = version.clone().put(&note("a")).unwrap();
    assert_eq!(second.effect, Effect::Updated);
    assert_eq!(
        version.delete(&key("a")).unwrap_err().kind(),
        ErrorKind::Conflict
    );
    // The condition of a write that is made already holds too.
    let made = Write::delete(key("a")).if_version(first.version);
    assert_eq!(
        notes.write().run(made).unwrap_err().kind(),
        ErrorKind::Conflict
    );
}

#[test]
fn an_atomic_batch_is_done_whole_or_not_at_all() {
    let (_database, notes) = open(&SimEnv::new(1), 1);
    notes.put(&note("b")).unwrap();
    let mut batch = notes.batch();
    batch.put(&note("a")).unwrap();
    batch.push(Write::put(key("b"), note("b")).if_absent());
    assert_eq!(
        batch.write_atomic().unwrap_err().kind(),
        ErrorKind::Conflict
    );
    assert_eq!(notes.get(&key("a")).unwrap(), None);

    // A later write sees what an earlier one of the batch did.
    let mut batch = notes.batch();
    batch.put(&note("a")).unwrap();
    batch.push(Write::put(key("a"), note("a")).if_absent());
    assert_eq!(
        batch.write_atomic().unwrap_err().kind(),
        ErrorKind::Conflict
    );
    assert_eq!(notes.get(&key("a")).unwrap(), None);

    let mut batch = notes.batch();
    batch.put(&note("a")).unwrap();
    batch.delete(&key("b"));
    let written = batch.write_atomic().unwrap();
    let effects: Vec<_> = written.iter().map(|written| written.effect).collect();
    assert_eq!(effects, [Effect::Created, Effect::Deleted]);
    assert!(notes.batch().write_atomic().unwrap().is_empty());
}

#[test]
fn an_atomic_batch_is_refused_over_several_partitions_and_above_its_limit() {
    let (_database, notes) = open(&SimEnv::new(1), 8);
    let keys = (0..100).map(|n| key(&format!("key-{n}")));
    let puts = keys.map(|key| Write::put(key, Document::from_json(b"{}").unwrap()));
    let several: Vec<Write> = puts.collect();
    let error = notes
        .batch()
        .writes(several.clone())
        .write_atomic()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(notes.count().unwrap(), 0);
    let of_one = several
        .into_iter()
        .filter(|write| notes.partition_of(&write.key) == 2);
    let of_one = notes.batch().writes(of_one).write_atomic().unwrap();
    assert!(of_one.len() > 2 && notes.count().unwrap() == of_one.len() as u64);

    let (_database, notes) = open(&SimEnv::new(2), 1);
    let text = format!(r#"{{"text":"{}"}}"#, "x".repeat(15 << 20));
    let large = Document::from_json(text.as_bytes()).unwrap();
    let mut batch = notes.batch();
    for n in 0..4 {
        batch.put_at(&Key::from(n), &large);
    }
    let error = batch.write_atomic().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(notes.count().unwrap(), 0);
}

#[test]
fn an_atomic_batch_survives_a_crash_at_any_step_whole_or_not_at_all() {
    for step in 0.. {
        let env = SimEnv::new(7);
        let (database, notes) = open(&env, 1);
        notes.put(&note("before")).unwrap();
        env.crash_at(env.operations() + step);
        let mut batch = notes.batch();
        for n in 0..50 {
            batch.put(&note(&format!("note-{n}"))).unwrap();
        }
        let acknowledged = batch.write_atomic().is_ok();
        let crashed = env.crashed();
        drop((notes, database));
        for seed in 0..4 {
            let (_database, notes) = open(&env.after_crash(seed), 1);
            let count = notes.count().unwrap();
            assert!(
                count == 51 || (count == 1 && !acknowledged),
                "step {step}: {count}"
            );
        }
        if !crashed {
            return;
        }
    }
}
