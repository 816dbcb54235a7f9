use crate::{
    Cause, Change, Code, Error, ErrorKind, Kind, Limits, Result, Row, Run, Trigger, TriggerOptions,
};
use proptest::prelude::*;
use quire_model::{Document, Key};

/// The functions of the ABI, so that each test has what it needs.
const IMPORTS: &str = r#"
  (import "quire_1" "type" (func $type (param i32 i32 i32) (result i32)))
  (import "quire_1" "get_i64" (func $get_i64 (param i32 i32 i32 i32) (result i32)))
  (import "quire_1" "get_f64" (func $get_f64 (param i32 i32 i32 i32) (result i32)))
  (import "quire_1" "get_string" (func $get_string (param i32 i32 i32 i32 i32) (result i32)))
  (import "quire_1" "get_json" (func $get_json (param i32 i32 i32 i32 i32) (result i32)))
  (import "quire_1" "key" (func $key (param i32 i32) (result i32)))
  (import "quire_1" "state" (func $state (param i32 i32) (result i32)))
  (import "quire_1" "emit" (func $emit (param i32 i32)))
  (import "quire_1" "fail" (func $fail (param i32 i32)))
"#;

fn module(body: &str) -> Vec<u8> {
    wat::parse_str(format!(
        "(module {IMPORTS} (memory (export \"memory\") 1) {body})"
    ))
    .unwrap()
}

fn code(body: &str) -> Code {
    Code::wasm("test/1", &module(body)).unwrap()
}

fn filter(body: &str) -> Code {
    code(&format!(
        "(func (export \"quire_1_filter\") (result i32) {body})"
    ))
}

fn document(json: &str) -> Document {
    Document::from_json(json.as_bytes()).unwrap()
}

/// What a filter says about a row with key `k`.
fn filtered(code: &Code, json: &str) -> Result<bool> {
    let mut run = code.start(None, &Limits::default())?;
    run.filter(&Row::new(&Key::parse("k").unwrap(), &document(json)))
}

fn cause(result: Result<impl std::fmt::Debug>) -> Cause {
    match result.unwrap_err() {
        Error::Call { cause, .. } => cause,
        other => panic!("{other}"),
    }
}

/// Keeps rows whose `price` is over 500.
const DEAR: &str = r#"
  (data (i32.const 0) "price")
  (func (export "quire_1_filter") (result i32)
    (if (result i32) (call $get_i64 (i32.const 0) (i32.const 0) (i32.const 5) (i32.const 64))
      (then (i64.gt_s (i64.load (i32.const 64)) (i64.const 500)))
      (else (i32.const 0))))"#;

/// Sums `price`; its state is 8 bytes at 64, its result is made with one digit.
const SUM: &str = r#"
  (data (i32.const 0) "price")
  (data (i32.const 16) "{\"sum\":0}")
  (func (export "quire_1_fold")
    (if (call $get_i64 (i32.const 0) (i32.const 0) (i32.const 5) (i32.const 72))
      (then (i64.store (i32.const 64)
        (i64.add (i64.load (i32.const 64)) (i64.load (i32.const 72)))))))
  (func (export "quire_1_partial") (call $emit (i32.const 64) (i32.const 8)))
  (func (export "quire_1_merge")
    (drop (call $state (i32.const 72) (i32.const 8)))
    (i64.store (i32.const 64) (i64.add (i64.load (i32.const 64)) (i64.load (i32.const 72)))))
  (func (export "quire_1_finish")
    (i32.store8 (i32.const 23) (i32.add (i32.const 48) (i32.wrap_i64 (i64.load (i32.const 64)))))
    (call $emit (i32.const 16) (i32.const 9)))"#;

