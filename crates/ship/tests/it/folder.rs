//! Files as the source, a folder of them too: JSON lines, CSV, Parquet; and what becomes of their
//! documents on the way.

use crate::fake::Fake;
use crate::faults::{LONG, env, run, target};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use quire_ship::{
    Error, FieldsConfig, FileSource, MappedSource, Mapping, PipeConfig, ShipOptions, Source,
    SourceConfig, ship,
};
use serde_json::{Value, json};
use std::fs::{File, remove_file, rename, write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Writes rows of `id` and `name`, in two row groups.
fn write_parquet(path: &Path, ids: std::ops::Range<i64>) {
    let schema = "message m { REQUIRED INT64 id; REQUIRED BYTE_ARRAY name (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED);
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties.build().into()).unwrap();
    let ids: Vec<i64> = ids.collect();
    for part in ids.chunks(ids.len().div_ceil(2)) {
        let names: Vec<ByteArray> = part
            .iter()
            .map(|id| ByteArray::from(format!("é {id}").as_str()))
            .collect();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column
            .typed::<Int64Type>()
            .write_batch(part, None, None)
            .unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        column
            .typed::<ByteArrayType>()
            .write_batch(&names, None, None)
            .unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
}

fn documents(fake: &Fake) -> std::collections::BTreeMap<String, Value> {
    fake.state.lock().unwrap().documents()
}

#[test]
fn files_of_a_folder_are_shipped_once_each_wherever_the_run_is_killed() {
    let (env, dir, fake) = (env(), tempfile::tempdir().unwrap(), Fake::start(vec![]));
    let (folder, state) = (dir.path().join("in"), dir.path().join("state"));
    std::fs::create_dir(&folder).unwrap();
    let csv = "\u{feff}id,\"na\nme\",note\n1,\"a \"\"b\"\"\nc\",\n\n2,é,x\n";
    write(folder.join("a.csv"), csv).unwrap();
    write_parquet(&folder.join("c.parquet"), 10..3_000);
    write(folder.join("b.ndjson"), "{\"id\":5,\"n\":1.50}\n{\"id\":6}").unwrap();
    write(folder.join(".d.csv"), "id\n7\n").unwrap();
    write(folder.join("e.csv.part"), "id\n8\n").unwrap();
    let source = FileSource::of_folder(Arc::clone(&env), folder.clone(), "id");
    let target = target(&env, &fake.url, LONG);
    for kill in 1..12 {
        let looks = AtomicU64::new(0);
        let stop = || looks.fetch_add(1, Ordering::Relaxed) > kill;
        match run(&env, &source, &target, &state, &stop) {
            Ok(_) | Err(Error::Stopped) => {}
            Err(error) => panic!("{error}"),
        }
        // Files that are read are put away, and others come before them.
        if kill == 6 {
            write(folder.join("0.csv"), "id,x\nzero,1\n").unwrap();
        }
    }
    let progress = run(&env, &source, &target, &state, &|| false).unwrap();
    assert!(progress.is_level);
    let found = documents(&fake);
    assert_eq!(found.len(), 2_990 + 5);
    assert_eq!(
        found["1"],
        json!({"id": "1", "na\nme": "a \"b\"\nc", "note": null})
    );
    assert_eq!(found["2"], json!({"id": "2", "na\nme": "é", "note": "x"}));
    assert_eq!(found["5"], json!({"id": 5, "n": 1.5}));
    assert_eq!(found["2999"], json!({"id": 2999, "name": "é 2999"}));
    assert_eq!(found["zero"], json!({"id": "zero", "x": "1"}));
    let again = run(&env, &source, &target, &state, &|| false).unwrap();
    assert_eq!((again.changes, again.had), (0, 0));

    // What was read may be removed; the last one is still where the position is.
    for name in ["a.csv", "b.ndjson", "c.parquet"] {
        remove_file(folder.join(name)).unwrap();
    }
    write(folder.join("a.csv"), "id,x\n1,new\n").unwrap();
    let end = run(&env, &source, &target, &state, &|| false).unwrap();
    assert_eq!(end.changes, 0, "the name is known, and was read: {end:?}");
    write(folder.join("a2.csv"), "id,x\n1,new\n").unwrap();
    assert_eq!(
        run(&env, &source, &target, &state, &|| false)
            .unwrap()
            .changes,
        1
    );
    assert_eq!(documents(&fake)["1"], json!({"id": "1", "x": "new"}));
    remove_file(folder.join("a2.csv")).unwrap();
    let error = run(&env, &source, &target, &state, &|| false).unwrap_err();
    assert!(error.to_string().contains("a2.csv is gone"), "{error}");
}

#[test]
fn files_that_come_while_it_runs_are_shipped_and_wrong_ones_are_named() {
    let (env, dir, fake) = (env(), tempfile::tempdir().unwrap(), Fake::start(vec![]));
    let (folder, state) = (dir.path().join("in"), dir.path().join("state"));
    std::fs::create_dir(&folder).unwrap();
    let source = FileSource::of_folder(Arc::clone(&env), folder.clone(), "id");
    let target = target(&env, &fake.url, LONG);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            let options = ShipOptions {
                state: state.clone(),
                once: false,
                report_every: Duration::from_secs(1),
            };
            let (targets, stop) = (std::slice::from_ref(&target), || {
                is_over.load(Ordering::Relaxed)
            });
            ship(&env, &source, targets, &options, &|_| (), &stop)
                .unwrap()
                .remove(0)
        });
        for number in [5, 3, 4] {
            let part = folder.join("part");
            write(&part, format!("id\nk{number}\n")).unwrap();
            rename(&part, folder.join(format!("{number}.csv"))).unwrap();
            while !documents(&fake).contains_key(&format!("k{number}")) {
                assert!(!running.is_finished(), "it ended by itself");
                thread::sleep(Duration::from_millis(20));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(matches!(running.join().unwrap(), Err(Error::Stopped)));
    });
    for (name, text, part) in [
        (
            "x.csv",
            "id,a\n1,2\n3\n",
            "x.csv, line at byte 9: the row has 1 cells",
        ),
        (
            "x.csv",
            "id,a\n0,0\n1,\"2\n3,4\n",
            "x.csv, line at byte 9: a quote of this row is not closed",
        ),
        ("x.csv", "id,\"a\n1,2\n", "quote of this row is not closed"),
        ("x.csv", "id,id\n1,2\n", "names the field \"id\" twice"),
        ("x.csv", "a\n1\n", "no field \"id\""),
        ("x.parquet", "PAR1", "x.parquet"),
    ] {
        let path = folder.join(name);
        write(&path, text).unwrap();
        let error = run(&env, &source, &target, &state, &|| false).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        remove_file(path).unwrap();
        std::fs::remove_dir_all(&state).unwrap();
    }
}

