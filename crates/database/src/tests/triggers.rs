//! Triggers of plain and wide collections: what they change is in the record of the write.

use super::open;
use crate::{CollectionSettings, Database, ErrorKind};
use proptest::prelude::*;
use quire_collection::{Effect, Written};
use quire_coprocessor::{Change, Code, TriggerOptions};
use quire_env::SimEnv;
use quire_model::{Document, Key, ValueRef};
use quire_seeded::{Bug, assert_each_is_found};
use quire_wide::{Cell, Change as CellChange, ColumnType, Operand, RowWrite, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn json(text: &str) -> Document {
    Document::from_json(text.as_bytes()).unwrap()
}

fn number(document: Option<&Document>, field: &str) -> Option<i64> {
    match document?.get(field) {
        Some(ValueRef::Int(number)) => Some(number),
        _ => None,
    }
}

/// Traps if `n` is 1, loops if it is 2, fails if it is 3, wants memory if it is 4, emits too much
/// if it is 5, and what is no document if it is 6; otherwise it sets `seen`.
fn module() -> Vec<u8> {
    let text = r#"(module
      (import "quire_1" "get_i64" (func $get (param i32 i32 i32 i32) (result i32)))
      (import "quire_1" "emit" (func $emit (param i32 i32)))
      (import "quire_1" "fail" (func $fail (param i32 i32)))
      (memory (export "memory") 32)
      (data (i32.const 0) "n")
      (data (i32.const 32) "{\"seen\":true}")
      (data (i32.const 64) "not this one")
      (func (export "quire_1_trigger") (local $n i64)
        (i64.store (i32.const 8) (i64.const 0))
        (drop (call $get (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
        (local.set $n (i64.load (i32.const 8)))
        (if (i64.eq (local.get $n) (i64.const 1)) (then unreachable))
        (if (i64.eq (local.get $n) (i64.const 2)) (then (loop $l (br $l))))
        (if (i64.eq (local.get $n) (i64.const 3))
          (then (call $fail (i32.const 64) (i32.const 12))))
        (if (i64.eq (local.get $n) (i64.const 4))
          (then (drop (memory.grow (i32.const 10000)))))
        (if (i64.eq (local.get $n) (i64.const 5))
          (then (call $emit (i32.const 0) (i32.const 2000000))))
        (if (i64.eq (local.get $n) (i64.const 6))
          (then (call $emit (i32.const 64) (i32.const 12))))
        (if (call $get (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8))
          (then (call $emit (i32.const 32) (i32.const 13))))))"#;
    wat::parse_str(text).unwrap()
}

/// A plain collection and a wide one with the same documents.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Which {
    Plain,
    Wide,
}

const BOTH: [Which; 2] = [Which::Plain, Which::Wide];

impl Which {
    fn create(self, database: &Database) {
        let settings = CollectionSettings {
            partitions: 2,
            ..CollectionSettings::default()
        };
        match self {
            Which::Plain => drop(database.create_collection("rows", settings).unwrap()),
            Which::Wide => {
                let schema = Schema::new()
                    .with_column("n", ColumnType::Int, "meta")
                    .and_then(|one| one.with_column("seen", ColumnType::Bool, "seen"))
                    .and_then(|one| one.with_column("twice", ColumnType::Int, "other"))
                    .and_then(|one| one.with_column("writes", ColumnType::Int, "other"))
                    .and_then(|one| one.with_column("html", ColumnType::String, "content"))
                    .and_then(|one| one.with_family("links", ColumnType::Int, "links"));
                let wide = database.create_wide_collection("rows", schema.unwrap(), settings);
                drop(wide.unwrap());
            }
        }
    }

    fn put(self, database: &Database, key: u64, document: &str) -> crate::Result<Written> {
        let (key, document) = (Key::from(key), json(document));
        match self {
            Which::Plain => database.collection("rows")?.put_at(&key, &document),
            Which::Wide => database.wide_collection("rows")?.put(&key, &document),
        }
    }

    fn patch(self, database: &Database, key: u64, patch: &str) -> crate::Result<Written> {
        let (key, patch) = (Key::from(key), json(patch));
        match self {
            Which::Plain => database.collection("rows")?.patch(&key, &patch),
            Which::Wide => database.wide_collection("rows")?.patch(&key, &patch),
        }
    }

    fn delete(self, database: &Database, key: u64) -> crate::Result<Written> {
        match self {
            Which::Plain => database.collection("rows")?.delete(&Key::from(key)),
            Which::Wide => database.wide_collection("rows")?.delete(&Key::from(key)),
        }
    }

    fn attach(self, database: &Database, code: &Code) -> crate::Result<()> {
        let options = TriggerOptions::default();
        match self {
            Which::Plain => database.collection("rows")?.attach_trigger(code, options),
            Which::Wide => database
                .wide_collection("rows")?
                .attach_trigger(code, options),
        }
    }

    /// All documents by key, with their fields sorted and without the key.
    fn rows(self, database: &Database) -> Rows {
        let found: Vec<_> = match self {
            Which::Plain => {
                let rows = database.collection("rows").unwrap().scan(..).unwrap();
                rows.collect::<crate::Result<_>>().unwrap()
            }
            Which::Wide => {
                let rows = database.wide_collection("rows").unwrap().rows().unwrap();
                rows.collect::<crate::Result<_>>().unwrap()
            }
        };
        let rows = found.into_iter().map(|found| {
            let mut row: serde_json::Value =
                serde_json::from_str(&found.document.to_json()).unwrap();
            row.as_object_mut().unwrap().remove("_id");
            (found.key.to_string(), row)
        });
        rows.collect()
    }
}

type Rows = BTreeMap<String, serde_json::Value>;

fn value(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// Counts the writes of a row in `writes`, and refuses to remove a row with an odd number.
fn counter() -> Code {
    Code::trigger("counter", |change: &Change<'_>| {
        let writes = number(change.before, "writes").unwrap_or(0);
        match change.after {
            None if writes % 2 == 1 => Err(format!("it was written {writes} times")),
            None => Ok(None),
            Some(_) => Ok(Some(json(&format!(r#"{{"writes":{}}}"#, writes + 1)))),
        }
    })
}

/// Sets `twice` to two times `n`.
fn doubler() -> Code {
    Code::trigger("doubler", |change: &Change<'_>| {
        let n = number(change.after, "n");
        Ok(n.map(|n| json(&format!(r#"{{"twice":{}}}"#, 2 * n))))
    })
}

#[derive(Debug, Clone)]
enum Op {
    Put(u64, i64),
    Patch(u64, i64),
    PatchNothing(u64),
    Delete(u64),
    Flush,
    Reopen,
}

fn any_op() -> impl Strategy<Value = Op> {
    let key = 0..4u64;
    prop_oneof![
        3 => (key.clone(), 0..9i64).prop_map(|(key, n)| Op::Put(key, n)),
        3 => (key.clone(), 0..9i64).prop_map(|(key, n)| Op::Patch(key, n)),
        1 => key.clone().prop_map(Op::PatchNothing),
        2 => key.prop_map(Op::Delete),
        1 => Just(Op::Flush),
        1 => Just(Op::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn rows_are_those_of_a_model_with_the_same_triggers(
        ops in prop::collection::vec(any_op(), 1..60),
    ) {
        for which in BOTH {
            let env = SimEnv::new(1);
            let mut database = open(&env).unwrap();
            which.create(&database);
            let attach = |database: &Database| {
                which.attach(database, &counter()).unwrap();
                which.attach(database, &doubler()).unwrap();
            };
            attach(&database);
            let mut model: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
            for op in &ops {
                match *op {
                    Op::Put(key, n) => {
                        let put = which.put(&database, key, &format!(r#"{{"n":{n}}}"#)).unwrap();
                        let before = model.get(&key).map_or(0, |row| row.1);
                        prop_assert_eq!(put.effect == Effect::Created, before == 0);
                        model.insert(key, (n, before + 1));
                    }
                    Op::Patch(key, n) => {
                        let patched = which.patch(&database, key, &format!(r#"{{"n":{n}}}"#));
                        match model.get_mut(&key) {
                            None => prop_assert!(patched.is_err()),
                            // A patch of a plain collection that changes nothing is no write.
                            Some(row) if row.0 == n && which == Which::Plain => {
                                prop_assert_eq!(patched.unwrap().effect, Effect::Unchanged);
                            }
                            Some(row) => *row = (n, row.1 + 1),
                        }
                    }
                    Op::PatchNothing(key) => {
                        let patched = which.patch(&database, key, "{}");
                        prop_assert_eq!(patched.is_ok(), model.contains_key(&key));
                    }
                    Op::Delete(key) => {
                        let deleted = which.delete(&database, key);
                        let writes = model.get(&key).map_or(0, |row| row.1);
                        match writes % 2 {
                            0 => { deleted.unwrap(); model.remove(&key); }
                            _ => prop_assert_eq!(
                                deleted.unwrap_err().kind(),
                                ErrorKind::Invalid
                            ),
                        }
                    }
                    Op::Flush => database.flush().unwrap(),
                    Op::Reopen => {
                        database.close().unwrap();
                        database = open(&env).unwrap();
                        attach(&database);
                    }
                }
                let rows = model.iter().map(|(key, (n, writes))| {
                    let row = serde_json::json!({"n": n, "twice": 2 * n, "writes": writes});
                    (key.to_string(), row)
                });
                prop_assert_eq!(which.rows(&database), rows.collect::<Rows>());
            }
        }
    }
}

/// A crash at any step of a few writes with a trigger. It is gone at the next opening: what it
/// wrote is in the log, and recovery runs no code.
fn crash_at_every_step(which: Which) {
    for step in 0.. {
        let env = SimEnv::new(step);
        let database = open(&env).unwrap();
        which.create(&database);
        let calls = Arc::new(AtomicU64::new(0));
        let counted = {
            let calls = Arc::clone(&calls);
            Code::trigger("doubler", move |change| {
                calls.fetch_add(1, Ordering::Relaxed);
                let n = number(change.after, "n");
                Ok(n.map(|n| json(&format!(r#"{{"twice":{}}}"#, 2 * n))))
            })
        };
        which.attach(&database, &counted).unwrap();
        env.crash_at(env.operations() + step);
        let mut acked = 0;
        for n in 0..6u64 {
            let put = which.put(&database, n % 3, &format!(r#"{{"n":{n}}}"#));
            let flushed = if n == 3 { database.flush() } else { Ok(()) };
            if put.and(flushed).is_err() {
                break;
            }
            acked = n + 1;
        }
        let crashed = env.crashed();
        drop(database);
        let before = calls.load(Ordering::Relaxed);
        let database = open(&env.after_crash(step)).unwrap();
        let rows = which.rows(&database);
        let prefix = |writes: u64| -> Rows {
            let writes = (0..writes).map(|n| {
                let row = serde_json::json!({"n": n, "twice": 2 * n});
                ((n % 3).to_string(), row)
            });
            writes.collect()
        };
        assert!(
            (acked..=6).any(|writes| prefix(writes) == rows),
            "{which:?}, crash at step {step}, {acked} writes acknowledged: {rows:?}"
        );
        assert_eq!(
            calls.load(Ordering::Relaxed),
            before,
            "recovery runs no code"
        );
        if !crashed {
            assert!(step > 10 && acked == 6);
            return;
        }
    }
}

#[test]
fn a_write_and_what_its_trigger_changes_survive_a_crash_together_or_not_at_all() {
    BOTH.into_iter().for_each(crash_at_every_step);
}

#[test]
fn bugs_of_triggers_are_found() {
    for which in BOTH {
        assert_each_is_found(Bug::OF_TRIGGERS, || crash_at_every_step(which));
    }
}

#[test]
fn what_goes_wrong_in_a_trigger_ends_that_write_alone_and_changes_nothing() {
    for which in BOTH {
        let database = open(&SimEnv::new(1)).unwrap();
        which.create(&database);
        database.add_coprocessor("stamp", &module()).unwrap();
        let options = TriggerOptions::default();
        database.attach_trigger("rows", "stamp", &options).unwrap();
        which.put(&database, 7, r#"{"n":9}"#).unwrap();
        let before = which.rows(&database);
        assert_eq!(before["7"], value(r#"{"n":9,"seen":true}"#));
        for (n, reason) in [
            (1, "trap: "),
            (2, "it used its 10000000 units of fuel"),
            (3, "it failed: not this one"),
            (4, "it wanted more than its 16777216 bytes of memory"),
            (5, "it emitted more than 1048576 bytes"),
            (6, "it emitted what is no document"),
        ] {
            let document = format!(r#"{{"n":{n}}}"#);
            let writes = [
                which.put(&database, 7, &document),
                which.put(&database, 8, &document),
                which.patch(&database, 7, &document),
            ];
            for (key, write) in [7, 8, 7].into_iter().zip(writes) {
                let error = write.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid);
                let start = format!("coprocessor stamp/1, trigger of row \"{key}\": {reason}");
                assert!(error.to_string().starts_with(&start), "{error}");
            }
            assert_eq!(which.rows(&database), before);
        }
        let delete = which.delete(&database, 7).unwrap();
        assert_eq!(delete.effect, Effect::Deleted);
    }
}

#[test]
fn one_refused_write_of_a_batch_leaves_the_others_and_an_atomic_batch_is_refused_whole() {
    let database = open(&SimEnv::new(1)).unwrap();
    Which::Plain.create(&database);
    Which::Plain.attach(&database, &counter()).unwrap();
    let refuse = Code::trigger("refuse", |change| match number(change.after, "n") {
        Some(1) => Err("no ones".into()),
        _ => Ok(None),
    });
    Which::Plain.attach(&database, &refuse).unwrap();
    let rows = database.collection("rows").unwrap();
    let mut batch = rows.batch();
    for n in [0, 1, 2, 2] {
        batch.put_at(&Key::from(n), &json(&format!(r#"{{"n":{n}}}"#)));
    }
    let done: Vec<bool> = batch.write().iter().map(crate::Result::is_ok).collect();
    assert_eq!(done, [true, false, true, true]);
    let expected = [
        ("0".to_string(), value(r#"{"n":0,"writes":1}"#)),
        ("2".to_string(), value(r#"{"n":2,"writes":2}"#)),
    ];
    assert_eq!(Which::Plain.rows(&database), Rows::from(expected.clone()));
    let mut batch = rows.batch();
    batch.put_at(&Key::from(2), &json(r#"{"n":0}"#));
    batch.put_at(&Key::from(2), &json(r#"{"n":1}"#));
    let error = batch.write_atomic().unwrap_err();
    assert!(error.to_string().contains("no ones"), "{error}");
    assert_eq!(Which::Plain.rows(&database), Rows::from(expected));
}

#[test]
fn what_a_trigger_makes_must_be_what_its_collection_takes() {
    for which in BOTH {
        let database = open(&SimEnv::new(1)).unwrap();
        which.create(&database);
        let renames = Code::trigger("renames", |_| Ok(Some(json(r#"{"_id":"other"}"#))));
        which.attach(&database, &renames).unwrap();
        let error = which.put(&database, 1, r#"{"n":1}"#).unwrap_err();
        let start = "coprocessor renames, trigger of row \"1\": it emitted what the collection";
        assert!(error.to_string().starts_with(start), "{error}");
        assert_eq!(which.rows(&database), Rows::new());
    }
    let database = open(&SimEnv::new(1)).unwrap();
    Which::Wide.create(&database);
    let adds = Code::trigger("adds", |_| Ok(Some(json(r#"{"n":"text"}"#))));
    Which::Wide.attach(&database, &adds).unwrap();
    let error = Which::Wide.put(&database, 1, "{}").unwrap_err();
    assert!(error.to_string().contains("column \"n\""), "{error}");
}

#[test]
fn a_trigger_of_a_wide_collection_sees_its_columns_and_operands_and_appends_to_a_family() {
    let database = open(&SimEnv::new(1)).unwrap();
    Which::Wide.create(&database);
    let wide = database.wide_collection("rows").unwrap();
    // Keeps each value that `n` had as a member of `links`, and never sees the HTML.
    let history = Code::trigger("history", |change: &Change<'_>| {
        assert!(change.after.is_none_or(|after| after.get("html").is_none()));
        let (before, after) = (number(change.before, "n"), number(change.after, "n"));
        assert_eq!(after, Some(before.map_or(1, |n| n + 1)));
        let patch = before.map(|n| json(&format!(r#"{{"links":{{"{n}":{n}}},"html":null}}"#)));
        Ok(patch)
    });
    let options = TriggerOptions {
        columns: Some(vec!["n".into()]),
        ..TriggerOptions::default()
    };
    wide.attach_trigger(&history, options).unwrap();
    let key = Key::from(1);
    for step in 0..3 {
        let write = RowWrite::upsert(key.clone())
            .with(CellChange::merge("n", Operand::Add(1)))
            .with(CellChange::set("html", Cell::String("<p>".into())))
            .with(CellChange::remove_members("links", Some("7".into()), None));
        wide.write(&write).unwrap();
        if step == 1 {
            database.flush().unwrap();
        }
    }
    let row = value(r#"{"n":3,"links":{"1":1,"2":2}}"#);
    assert_eq!(Which::Wide.rows(&database)["1"], row);
    // What a trigger sets stays, also if the same write removes all members.
    assert!(wide.detach_trigger("history"));
    assert!(!wide.detach_trigger("history"));
    let sets = Code::trigger("sets", |_| Ok(Some(json(r#"{"links":{"x":9}}"#))));
    wide.attach_trigger(&sets, TriggerOptions::default())
        .unwrap();
    wide.write(&RowWrite::patch(key).with(CellChange::remove("links")))
        .unwrap();
    assert_eq!(
        Which::Wide.rows(&database)["1"],
        value(r#"{"n":3,"links":{"x":9}}"#)
    );
}

#[test]
fn triggers_are_kept_listed_replaced_and_detached() {
    for which in BOTH {
        let env = SimEnv::new(1);
        let database = open(&env).unwrap();
        which.create(&database);
        database.add_coprocessor("stamp", &module()).unwrap();
        database.add_coprocessor("stamp", &module()).unwrap();
        let options = TriggerOptions {
            argument: Some(json(r#"{"day":7}"#)),
            ..TriggerOptions::default()
        };
        let info = database
            .attach_trigger("rows", "stamp/1", &options)
            .unwrap();
        assert_eq!(
            (info.coprocessor.as_str(), info.options.version),
            ("stamp", 1)
        );
        let error = database.drop_coprocessor("stamp/1").unwrap_err();
        assert!(error.to_string().contains("detach it first"), "{error}");
        let newest = database.attach_trigger("rows", "stamp", &options).unwrap();
        assert_eq!(newest.options.version, 2);
        assert_eq!(
            database.triggers("rows").unwrap(),
            std::slice::from_ref(&newest)
        );
        database.drop_coprocessor("stamp/1").unwrap();
        database.close().unwrap();

        let database = open(&env).unwrap();
        assert_eq!(database.triggers("rows").unwrap(), [newest]);
        which.put(&database, 1, r#"{"n":9}"#).unwrap();
        assert_eq!(which.rows(&database)["1"], value(r#"{"n":9,"seen":true}"#));
        database.detach_trigger("rows", "stamp").unwrap();
        which.put(&database, 1, r#"{"n":9}"#).unwrap();
        assert_eq!(which.rows(&database)["1"], value(r#"{"n":9}"#));
        let again = database.detach_trigger("rows", "stamp").unwrap_err();
        assert_eq!(again.kind(), ErrorKind::NotFound);
        database.drop_coprocessor("stamp").unwrap();

        let none = database
            .attach_trigger("rows", "stamp", &options)
            .unwrap_err();
        assert_eq!(none.kind(), ErrorKind::NotFound);
        let columns = TriggerOptions {
            columns: Some(vec!["nothing".into()]),
            ..TriggerOptions::default()
        };
        database.add_coprocessor("stamp", &module()).unwrap();
        let wrong = database
            .attach_trigger("rows", "stamp", &columns)
            .unwrap_err();
        assert_eq!(wrong.kind(), ErrorKind::Invalid);
        let nowhere = database
            .attach_trigger("none", "stamp", &options)
            .unwrap_err();
        assert_eq!(nowhere.kind(), ErrorKind::NotFound);
        let filter = Code::filter("filter", |_| Ok(true));
        assert_eq!(
            which.attach(&database, &filter).unwrap_err().kind(),
            ErrorKind::Invalid
        );
    }
}

#[test]
fn a_trigger_sees_the_undeclared_fields_that_it_names_and_no_others() {
    let database = open(&SimEnv::new(1)).unwrap();
    let schema = Schema::new()
        .keep_undeclared(true)
        .with_column("n", ColumnType::Int, "meta")
        .and_then(|one| one.with_column("seen", ColumnType::String, "seen"));
    let settings = CollectionSettings::default();
    let wide = database
        .create_wide_collection("rows", schema.unwrap(), settings)
        .unwrap();
    let sees = |name: &'static str, columns: &[&str]| {
        let code = Code::trigger(name, move |change: &Change<'_>| {
            let names = |document: &Document| {
                let names: Vec<_> = document
                    .fields()
                    .map(|(name, _)| name.to_string())
                    .collect();
                names.join(" ")
            };
            let before = change.before.map(names).unwrap_or_default();
            let after = change.after.map(names).unwrap_or_default();
            Ok(Some(json(&format!(r#"{{"seen":"{before} | {after}"}}"#))))
        });
        let options = TriggerOptions {
            columns: Some(columns.iter().map(ToString::to_string).collect()),
            ..TriggerOptions::default()
        };
        wide.attach_trigger(&code, options).unwrap();
    };
    let seen = || {
        let document = json(r#"{"n":1,"extra":2,"other":3}"#);
        wide.put(&Key::from(1), &document).unwrap();
        let found = wide.get(&Key::from(1)).unwrap().unwrap().document;
        match found.get("seen") {
            Some(ValueRef::String(text)) => text.to_string(),
            other => panic!("{other:?}"),
        }
    };
    sees("one", &["extra"]);
    assert_eq!(seen(), " | _id extra");
    assert_eq!(seen(), "_id extra | _id extra");
    assert!(wide.detach_trigger("one"));
    sees("two", &["n", "other"]);
    assert_eq!(seen(), "_id other n | _id other n");
    assert!(wide.detach_trigger("two"));
    sees("rest", &["_rest"]);
    assert_eq!(seen(), "_id extra other | _id extra other");
}

#[test]
fn a_column_that_a_trigger_names_keeps_its_name_until_the_trigger_is_detached() {
    let database = open(&SimEnv::new(1)).unwrap();
    Which::Wide.create(&database);
    database.add_coprocessor("stamp", &module()).unwrap();
    let options = TriggerOptions {
        columns: Some(vec!["n".into(), "html".into()]),
        ..TriggerOptions::default()
    };
    database.attach_trigger("rows", "stamp", &options).unwrap();
    let alter = |alter: fn(Schema) -> quire_wide::Result<Schema>| {
        database.alter_wide_collection("rows", alter).map(drop)
    };
    let refused: [fn(Schema) -> quire_wide::Result<Schema>; 3] = [
        |schema| schema.with_renamed("html", "page"),
        |schema| schema.without_column("n"),
        |schema| {
            let schema = schema.without_column("n")?;
            schema.with_column("n", ColumnType::Float, "meta")
        },
    ];
    for change in refused {
        let error = alter(change).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("stamp"), "{error}");
    }
    alter(|schema| schema.with_renamed("twice", "doubled")).unwrap();
    alter(|schema| schema.with_wider("n", ColumnType::Float)).unwrap();
    database.detach_trigger("rows", "stamp").unwrap();
    alter(|schema| schema.with_renamed("html", "page")).unwrap();
}

#[test]
fn a_schema_that_was_made_anew_is_no_altered_one() {
    let database = open(&SimEnv::new(1)).unwrap();
    Which::Wide.create(&database);
    Which::Wide
        .put(&database, 1, r#"{"n":1,"html":"h"}"#)
        .unwrap();
    let anew = |_| Schema::new().with_column("html", ColumnType::String, "content");
    let error = database.alter_wide_collection("rows", anew).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(
        Which::Wide.rows(&database)["1"],
        value(r#"{"n":1,"html":"h"}"#)
    );
}
