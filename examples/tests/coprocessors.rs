//! Builds the coprocessors of `examples/coprocessors`, has the web table run the filter, and writes
//! pages with the trigger. A test says so and does nothing where the compiler for WebAssembly can't
//! be had.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

use quiredb::{Database, Document, Env, Key, OsEnv};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const TARGET: &str = "wasm32-unknown-unknown";

/// What `program` did; none if there is no such program.
fn output_of(program: &str, words: &[&str]) -> Option<Output> {
    Command::new(program).args(words).output().ok()
}

fn succeeds(program: &str, words: &[&str]) -> bool {
    output_of(program, words).is_some_and(|output| output.status.success())
}

fn source(name: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("coprocessors");
    dir.join(name).to_str().unwrap().to_string()
}

/// Runs a compiler, which has to succeed, and gives the module that it makes.
fn compile(dir: &Path, compiler: &str, words: &[&str], source: &str) -> PathBuf {
    let module = dir.join("module.wasm");
    let words = [words, &["-o", module.to_str().unwrap(), source]].concat();
    let output = output_of(compiler, &words).unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler}: {text}");
    module
}

/// What the web table prints that `module` picks.
fn picked_by(dir: &Path, module: &Path) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_web_table"));
    let output = command.arg(dir.join("web")).arg(module).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines = printed.lines();
    let picked = lines.filter_map(|line| line.strip_prefix("crawl again: "));
    picked.map(str::to_string).collect()
}

const DUE: [&str; 2] = ["http://news.example/", "http://shop.example/"];

/// Writes a page with the trigger, and checks what it makes of each write.
fn check_stamps(dir: &Path, module: &Path) {
    let database = Database::open(dir.join("pages")).unwrap();
    let pages = database
        .collection_or_create("pages", Default::default)
        .unwrap();
    let wasm = OsEnv::new().unwrap().read(module, 1 << 20).unwrap();
    database.add_coprocessor("stamp", &wasm).unwrap();
    database
        .attach_trigger("pages", "stamp", &Default::default())
        .unwrap();
    let key = Key::parse("http://a.example/").unwrap();
    let document = |json: &str| Document::from_json(json.as_bytes()).unwrap();
    let field = |name: &str| {
        let found = pages.get(&key).unwrap().unwrap();
        let value = found.document.get(name).map(|value| format!("{value:?}"));
        value.unwrap_or_default()
    };
    pages.put_at(&key, &document(r#"{"title":"A"}"#)).unwrap();
    assert_eq!(field("changes"), "Int(1)");
    let changed = field("changed");
    assert!(changed.len() >= "Int(1000000000000000)".len(), "{changed}");
    pages.patch(&key, &document(r#"{"html":"<p>"}"#)).unwrap();
    assert_eq!(
        (field("changes"), field("changed")),
        ("Int(1)".to_string(), changed)
    );
    pages.patch(&key, &document(r#"{"title":"B"}"#)).unwrap();
    assert_eq!(field("changes"), "Int(2)");
    let refused = pages.patch(&key, &document(r#"{"title":7}"#)).unwrap_err();
    assert!(
        refused
            .to_string()
            .ends_with("it failed: the title is no string"),
        "{refused}"
    );
    pages.delete(&key).unwrap();
}

#[test]
fn the_coprocessors_in_rust_pick_the_pages_that_are_due_and_stamp_them() {
    let has_target = || {
        let printed = output_of("rustc", &["--print", "target-libdir", "--target", TARGET]);
        printed.is_some_and(|output| {
            Path::new(String::from_utf8_lossy(&output.stdout).trim()).exists()
        })
    };
    if !has_target() && !succeeds("rustup", &["target", "add", TARGET]) {
        eprintln!("skipped: the target {TARGET} is not installed, and rustup can't install it");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "--edition",
        "2024",
        "--target",
        TARGET,
        "--crate-type",
        "cdylib",
    ];
    let words = [&words[..], &["-O", "-C", "strip=symbols"]].concat();
    let module = compile(dir.path(), "rustc", &words, &source("recrawl.rs"));
    assert_eq!(picked_by(dir.path(), &module), DUE);
    let module = compile(dir.path(), "rustc", &words, &source("stamp.rs"));
    check_stamps(dir.path(), &module);
}

#[test]
fn the_coprocessors_in_c_pick_the_pages_that_are_due_and_stamp_them() {
    if !succeeds("clang", &["--version"]) || !succeeds("wasm-ld", &["--version"]) {
        eprintln!("skipped: clang and wasm-ld are not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "--target=wasm32",
        "-O2",
        "-nostdlib",
        "-fno-builtin",
        "-Wl,--no-entry",
        "-Wl,--strip-all",
    ];
    let module = compile(dir.path(), "clang", &words, &source("recrawl.c"));
    assert_eq!(picked_by(dir.path(), &module), DUE);
    let module = compile(dir.path(), "clang", &words, &source("stamp.c"));
    check_stamps(dir.path(), &module);
}
