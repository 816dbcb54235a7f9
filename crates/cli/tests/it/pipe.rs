//! pipe: check, run, status, and mistakes in the file.

use crate::Quire;
use serde_json::{Value, json};

const PIPE: &str = r#"
[source]
directory = "db"
collection = "songs"

[[sink]]
name = "archive"
kind = "ndjson"
directory = "archive"
"#;

#[test]
fn a_run_goes_on_where_the_last_one_was_and_status_says_where() {
    let quire = Quire::new();
    quire.file("songs.ndjson", "{\"_id\":1}\n{\"_id\":2,\"a\":1.50}\n");
    quire.ok(&["load", "db", "songs", "songs.ndjson"]);
    quire.file("pipe.toml", PIPE);
    assert!(
        quire
            .ok(&["pipe", "check", "pipe.toml"])
            .contains("db/songs: ok")
    );
    assert!(
        quire
            .ok(&["pipe", "status", "pipe.toml"])
            .contains("not begun")
    );

    quire.ok(&["pipe", "run", "pipe.toml", "--once"]);
    quire.ok(&["delete", "db", "songs", "1"]);
    let events = quire.ok(&["pipe", "run", "pipe.toml", "--once", "--json"]);
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "level");
    assert_eq!(last["progress"]["changes"], 1);
    let status = quire.json(&["pipe", "status", "pipe.toml"]);
    assert_eq!(status["stored"]["changes"], json!(3));

    // What was shipped loads again, deletions included.
    let file = "archive/changes-00000001.ndjson";
    quire.ok(&["load", "copy", "songs", file]);
    assert_eq!(
        quire.ok(&["scan", "copy", "songs"]),
        quire.ok(&["scan", "db", "songs"])
    );
}

#[test]
fn a_collection_that_was_made_anew_is_not_taken_for_the_old_one() {
    let quire = Quire::new();
    quire.file("songs.ndjson", "{\"_id\":1}\n{\"_id\":2}\n{\"_id\":3}\n");
    quire.ok(&["load", "db", "songs", "songs.ndjson"]);
    quire.file("pipe.toml", PIPE);
    quire.ok(&["pipe", "run", "pipe.toml", "--once"]);
    quire.ok(&["drop", "db", "songs", "--yes"]);
    quire.file("songs.ndjson", "{\"_id\":1}\n");
    quire.ok(&["load", "db", "songs", "songs.ndjson"]);
    quire.fails(
        &["pipe", "run", "pipe.toml", "--once"],
        1,
        &["past the end"],
    );
}

#[test]
fn a_mistake_says_what_to_do() {
    let quire = Quire::new();
    quire.file("songs.ndjson", "{\"_id\":1}\n");
    quire.ok(&["load", "db", "songs", "songs.ndjson"]);
    for (from, to, arguments, code, part) in [
        ("kind", "knid", &["check"][..], 2, "did you mean \"kind\"?"),
        ("", "", &["run"], 2, "give --once"),
        ("songs", "sonsg", &["check"], 1, "sonsg"),
        (
            "kind = \"ndjson\"\ndirectory = \"archive\"",
            "kind = \"opensearch\"\nurl = \"http://127.0.0.1:1\"\nindex = \"a\"",
            &["check"],
            1,
            "no answer from http://127.0.0.1:1",
        ),
    ] {
        quire.file("pipe.toml", PIPE.replacen(from, to, 1));
        let arguments = [&["pipe"], arguments, &["pipe.toml"]].concat();
        let done = quire.run(&arguments);
        let said = done.stdout + &done.stderr;
        assert!(said.contains(part), "{part} is not in: {said}");
        assert_eq!(done.code, code, "{said}");
    }
}