#[test]
fn documents_are_mapped_on_their_way() {
    let (env, dir, fake) = (env(), tempfile::tempdir().unwrap(), Fake::start(vec![]));
    let file = dir.path().join("in.csv");
    write(&file, "id,land,price,secret\n1,de,1.50,x\n2,fr,,y\n").unwrap();
    let source = FileSource::new(Arc::clone(&env), vec![file.clone()], "id");
    let mut config = FieldsConfig {
        drop: vec!["secret".to_owned()],
        key: Some("{land}-{_key}".to_owned()),
        ..FieldsConfig::default()
    };
    config.rename.insert("id".to_owned(), "number".to_owned());
    config
        .cast
        .insert("price".to_owned(), quire_ship::Cast::Number);
    config
        .set
        .insert("label".to_owned(), "{number} of {land}".to_owned());
    let mapping = Mapping::new(&config, true).unwrap().unwrap();
    let source: Box<dyn Source> = Box::new(MappedSource::new(Box::new(source), mapping));
    let (target, state) = (target(&env, &fake.url, LONG), dir.path().join("state"));
    run(&env, &*source, &target, &state, &|| false).unwrap();
    let found = documents(&fake);
    let one = json!({"number": "1", "land": "de", "price": 1.5, "label": "1 of de"});
    let two = json!({"number": "2", "land": "fr", "price": null, "label": "2 of fr"});
    assert_eq!(
        (&found["de-1"], &found["fr-2"], found.len()),
        (&one, &two, 2)
    );
}

/// Keeps even numbers `n`, and makes `{"made":n}` of a document.
const MODULE: &str = r#"(module
    (import "quire_1" "get_i64" (func $get (param i32 i32 i32 i32) (result i32)))
    (import "quire_1" "get_json" (func $json (param i32 i32 i32 i32 i32) (result i32)))
    (import "quire_1" "emit" (func $emit (param i32 i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "n")
    (data (i32.const 16) "{\"made\":")
    (func (export "quire_1_filter") (result i32)
        (drop (call $get (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
        (i32.eqz (i32.and (i32.wrap_i64 (i64.load (i32.const 8))) (i32.const 1))))
    (func (export "quire_1_map") (local $length i32)
        (local.set $length (call $json (i32.const 0) (i32.const 0) (i32.const 1)
            (i32.const 24) (i32.const 100)))
        (i32.store8 (i32.add (i32.const 24) (local.get $length)) (i32.const 125))
        (call $emit (i32.const 16) (i32.add (i32.const 9) (local.get $length)))))"#;

#[test]
fn documents_go_through_a_module_and_what_it_leaves_out_is_removed() {
    let (env, dir, fake) = (env(), tempfile::tempdir().unwrap(), Fake::start(vec![]));
    write(
        dir.path().join("module.wasm"),
        wat::parse_str(MODULE).unwrap(),
    )
    .unwrap();
    write(dir.path().join("wrong.wasm"), "wasm").unwrap();
    let file = dir.path().join("in.ndjson");
    let lines = |n: u32| {
        (0..10)
            .map(|id| format!("{{\"id\":{id},\"n\":{}}}\n", id * n))
            .collect::<String>()
    };
    write(&file, lines(2)).unwrap();
    let config = |module: &str| {
        let text = format!(
            "[source]\nfiles = [\"in.ndjson\"]\nkey_field = \"id\"\n[source.document]\n\
             module = \"{module}\"\nrename = {{ made = \"double\" }}\n\
             [[sink]]\nname = \"s\"\nkind = \"ndjson\"\ndirectory = \"out\"\n"
        );
        let path = dir.path().join("pipe.toml");
        write(&path, text).unwrap();
        PipeConfig::read(&*env, &path).unwrap().source
    };
    let open = |config: SourceConfig| {
        let source = config.open(&env).unwrap().unwrap();
        config.mapped(&*env, source)
    };
    let source = open(config("module.wasm")).unwrap();
    let (target, state) = (target(&env, &fake.url, LONG), dir.path().join("state"));
    run(&env, &*source, &target, &state, &|| false).unwrap();
    let found = documents(&fake);
    assert_eq!((found.len(), &found["4"]), (10, &json!({"double": 8})));
    // Every other one is odd now.
    write(&file, lines(2) + &lines(3)).unwrap();
    run(&env, &*source, &target, &state, &|| false).unwrap();
    let found = documents(&fake);
    assert_eq!((found.len(), &found["4"]), (5, &json!({"double": 12})));
    let error = open(config("wrong.wasm"))
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("wrong.wasm: no WebAssembly module"),
        "{error}"
    );
}
