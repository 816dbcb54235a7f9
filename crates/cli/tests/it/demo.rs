//! demo: on the package index, and on sources of crates where there is none.

use crate::{Done, Quire};
use serde_json::Value;

/// A home of cargo with the sources of one crate.
fn cargo_home(quire: &Quire) -> std::path::PathBuf {
    let home = quire.path("cargo");
    let sources = home.join("registry/src/index/demo-crate-1.2.3/src");
    std::fs::create_dir_all(&sources).unwrap();
    std::fs::write(sources.join("lib.rs"), "//! Hello.\nfn main() {}\n").unwrap();
    std::fs::write(sources.join("picture.png"), [0xff; 100]).unwrap();
    std::fs::write(sources.join("../Cargo.toml"), "[package]\n").unwrap();
    home
}

#[test]
fn demo_works_on_what_the_machine_has() {
    let quire = Quire::new();
    let home = cargo_home(&quire);
    let mut command = quire.command(&["demo", "--documents", "3000", "--dir", "demo-db"]);
    let done = Done::of(command.env("CARGO_HOME", &home));
    assert_eq!(done.code, 0, "{done:?}");
    for word in [
        "listening on http://127.0.0.1:",
        "loaded ",
        "\"favourite\":true",
        "favourite = TRUE: ",
        "search postings in ",
        "the query took ",
        "no damage",
        "quire freeze demo-db",
        "the same answer from both",
        "Served over HTTP:",
        "Try next",
    ] {
        assert!(done.stdout.contains(word), "{word}: {}", done.stdout);
    }
    assert!(!quire.ok(&["collections", "demo-db"]).is_empty());
    quire.ok(&["verify", "demo-db"]);
    quire.ok(&["inspect", "demo-db.quire", "--verify"]);
    quire.fails(&["demo", "--dir", "demo-db"], 2, &["not empty"]);
}

#[test]
fn demo_falls_back_to_sources_of_crates() {
    let quire = Quire::new();
    let home = cargo_home(&quire);
    let mut command = quire.command(&["demo", "--json"]);
    let done = Done::of(
        command
            .env("PATH", "")
            .env("CARGO_HOME", home)
            .env("TMPDIR", quire.directory.path()),
    );
    assert_eq!(done.code, 0, "{done:?}");
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(report["documents"], 2);
    assert_eq!(report["collection"], "sources");
    assert_eq!(report["served"].as_array().unwrap().len(), 2);
    assert_eq!(report["damage"], 0);
    assert_eq!(report["frozen"]["documents"], 2);
    let document = &report["updated"]["_source"];
    assert_eq!(document["crate"], "demo-crate");
    assert_eq!(document["version"], "1.2.3");
    assert_eq!(document["favourite"], true);
    let left = std::fs::read_dir(quire.directory.path()).unwrap().count();
    assert_eq!(left, 1, "the temporary database is removed");
}

#[test]
fn demo_without_any_data_says_so() {
    let quire = Quire::new();
    let done = Done::of(
        quire
            .command(&["demo"])
            .env("PATH", "")
            .env("CARGO_HOME", quire.path("none")),
    );
    assert_eq!(done.code, 1);
    assert!(
        done.stderr.contains("no real data") && done.stderr.contains("quire load"),
        "{done:?}"
    );
}
