//! Coprocessors that a database keeps, and runs of code over plain and wide collections.

use super::open;
use crate::{Database, ErrorKind, Produced, RunOptions, View};
use quire_coprocessor::{Code, Kind, Limits};
use quire_env::SimEnv;
use quire_model::{Document, Key};
use quire_wide::{ColumnType, Schema};

/// A filter of rows with `n` of at least 10, a map to `{"n":…}` as text, and their sum.
fn module() -> Vec<u8> {
    let text = r#"(module
      (import "quire_1" "get_i64" (func $get (param i32 i32 i32 i32) (result i32)))
      (import "quire_1" "get_json" (func $json (param i32 i32 i32 i32 i32) (result i32)))
      (import "quire_1" "state" (func $state (param i32 i32) (result i32)))
      (import "quire_1" "emit" (func $emit (param i32 i32)))
      (memory (export "memory") 1)
      (data (i32.const 0) "n")
      (data (i32.const 100) "{\"sum\":\"        \"}")
      (func $n (result i64)
        (i64.store (i32.const 8) (i64.const 0))
        (drop (call $get (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
        (i64.load (i32.const 8)))
      (func (export "quire_1_filter") (result i32)
        (if (i64.eq (call $n) (i64.const 666)) (then unreachable))
        (i64.ge_s (call $n) (i64.const 10)))
      (func (export "quire_1_map")
        (call $emit (i32.const 200)
          (call $json (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 200) (i32.const 999))))
      (func $add (param i64)
        (i64.store (i32.const 16) (i64.add (i64.load (i32.const 16)) (local.get 0))))
      (func (export "quire_1_fold") (call $add (call $n)))
      (func (export "quire_1_partial") (call $emit (i32.const 16) (i32.const 8)))
      (func (export "quire_1_merge")
        (drop (call $state (i32.const 24) (i32.const 8)))
        (call $add (i64.load (i32.const 24))))
      (func (export "quire_1_finish") (local $at i32) (local $left i64)
        (local.set $at (i32.const 115))
        (local.set $left (i64.load (i32.const 16)))
        (loop $digits
          (i32.store8 (local.get $at)
            (i32.add (i32.const 48) (i32.wrap_i64 (i64.rem_u (local.get $left) (i64.const 10)))))
          (local.set $at (i32.sub (local.get $at) (i32.const 1)))
          (local.set $left (i64.div_u (local.get $left) (i64.const 10)))
          (br_if $digits (i64.ne (local.get $left) (i64.const 0))))
        (call $emit (i32.const 100) (i32.const 18))))"#;
    wat::parse_str(text).unwrap()
}

fn json(text: &str) -> Document {
    Document::from_json(text.as_bytes()).unwrap()
}

/// What a run gives, sorted.
fn run(view: &View, code: &Code, options: RunOptions) -> crate::Result<Vec<String>> {
    let produced = view.run_code(code, options)?;
    let mut produced = produced
        .map(|one| {
            Ok(match one? {
                Produced::Row(found) => found.key.to_string(),
                Produced::Document(document) => document.to_json(),
            })
        })
        .collect::<crate::Result<Vec<_>>>()?;
    produced.sort();
    Ok(produced)
}

fn plain(database: &Database, numbers: std::ops::Range<i64>) -> View {
    let settings = crate::CollectionSettings {
        partitions: 3,
        ..Default::default()
    };
    let plain = database.create_collection("plain", settings).unwrap();
    for n in numbers {
        let row = json(&format!(r#"{{"n":{n}}}"#));
        plain.put_at(&Key::from(n as u64), &row).unwrap();
    }
    plain.view().unwrap()
}

fn wide(database: &Database, numbers: std::ops::Range<i64>) -> View {
    let schema = Schema::new().with_column("n", ColumnType::Int, "hot");
    let schema = schema.and_then(|schema| schema.with_column("text", ColumnType::String, "cold"));
    let wide = database.create_wide_collection("wide", schema.unwrap(), Default::default());
    let wide = wide.unwrap();
    for n in numbers {
        let row = json(&format!(r#"{{"n":{n},"text":"long"}}"#));
        wide.put(&Key::from(n as u64), &row).unwrap();
    }
    wide.view().unwrap()
}

#[test]
fn versions_are_kept_through_a_reopening_and_dropped_one_by_one() {
    let env = SimEnv::new(1);
    let database = open(&env).unwrap();
    let first = database.add_coprocessor("sums", &module()).unwrap();
    let kinds = [Kind::Filter, Kind::Map, Kind::Aggregate];
    assert_eq!((first.version, first.kinds), (1, kinds.to_vec()));
    assert_eq!(
        database.add_coprocessor("sums", &module()).unwrap().version,
        2
    );
    database.drop_coprocessor("sums/1").unwrap();
    assert_eq!(
        database.add_coprocessor("sums", &module()).unwrap().version,
        3
    );
    database.close().unwrap();

    let database = open(&env).unwrap();
    let listed = database.coprocessors().unwrap();
    let versions: Vec<u32> = listed.iter().map(|one| one.version).collect();
    assert_eq!(versions, [2, 3]);
    assert_eq!(database.coprocessor("sums").unwrap().name(), "sums/3");
    assert_eq!(database.coprocessor_module("sums/2").unwrap().1, module());
    for missing in ["sums/1", "sums/x", "other"] {
        let error = database.coprocessor(missing).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("sums/2, sums/3"), "{error}");
    }
    database.drop_coprocessor("sums").unwrap();
    assert_eq!(database.coprocessors().unwrap(), []);
}

#[test]
fn a_registration_is_whole_or_not_there_after_a_crash() {
    for step in 0..1_000 {
        let env = SimEnv::new(step);
        let database = open(&env).unwrap();
        env.crash_at(env.operations() + step);
        let added = database.add_coprocessor("sums", &module());
        let crashed = env.crashed();
        drop(database);
        let database = open(&env.after_crash(step)).unwrap();
        let listed = database.coprocessors().unwrap();
        assert!(added.is_err() || listed.len() == 1, "crash at step {step}");
        assert!(listed.iter().all(|one| one.bytes == module().len()));
        if !crashed {
            assert!(step > 3 && added.is_ok());
            return;
        }
    }
}

#[test]
fn bad_names_and_bad_modules_are_refused_and_change_nothing() {
    let database = open(&SimEnv::new(1)).unwrap();
    for name in ["", "a/1", "-a", "ä", &"a".repeat(101)] {
        let refused = database.add_coprocessor(name, &module()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{name}");
    }
    let refused = database.add_coprocessor("a", b"no wasm").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(database.coprocessors().unwrap(), []);
}

#[test]
fn plain_and_wide_rows_are_filtered_mapped_and_folded_alike() {
    let database = open(&SimEnv::new(1)).unwrap();
    database.add_coprocessor("sums", &module()).unwrap();
    let code = database.coprocessor("sums").unwrap();
    let views = [plain(&database, 0..600), wide(&database, 0..600)];
    for view in &views {
        let kept = run(view, &code, RunOptions::of(Kind::Filter)).unwrap();
        let mut expected: Vec<String> = (10..600).map(|n| n.to_string()).collect();
        expected.sort();
        assert_eq!(kept, expected);
        let sum = run(view, &code, RunOptions::of(Kind::Aggregate)).unwrap();
        assert_eq!(sum, [r#"{"sum":"  179700"}"#]);
        assert_eq!(
            run(view, &code, RunOptions::of(Kind::Map)).unwrap().len(),
            600
        );
    }
    let of_n = RunOptions {
        columns: Some(vec!["n".into()]),
        ..RunOptions::of(Kind::Map)
    };
    let mapped = run(&views[1], &code, of_n.clone()).unwrap();
    assert!(
        mapped.contains(&r#"{"_id":7,"n":7}"#.to_string()),
        "{}",
        mapped[0]
    );
    assert_eq!(
        run(&views[0], &code, of_n.clone()).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    let unknown = RunOptions {
        columns: Some(vec!["other".into()]),
        ..of_n
    };
    assert_eq!(
        run(&views[1], &code, unknown).unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

#[test]
fn a_failing_call_ends_its_run_with_code_and_row_and_nothing_else() {
    let database = open(&SimEnv::new(1)).unwrap();
    database.add_coprocessor("sums", &module()).unwrap();
    let code = database.coprocessor("sums").unwrap();
    let view = plain(&database, 660..670);
    let error = run(&view, &code, RunOptions::of(Kind::Filter)).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("coprocessor sums/1, filter of row \"666\": trap: "),
        "{text}"
    );
    let little = RunOptions {
        limits: Limits {
            fuel: 3,
            ..Limits::default()
        },
        ..RunOptions::of(Kind::Filter)
    };
    let error = run(&view, &code, little).unwrap_err();
    assert!(error.to_string().contains("3 units of fuel"), "{error}");
    // The database is as it was.
    let sum = run(&view, &code, RunOptions::of(Kind::Aggregate)).unwrap();
    assert_eq!(sum, [r#"{"sum":"    6645"}"#]);
    let trigger = run(&view, &code, RunOptions::of(Kind::Trigger)).unwrap_err();
    assert_eq!(trigger.kind(), ErrorKind::Invalid);
}

#[test]
fn a_run_goes_on_in_steps_of_as_many_rows_as_its_caller_wants() {
    let database = open(&SimEnv::new(1)).unwrap();
    let view = plain(&database, 0..10);
    let none = Code::filter("none", |_| Ok(false));
    let mut run = view.run_code(&none, RunOptions::of(Kind::Filter)).unwrap();
    assert_eq!(run.next_within(4).unwrap(), None);
    assert_eq!((run.rows(), run.is_done()), (4, false));
    assert_eq!(run.next_within(100).unwrap(), None);
    assert_eq!((run.rows(), run.is_done()), (10, true));
}
