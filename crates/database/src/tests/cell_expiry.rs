//! Cells of wide collections that expire, on a simulated machine whose time and background work the
//! test drives.

use super::open;
use crate::{CollectionSettings, Database, WideCollection};
use quire_env::SimEnv;
use quire_model::{Document, Key};
use quire_wide::{Cell, CellExpiry, Change, RowWrite, Schema};
use std::sync::Arc;
use std::time::Duration;

/// Longer than the time between two passes over what has expired.
const PERIOD: Duration = Duration::from_secs(2);

fn schema() -> Schema {
    let schema = Schema::from_json(
        br#"{"properties": {
            "title": {"type": "string"},
            "session": {"type": "string", "timeToLive": "10s"},
            "tags": {"type": "object", "additionalProperties": {"type": "string"},
                     "group": "tags"}
        }}"#,
    );
    schema.unwrap()
}

fn key(number: u64) -> Key {
    Key::from(number as i64)
}

fn tag(number: u64, seconds: u64) -> RowWrite {
    let tag = Change::set("tags", Cell::String("t".into())).of_member(number.to_string());
    let expiry = CellExpiry::After(Duration::from_secs(seconds));
    RowWrite::upsert(key(number % 7)).with(tag.expiring(expiry))
}

fn made(env: &Arc<SimEnv>) -> (Database, WideCollection) {
    let database = open(env).unwrap();
    let settings = CollectionSettings {
        partitions: 2,
        ..CollectionSettings::default()
    };
    let wide = database.create_wide_collection("w", schema(), settings);
    (database, wide.unwrap())
}

fn tags(wide: &WideCollection) -> usize {
    let count = |row| wide.members(&key(row), "tags", None, None).unwrap().count();
    (0..7).map(count).sum()
}

fn rest(env: &SimEnv, times: u32) {
    for _ in 0..times {
        env.advance(PERIOD);
        env.run_due();
    }
}

#[test]
fn cells_that_have_expired_are_removed_in_the_background() {
    let env = SimEnv::new(1);
    let (database, wide) = made(&env);
    let document = Document::from_json(br#"{"title":"t","session":"s"}"#).unwrap();
    wide.put(&key(0), &document).unwrap();
    // More than a step takes.
    for number in 0..3000 {
        wide.write(&tag(number, 20 + number % 2 * 1000)).unwrap();
    }
    assert_eq!(tags(&wide), 3000);
    env.advance(Duration::from_secs(15));
    let found = wide.get(&key(0)).unwrap().unwrap().document;
    assert!(found.get("title").is_some() && found.get("session").is_none());
    let version = wide.get(&key(1)).unwrap().unwrap().version;
    rest(&env, 5);
    assert_eq!(tags(&wide), 1500);
    let stats = wide.stats().unwrap();
    assert_eq!(stats.background_errors, Vec::<String>::new());
    assert_eq!(stats.cells_expired, 1501);
    assert_eq!(wide.get(&key(1)).unwrap().unwrap().version, version);

    // One that was opened anew goes on, without a write.
    wide.flush().unwrap();
    database.close().unwrap();
    drop((wide, database));
    let database = open(&env).unwrap();
    let wide = database.wide_collection("w").unwrap();
    env.advance(Duration::from_secs(1200));
    rest(&env, 5);
    assert_eq!(wide.stats().unwrap().cells_expired, 1500);
    for partition in wide.partitions().iter() {
        let rows = partition.check(&mut |problem| panic!("{problem}"));
        assert!(rows.unwrap() > 0);
    }
    assert_eq!(wide.count().unwrap(), 7, "rows stay without cells");
}

#[test]
fn a_collection_without_times_has_no_job_and_a_time_to_live_begins_it() {
    let env = SimEnv::new(1);
    let (database, wide) = made(&env);
    let titled = Document::from_json(br#"{"title":"t"}"#).unwrap();
    wide.put(&key(1), &titled).unwrap();
    assert!(!wide.partitions().iter().any(|one| one.expects_expiry()));
    let wide = database
        .alter_wide_collection("w", |schema| {
            schema.with_time_to_live("title", Some(Duration::from_secs(30)))
        })
        .unwrap();
    // What is there already does not expire.
    rest(&env, 30);
    assert!(
        wide.get(&key(1))
            .unwrap()
            .unwrap()
            .document
            .get("title")
            .is_some()
    );
    wide.put(&key(1), &titled).unwrap();
    wide.put(&key(2), &titled).unwrap();
    rest(&env, 30);
    assert_eq!(wide.stats().unwrap().cells_expired, 2);
    assert!(
        wide.get(&key(1))
            .unwrap()
            .unwrap()
            .document
            .get("title")
            .is_none()
    );
}
