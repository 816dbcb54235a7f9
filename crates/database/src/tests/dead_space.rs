//! The space of what is dead comes back by itself.

use crate::{Codec, Collection, CollectionSettings, Database};
use quire_collection::Write;
use quire_env::SimEnv;
use quire_model::{Document, Key};
use quire_store::Durability;
use std::sync::Arc;
use std::time::Duration;

/// What a minute does.
fn minute(env: &SimEnv) {
    for _ in 0..60 {
        env.advance(Duration::from_secs(1));
        env.run_due();
    }
}

fn write(collection: &Collection, writes: Vec<Write>) {
    let results = collection
        .batch()
        .writes(writes)
        .durability(Durability::None)
        .write();
    assert!(results.iter().all(Result::is_ok));
}

/// Bytes of all files below the directory of the collection.
fn disk_bytes(env: &SimEnv) -> u64 {
    let files = env.files().into_iter();
    let of_collection = files.filter(|path| path.starts_with("/db/c00000001"));
    let bytes = of_collection.map(|path| env.read_all(&path).unwrap().len() as u64);
    bytes.sum()
}

#[test]
fn what_is_overwritten_or_deleted_gives_its_space_back_within_a_minute() {
    const DOCUMENTS: u32 = 100;
    let env = SimEnv::new(1);
    let database = Database::builder("/db")
        .env(Arc::clone(&env) as _)
        .scrub_every(None)
        .open()
        .unwrap();
    let settings = CollectionSettings {
        partitions: 2,
        codec: Codec::None,
        ..CollectionSettings::default()
    };
    let notes = database.create_collection("notes", settings).unwrap();
    let text = "x".repeat(8 << 10);
    let document = |round: u32| {
        let json = format!(r#"{{"round":{round},"text":"{text}"}}"#);
        Document::from_json(json.as_bytes()).unwrap()
    };
    for round in 0..120 {
        let puts = (0..DOCUMENTS).map(|number| Write::put(Key::from(number), document(round)));
        write(&notes, puts.collect());
    }
    let live = u64::from(DOCUMENTS) * (8 << 10);
    let before = disk_bytes(&env);
    assert!(before > 90 << 20, "{before}");
    minute(&env);
    let after = disk_bytes(&env);
    assert!(
        after < 2 * live + (34 << 20),
        "{before} bytes became {after}"
    );
    // It is in proportion: another minute without writes does nothing.
    let compacted = notes.stats().unwrap().log_segments_compacted;
    minute(&env);
    assert_eq!(notes.stats().unwrap().log_segments_compacted, compacted);
    // All of the collection, and more than it may keep.
    let text = "y".repeat(1 << 20);
    let json = format!(r#"{{"text":"{text}"}}"#);
    let large = Document::from_json(json.as_bytes()).unwrap();
    for number in 0..100 {
        write(&notes, vec![Write::put(Key::from(number), large.clone())]);
    }
    let deletes = (0..DOCUMENTS).map(|number| Write::delete(Key::from(number)));
    write(&notes, deletes.collect());
    assert!(disk_bytes(&env) > 90 << 20);
    minute(&env);
    let after = disk_bytes(&env);
    assert!(after < 34 << 20, "{after} bytes are left of nothing");
    database.close().unwrap();
}