#[test]
fn a_filter_reads_the_field_of_each_row() {
    let dear = code(DEAR);
    assert_eq!(dear.kinds(), [Kind::Filter]);
    assert_eq!(filtered(&dear, r#"{"price":501}"#), Ok(true));
    assert_eq!(filtered(&dear, r#"{"price":500}"#), Ok(false));
    assert_eq!(filtered(&dear, r#"{"price":"501"}"#), Ok(false));
    assert_eq!(filtered(&dear, "{}"), Ok(false));
}

#[test]
fn a_map_emits_any_number_of_documents() {
    // The row as it is, and then a document of its own.
    let code = code(
        r#"(data (i32.const 0) "{\"more\":true}")
        (func (export "quire_1_map")
          (call $emit (i32.const 64) (call $get_json (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.const 64) (i32.const 1000)))
          (call $emit (i32.const 0) (i32.const 13)))"#,
    );
    let mut run = code.start(None, &Limits::default()).unwrap();
    let (key, row) = (
        Key::parse("k").unwrap(),
        document(r#"{"a":[1,{"b":null}]}"#),
    );
    for _ in 0..2 {
        let made = run.map(&Row::new(&key, &row)).unwrap();
        assert_eq!(made, [row.clone(), document(r#"{"more":true}"#)]);
    }
}

#[test]
fn an_aggregate_is_folded_apart_and_merged() {
    let (code, key) = (code(SUM), Key::parse("k").unwrap());
    let mut merged = code.start(None, &Limits::default()).unwrap();
    for prices in [&[1, 2][..], &[], &[4]] {
        let mut part = code.start(None, &Limits::default()).unwrap();
        for price in prices {
            let row = document(&format!(r#"{{"price":{price}}}"#));
            part.fold(&Row::new(&key, &row)).unwrap();
        }
        merged.merge(part.partial().unwrap()).unwrap();
    }
    assert_eq!(merged.finish().unwrap(), document(r#"{"sum":7}"#));
}

/// Emits the document before, if there is one, as its patch.
const GIVE_BACK: &str = r#"(func (export "quire_1_trigger") (local $n i32)
  (local.set $n (call $get_json (i32.const 1) (i32.const 0) (i32.const 0)
    (i32.const 64) (i32.const 1000)))
  (if (i32.ge_s (local.get $n) (i32.const 0))
    (then (call $emit (i32.const 64) (local.get $n)))))"#;

fn change<'c>(
    key: &'c Key,
    before: Option<&'c Document>,
    after: Option<&'c Document>,
) -> Change<'c> {
    Change {
        key,
        before,
        after,
        time_micros: 77,
        argument: None,
    }
}

#[test]
fn a_trigger_sees_the_document_before_and_emits_a_patch() {
    let (key, old, new) = (Key::from(1), document(r#"{"v":1}"#), document(r#"{"v":2}"#));
    let trigger = Trigger::new(&code(GIVE_BACK), TriggerOptions::default()).unwrap();
    let patch = trigger.run(&change(&key, Some(&old), Some(&new)));
    assert_eq!(patch, Ok(Some(old.clone())));
    assert_eq!(trigger.run(&change(&key, None, Some(&new))), Ok(None));
    let removed = trigger.run(&change(&key, Some(&old), None));
    let what = "it emits no patch of a row that is removed";
    assert_eq!(cause(removed), Cause::Abi(what.into()));
}

#[test]
fn a_trigger_sees_the_time_of_the_write_and_that_a_row_is_removed() {
    // Fails with one byte for what it sees: the type of the document, then the time.
    let code = code(
        r#"(data (i32.const 0) "time")
        (func (export "quire_1_trigger")
          (drop (call $get_i64 (i32.const 3) (i32.const 0) (i32.const 4) (i32.const 8)))
          (i32.store8 (i32.const 9)
            (i32.add (i32.const 48) (call $type (i32.const 0) (i32.const 0) (i32.const 0))))
          (call $fail (i32.const 8) (i32.const 2)))"#,
    );
    let (key, row) = (Key::from(1), document("{}"));
    let mut run = code.start(None, &Limits::default()).unwrap();
    let written = run.trigger(&change(&key, Some(&row), Some(&row)));
    assert_eq!(cause(written), Cause::Failed("M8".into()));
    let removed = run.trigger(&change(&key, Some(&row), None));
    assert_eq!(cause(removed), Cause::Failed("M0".into()));
}

#[test]
fn a_failed_call_of_a_trigger_leaves_nothing_for_the_next_one() {
    // Counts its calls in its memory, and traps at the second one.
    let code = code(
        r#"(func (export "quire_1_trigger")
          (i32.store (i32.const 0) (i32.add (i32.const 1) (i32.load (i32.const 0))))
          (if (i32.eq (i32.const 2) (i32.load (i32.const 0))) (then unreachable)))"#,
    );
    let (key, row) = (Key::from(1), document("{}"));
    let trigger = Trigger::new(&code, TriggerOptions::default()).unwrap();
    let calls = (0..4).map(|_| trigger.run(&change(&key, None, Some(&row))).is_ok());
    assert_eq!(calls.collect::<Vec<_>>(), [true, false, true, false]);
    let error = trigger.refused(&key, "no").to_string();
    assert!(
        error.starts_with("coprocessor test/1, trigger of row \"1\": "),
        "{error}"
    );
}

#[test]
fn every_type_of_value_is_told_and_read() {
    let types = ["null", "false", "true", "-1", "1.5", "\"x\"", "[1]", "{}"];
    for (expected, json) in (1..).zip(types) {
        let body = format!(
            r#"(i32.eq (i32.const {expected})
                 (call $type (i32.const 0) (i32.const 0) (i32.const 3)))"#
        );
        let code = code(&format!(
            "(data (i32.const 0) \"a.b\")
             (func (export \"quire_1_filter\") (result i32) {body})"
        ));
        assert_eq!(
            filtered(&code, &format!(r#"{{"a":{{"b":{json}}}}}"#)),
            Ok(true)
        );
    }
    let float = code(
        r#"(data (i32.const 0) "a")
        (func (export "quire_1_filter") (result i32)
          (drop (call $get_f64 (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
          (f64.eq (f64.load (i32.const 8)) (f64.const 1.5)))"#,
    );
    assert_eq!(filtered(&float, r#"{"a":1.5}"#), Ok(true));
    // A text is given whole or not at all, and its length always.
    let text = code(
        r#"(data (i32.const 0) "a")
        (func (export "quire_1_filter") (result i32)
          (i32.and
            (i32.eq (i32.const 5) (call $get_string (i32.const 0) (i32.const 0) (i32.const 1)
              (i32.const 8) (i32.const 4)))
            (i32.eqz (i32.load (i32.const 8)))))"#,
    );
    assert_eq!(filtered(&text, r#"{"a":"hello"}"#), Ok(true));
}

#[test]
fn what_goes_wrong_names_code_row_and_reason_and_ends_that_run_alone() {
    let traps = filter("(unreachable)");
    let error = filtered(&traps, "{}").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    let text = error.to_string();
    assert!(
        text.starts_with("coprocessor test/1, filter of row \"k\": trap: "),
        "{text}"
    );

    let loops = filter("(loop $l (br $l)) (i32.const 1)");
    assert_eq!(
        cause(filtered(&loops, "{}")),
        Cause::Fuel(Limits::default().fuel)
    );

    let calls_itself = code(
        r#"(func $f (export "quire_1_filter") (result i32) (i32.add (call $f) (i32.const 1)))"#,
    );
    assert!(matches!(
        cause(filtered(&calls_itself, "{}")),
        Cause::Trap(_)
    ));

    let grows = filter("(loop $l (drop (memory.grow (i32.const 16))) (br $l)) (i32.const 1)");
    assert_eq!(cause(filtered(&grows, "{}")), Cause::Memory(16 << 20));
    // Tables are beside the memory: a module has one, of a bounded length.
    let tables = |count: usize, elements: usize| {
        let table = format!("(table {elements} funcref)");
        code(&format!(
            r#"{} (func (export "quire_1_filter") (result i32) (i32.const 1))"#,
            table.repeat(count)
        ))
    };
    assert_eq!(filtered(&tables(1, 100_000), "{}"), Ok(true));
    for (count, elements) in [(1, 100_001), (2, 1), (100, 100_000)] {
        let started = tables(count, elements).start(None, &Limits::default());
        match cause(started.map(drop)) {
            Cause::Memory(_) => {}
            Cause::Trap(what) => assert!(what.contains("table"), "{what}"),
            other => panic!("{other}"),
        }
    }

    let emits = code(
        r#"(func (export "quire_1_map")
          (loop $l (call $emit (i32.const 0) (i32.const 65536)) (br $l)))"#,
    );
    let mut run = emits.start(None, &Limits::default()).unwrap();
    let (key, row) = (Key::from(7), document("{}"));
    assert_eq!(
        cause(run.map(&Row::new(&key, &row))),
        Cause::Output(1 << 20)
    );
    let emits_nothing_for_ever = code(
        r#"(func (export "quire_1_map")
          (loop $l (call $emit (i32.const 0) (i32.const 0)) (br $l)))"#,
    );
    let limits = Limits {
        output_bytes: 1000,
        ..Limits::default()
    };
    let mut run = emits_nothing_for_ever.start(None, &limits).unwrap();
    assert_eq!(cause(run.map(&Row::new(&key, &row))), Cause::Output(1000));

    let fails = filter("(call $fail (i32.const 0) (i32.const 3)) (i32.const 1)");
    assert_eq!(
        cause(filtered(&fails, "{}")),
        Cause::Failed("\0\0\0".into())
    );
    assert!(matches!(
        cause(filtered(&filter("(i32.const 2)"), "{}")),
        Cause::Abi(_)
    ));
    let no_json = code(r#"(func (export "quire_1_map") (call $emit (i32.const 0) (i32.const 3)))"#);
    let mut run = no_json.start(None, &Limits::default()).unwrap();
    assert!(matches!(
        cause(run.map(&Row::new(&key, &row))),
        Cause::Abi(_)
    ));

    // The same code runs on, in a run of its own.
    assert_eq!(filtered(&code(DEAR), r#"{"price":501}"#), Ok(true));
}

#[test]
fn the_host_works_for_fuel_too() {
    // 10 million units pay for 160 texts of 64 KiB at most, however few instructions do it.
    let code = filter(
        "(loop $l (drop (call $get_json (i32.const 0) (i32.const 0) (i32.const 0)
          (i32.const 0) (i32.const 0))) (br $l)) (i32.const 1)",
    );
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(64 << 10));
    assert!(matches!(cause(filtered(&code, &long)), Cause::Fuel(_)));
}

#[test]
fn bulk_instructions_cost_fuel_for_each_byte_and_do_what_they_did() {
    let data = r#"(table $t 4096 funcref) (data $d "quire") (elem $e func $f)"#;
    let all = "(i32.const 0) (i32.const 0) (i32.const 65536)";
    let table = "(i32.const 0) (ref.null func) (i32.const 4096)";
    let copied = "(i32.const 0) (i32.const 0) (i32.const 4096)";
    // For each, how often ten million units of fuel pay for it, at most.
    for (bulk, times) in [
        (format!("(memory.fill {all})"), 2_000),
        (format!("(memory.copy {all})"), 2_000),
        (format!("(table.fill $t {table})"), 2_000),
        (format!("(table.copy $t $t {copied})"), 2_000),
        (
            "(memory.init $d (i32.const 0) (i32.const 0) (i32.const 5))".into(),
            900_000,
        ),
        (
            "(drop (table.grow $t (ref.null func) (i32.const 0)))".into(),
            900_000,
        ),
    ] {
        let repeats = |times: u32| {
            let body = format!(
                "{data} (func $f (export \"quire_1_filter\") (result i32) (local $n i32)
                   (local.set $n (i32.const {times}))
                   (loop $l {bulk} (br_if $l
                     (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
                   (i32.const 1))"
            );
            filtered(&code(&body), "{}")
        };
        assert_eq!(repeats(times / 4), Ok(true), "{bulk}");
        assert!(matches!(cause(repeats(times)), Cause::Fuel(_)), "{bulk}");
    }
    // Its own locals and parameters stay as they are, and so do blocks around it.
    let fills = code(
        r#"(data $d "quire")
        (func $fill (param $at i32) (param $n i32) (result i32) (local $v i64) (local $w i32)
          (local.set $v (i64.const 7)) (local.set $w (i32.const 11))
          (block $b
            (memory.init $d (local.get $at) (i32.const 0) (local.get $n))
            (memory.copy (i32.const 100) (local.get $at) (local.get $n))
            (memory.fill (i32.const 104) (i32.const 90) (i32.const 1))
            (br_if $b (i32.const 1)) (unreachable))
          (i32.and (i64.eq (local.get $v) (i64.const 7))
            (i32.and (i32.eq (local.get $w) (i32.const 11)) (i32.eq (local.get $n) (i32.const 5)))))
        (func (export "quire_1_filter") (result i32)
          (i32.and (call $fill (i32.const 3000) (i32.const 5))
            (i64.eq (i64.load (i32.const 100)) (i64.const 0x5a72697571))))"#,
    );
    assert_eq!(filtered(&fills, "{}"), Ok(true));
    let beyond =
        filter("(memory.fill (i32.const 65000) (i32.const 0) (i32.const 2000)) (i32.const 1)");
    assert!(matches!(cause(filtered(&beyond, "{}")), Cause::Trap(_)));
}

#[test]
fn functions_that_would_take_long_to_compile_are_refused() {
    let compiled = |locals: usize, blocks: usize, filler: usize| {
        let body = format!(
            "(func (export \"quire_1_filter\") (result i32) {} {} {} (i32.const 1))",
            "(local i32)".repeat(locals),
            "(block) ".repeat(blocks),
            "(drop (i32.const 1)) ".repeat(filler)
        );
        Code::wasm("large/1", &module(&body)).map(drop)
    };
    assert_eq!(compiled(500, 1_000, 10), Ok(()));
    let refused = compiled(10_000, 1_000, 10).unwrap_err().to_string();
    assert!(
        refused.contains("10000 locals and 1001 blocks"),
        "{refused}"
    );
    let refused = compiled(1, 1, 100_000).unwrap_err().to_string();
    assert!(refused.contains("may have 131072"), "{refused}");
    let many = |functions: usize, locals: usize, blocks: usize| {
        let (locals, blocks) = ("(local i32)".repeat(locals), "(block)".repeat(blocks));
        let functions = format!("(func {locals} {blocks})").repeat(functions);
        let refused = Code::wasm("large/1", &module(&functions)).unwrap_err();
        refused.to_string()
    };
    assert!(many(10_001, 0, 0).contains("may have 10000"));
    assert!(many(100, 1_000, 400).contains("too many locals and blocks"));
}

#[test]
fn modules_that_cannot_run_here_are_refused_before_they_run() {
    let refused = |wasm: &[u8]| Code::wasm("test/1", wasm).unwrap_err();
    let parse = |text: &str| wat::parse_str(text).unwrap();
    assert!(matches!(refused(b"no wasm"), Error::NotWasm(_)));
    assert!(matches!(refused(b""), Error::NotWasm(_)));
    assert!(matches!(
        refused(&vec![0; (1 << 20) + 1]),
        Error::TooLong { .. }
    ));
    let wasi = r#"(module (import "wasi_snapshot_preview1" "fd_write" (func)))"#;
    let text = refused(&parse(wasi)).to_string();
    assert!(text.contains("wasi_snapshot_preview1.fd_write"), "{text}");
    let other = r#"(module (import "quire_1" "emit" (func (param i64))))"#;
    assert!(matches!(refused(&parse(other)), Error::Export { .. }));
    assert!(matches!(refused(&parse("(module)")), Error::Export { .. }));
    assert!(matches!(refused(&module("")), Error::Export { .. }));
    let wrong_type = module(r#"(func (export "quire_1_filter") (result i64) (i64.const 1))"#);
    assert!(matches!(refused(&wrong_type), Error::Export { .. }));
    let half = module(r#"(func (export "quire_1_fold"))"#);
    assert!(refused(&half).to_string().contains("quire_1_merge"));

    let large = r#"(module (memory (export "memory") 300)
      (func (export "quire_1_filter") (result i32) (i32.const 1)))"#;
    let large = Code::wasm("test/1", &parse(large)).unwrap();
    assert_eq!(
        cause(large.start(None, &Limits::default())),
        Cause::Memory(16 << 20)
    );
    let other_kind = code(DEAR)
        .start(None, &Limits::default())
        .unwrap()
        .partial();
    assert!(matches!(other_kind.unwrap_err(), Error::WrongKind { .. }));
}

#[test]
fn a_start_function_has_limits_too_and_no_row() {
    let start = |body: &str| {
        let body = format!(
            r#"(func $s {body}) (start $s)
               (func (export "quire_1_filter") (result i32) (i32.const 1))"#
        );
        code(&body).start(None, &Limits::default()).map(|_| ())
    };
    assert_eq!(start("(nop)"), Ok(()));
    assert!(matches!(cause(start("(loop $l (br $l))")), Cause::Fuel(_)));
    assert!(matches!(cause(start("(unreachable)")), Cause::Trap(_)));
    let calls = "(call $emit (i32.const 0) (i32.const 0))";
    assert!(matches!(cause(start(calls)), Cause::Abi(_)));
}

/// A value that a module may give: near the ends of its memory of 64 KiB, and anything.
fn any_place() -> impl Strategy<Value = i32> {
    prop_oneof![-2..20i32, 65530..65540i32, any::<i32>()]
}

proptest! {
    #[test] // bad pointers, bad sources: an answer or an error, and never a panic
    fn any_argument_of_a_host_function_is_answered_or_refused(
        source in -1..5i32, path in any_place(), length in any_place(),
        out in any_place(), room in any_place(), function in 0..9usize,
    ) {
        let field = format!("(i32.const {source}) (i32.const {path}) (i32.const {length})");
        let place = format!("(i32.const {out}) (i32.const {room})");
        let call = match function {
            0 => format!("(drop (call $type {field}))"),
            1 => format!("(drop (call $get_i64 {field} (i32.const {out})))"),
            2 => format!("(drop (call $get_f64 {field} (i32.const {out})))"),
            3 => format!("(drop (call $get_string {field} {place}))"),
            4 => format!("(drop (call $get_json {field} {place}))"),
            5 => format!("(drop (call $key {place}))"),
            6 => format!("(drop (call $state {place}))"),
            7 => format!("(call $emit {place})"),
            _ => format!("(call $fail {place})"),
        };
        let answered = filtered(&filter(&format!("{call} (i32.const 1)")), r#"{"a":"text"}"#);
        if let Err(error) = answered {
            prop_assert_eq!(error.kind(), ErrorKind::Failed);
        }
    }

    #[test] // bytes of a module changed: refused, or it runs within its limits
    fn damaged_modules_are_refused_or_run_within_their_limits(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut wasm = module(DEAR);
        for (at, byte) in changes {
            let at = at.index(wasm.len());
            wasm[at] = byte;
        }
        let limits = Limits { fuel: 100_000, ..Limits::default() };
        if let Ok(code) = Code::wasm("damaged/1", &wasm) {
            let row = document(r#"{"price":1}"#);
            let started: Result<Run> = code.start(None, &limits);
            let _ = started.and_then(|mut run| run.filter(&Row::new(&Key::from(1), &row)));
        }
    }
}
