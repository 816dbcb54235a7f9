//! Builds the coprocessors of `examples/coprocessors`, and has the web table run each. A test says
//! so and does nothing where the compiler for WebAssembly can't be had.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking")]

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
    let module = dir.join("recrawl.wasm");
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

#[test]
fn the_coprocessor_in_rust_picks_the_pages_that_are_due() {
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
}

#[test]
fn the_coprocessor_in_c_picks_the_pages_that_are_due() {
    if !succeeds("clang", &["--version"]) || !succeeds("wasm-ld", &["--version"]) {
        eprintln!("skipped: clang and wasm-ld are not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "--target=wasm32",
        "-O2",
        "-nostdlib",
        "-Wl,--no-entry",
        "-Wl,--strip-all",
    ];
    let module = compile(dir.path(), "clang", &words, &source("recrawl.c"));
    assert_eq!(picked_by(dir.path(), &module), DUE);
}
