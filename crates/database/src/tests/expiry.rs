//! Documents that expire, against a model, on a simulated machine whose time and background work
//! the test drives.

use super::numbers::Numbers;
use super::open;
use crate::{Collection, CollectionSettings, Database, ErrorKind};
use quire_collection::{Condition, Effect, Expiry, Write};
use quire_env::{Env, SimEnv};
use quire_model::{Document, Key};
use quire_seeded::{Bug, assert_each_is_found};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longer than the time between two passes over what has expired.
const PERIOD: Duration = Duration::from_secs(2);
const KEYS: u64 = 40;

fn document(n: u64) -> Document {
    Document::from_json(format!(r#"{{"n":{n}}}"#).as_bytes()).unwrap()
}

fn key(n: u64) -> Key {
    Key::from(n as i64)
}

/// The documents by the definition: what each holds, and when it expires.
#[derive(Debug, Clone, Default)]
struct Model(BTreeMap<Key, (u64, Option<i64>)>);

impl Model {
    fn expire(&mut self, now: i64) {
        let is_left = |(_, expires): &(u64, Option<i64>)| expires.is_none_or(|at| at > now);
        self.0.retain(|_, it| is_left(it));
    }

    /// What a write should do.
    fn write(&mut self, write: &Write, n: u64, now: i64) -> Result<Effect, ErrorKind> {
        self.expire(now);
        let old = self.0.get(&write.key).copied();
        if write.condition == Condition::IfAbsent && old.is_some() {
            return Err(ErrorKind::Conflict);
        }
        let at = |usual| match write.expiry {
            Expiry::Usual => usual,
            Expiry::Never => None,
            Expiry::At(time) => Some(time),
        };
        match (&write.action, old) {
            (quire_collection::Action::Put(_), _) => {
                self.0.insert(write.key.clone(), (n, at(None)));
                self.expire(now);
                Ok(match old {
                    Some(_) => Effect::Updated,
                    None => Effect::Created,
                })
            }
            (quire_collection::Action::Patch(_), None) => Err(ErrorKind::NotFound),
            (quire_collection::Action::Patch(_), Some((was, expires))) => {
                // A time that has passed is taken for that of the write.
                let expires = at(expires);
                self.0.insert(write.key.clone(), (n, expires));
                self.expire(now);
                Ok(match was == n && expires == old.and_then(|old| old.1) {
                    true => Effect::Unchanged,
                    false => Effect::Updated,
                })
            }
            (quire_collection::Action::Delete, old) => {
                self.0.remove(&write.key);
                Ok(match old {
                    Some(_) => Effect::Deleted,
                    None => Effect::Unchanged,
                })
            }
        }
    }

    /// That a collection has these documents for those who read by key.
    fn check(&mut self, collection: &Collection, now: i64, at: &str) {
        self.expire(now);
        let expected: Vec<_> = self.0.iter().map(|(key, it)| (key.clone(), *it)).collect();
        let of = |found: crate::Result<quire_collection::Found>| {
            let found = found.unwrap();
            let n = found.document.get("n").unwrap();
            let quire_model::ValueRef::Int(n) = n else {
                panic!("{n:?}")
            };
            (found.key, (n as u64, found.expires_micros))
        };
        let scanned: Vec<_> = collection.scan(..).unwrap().map(of).collect();
        assert_eq!(scanned, expected, "{at}: a scan");
        let keys: Vec<Key> = (0..KEYS).map(key).collect();
        let got = collection.get_many(&keys).unwrap().into_iter().flatten();
        let mut got: Vec<_> = got.map(|found| of(Ok(found))).collect();
        got.sort();
        assert_eq!(got, expected, "{at}: many at once");
        for key in keys {
            let found = collection.get(&key).unwrap();
            let expected = self.0.get(&key).map(|it| (key.clone(), *it));
            assert_eq!(found.map(|found| of(Ok(found))), expected, "{at}: a get");
        }
    }
}

/// A life of a collection whose documents expire.
fn life(seed: u64) -> u64 {
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15 ^ seed);
    let mut env = SimEnv::new(seed);
    let mut database = open(&env).unwrap();
    let settings = CollectionSettings {
        partitions: 1 + (seed % 2) as u32,
        ..CollectionSettings::default()
    };
    let mut collection = database.create_collection("c", settings).unwrap();
    let mut model = Model::default();
    let mut deleted = 0;
    for step in 0..250 {
        let at = format!("seed {seed}, step {step}");
        match numbers.below(20) {
            0..13 => {
                let (key, n) = (key(numbers.below(KEYS)), numbers.below(3));
                let write = match numbers.below(10) {
                    0..5 => Write::put(key, document(n)),
                    5..8 => Write::patch(key, document(n)),
                    _ => Write::delete(key),
                };
                let write = match numbers.below(4) {
                    0 => write.if_absent(),
                    _ => write,
                };
                let now = env.now_micros();
                let write = write.expiring(match numbers.below(8) {
                    0..2 => Expiry::Usual,
                    2 => Expiry::Never,
                    3 => Expiry::At(now),
                    _ => Expiry::At(now + 1_000_000 * numbers.below(30) as i64),
                });
                let expected = model.write(&write, n, now);
                let done = collection.write().run(write);
                let done = done.map(|written| written.effect);
                assert_eq!(done.map_err(|error| error.kind()), expected, "{at}");
            }
            13..15 => {
                env.advance(Duration::from_secs(numbers.below(10)));
                model.check(&collection, env.now_micros(), &at);
            }
            15..17 => {
                env.advance(PERIOD);
                env.run_due();
                model.check(&collection, env.now_micros(), &at);
                let count = collection.count().unwrap();
                assert_eq!(count, model.0.len() as u64, "{at}: what is left");
            }
            17 => collection.flush().unwrap(),
            18 => collection.compact().unwrap(),
            _ => {
                deleted += collection.stats().unwrap().retention_deleted;
                match numbers.below(2) {
                    0 => database.close().unwrap(),
                    _ => env = env.after_crash(numbers.below(u64::MAX)),
                }
                (database, collection) = reopened(&env);
                model.check(&collection, env.now_micros(), &at);
            }
        }
    }
    env.advance(PERIOD);
    env.run_due();
    model.expire(env.now_micros());
    let expected = model.0.values().filter(|it| it.1.is_some()).count();
    let mut expiries = 0;
    for partition in collection.partitions().iter() {
        let mut wrong = |found| panic!("seed {seed}: {found:?}");
        expiries += partition.check(&mut wrong).unwrap().expiries;
    }
    assert_eq!(
        expiries, expected as u64,
        "seed {seed}: times that are kept"
    );
    let stats = collection.stats().unwrap();
    assert_eq!(stats.background_errors, Vec::<String>::new());
    deleted + stats.retention_deleted
}

fn reopened(env: &Arc<SimEnv>) -> (Database, Collection) {
    let database = open(env).unwrap();
    let collection = database.collection("c").unwrap();
    (database, collection)
}

#[test]
fn documents_expire_at_their_time_and_are_deleted_soon_after() {
    let deleted: u64 = (1..=40).map(life).sum();
    assert!(deleted > 400, "{deleted} deleted");
}

#[test]
fn bugs_of_expiry_are_found() {
    assert_each_is_found(Bug::OF_EXPIRY, || {
        assert!((1..=10).map(life).sum::<u64>() > 0)
    });
}

#[test]
fn many_documents_that_expire_at_one_time_are_all_deleted_and_others_stay() {
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    let collection = database
        .create_collection("c", CollectionSettings::default())
        .unwrap();
    let at = env.now_micros() + 5_000_000;
    let writes = (0..3000).map(|n| {
        let expiry = match n % 3 {
            0 => Expiry::Never,
            _ => Expiry::At(at),
        };
        Write::put(key(n), document(n)).expiring(expiry)
    });
    let results = collection.batch().writes(writes).write();
    assert!(results.iter().all(Result::is_ok));
    env.advance(Duration::from_secs(4));
    env.run_due();
    assert_eq!(collection.count().unwrap(), 3000);
    // A view keeps what had not expired when it was made.
    let view = collection.view().unwrap();
    env.advance(PERIOD);
    assert_eq!(collection.get(&key(1)).unwrap(), None);
    env.run_due();
    assert_eq!(collection.count().unwrap(), 1000);
    assert_eq!(view.scan(..).unwrap().count(), 3000);
    assert_eq!(view.get(&key(1)).unwrap().unwrap().document, document(1));
}

#[test]
fn a_document_that_has_expired_keeps_its_external_version() {
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    let collection = database
        .create_collection("c", CollectionSettings::default())
        .unwrap();
    let expiring = |version| {
        let now = Expiry::At(env.now_micros());
        Write::put(key(1), document(1))
            .external(version)
            .expiring(now)
    };
    collection.write().run(expiring(5)).unwrap();
    assert_eq!(collection.get(&key(1)).unwrap(), None);
    let older = collection.write().run(expiring(5)).unwrap_err();
    assert_eq!(older.kind(), ErrorKind::Conflict);
    // Its deletion gives it a version too.
    env.advance(PERIOD);
    env.run_due();
    let older = collection.write().run(expiring(6)).unwrap_err();
    assert_eq!(older.kind(), ErrorKind::Conflict);
    let newer = Write::put(key(1), document(2)).external(7);
    let written = collection.write().run(newer).unwrap();
    assert_eq!(written.effect, Effect::Created);
}

#[test]
fn a_document_that_expires_late_stays_when_the_clock_is_set_back() {
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    let collection = database
        .create_collection("c", CollectionSettings::default())
        .unwrap();
    let put = |n, after: i64| {
        let expiry = Expiry::At(env.now_micros() + after * 1_000_000);
        let written = collection
            .write()
            .expiry(expiry)
            .put_at(&key(n), &document(n));
        written.unwrap();
    };
    put(1, 1);
    env.advance(PERIOD);
    env.run_due();
    assert_eq!(collection.count().unwrap(), 0);
    env.shift_wall_clock(-3_600_000_000);
    put(2, 10);
    env.advance(PERIOD);
    env.run_due();
    assert_eq!(collection.count().unwrap(), 1);
    env.advance(Duration::from_secs(10));
    env.run_due();
    assert_eq!(collection.count().unwrap(), 0);
}
