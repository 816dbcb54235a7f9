//! pipe: check, run, status, and mistakes in the file.

use crate::Quire;
use crate::serve::Server;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

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
        &["of another collection", "made anew"],
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

/// The status line and the body of an answer.
fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn a_run_serves_its_metrics_and_its_health_and_a_sink_that_fails_is_reported_at_once() {
    let quire = Quire::new();
    quire.file("songs.ndjson", "{\"_id\":1}\n{\"_id\":2}\n");
    quire.file("archive", "no folder");
    let sink = |name: &str, folder: &str| {
        format!("[[sink]]\nname = \"{name}\"\nkind = \"ndjson\"\ndirectory = \"{folder}\"\n")
    };
    let source = "listen = \"127.0.0.1:0\"\n[source]\nfiles = [\"songs.ndjson\"]\n";
    let sinks = sink("good", "good") + &sink("bad", "archive/in/a/file");
    quire.file("pipe.toml", source.to_owned() + &sinks);
    let mut command = quire.command(&["pipe", "run", "pipe.toml", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    let mut events = BufReader::new(running.stdout.take().unwrap()).lines();
    let mut event = || -> Value { serde_json::from_str(&events.next().unwrap().unwrap()).unwrap() };
    let listening = event();
    let address = listening["address"].as_str().unwrap();
    let (mut is_level, mut has_failed) = (false, false);
    while !(is_level && has_failed) {
        let event = event();
        let progress = &event["progress"];
        has_failed |= event["event"] == "failed" && progress["sink"] == "bad";
        is_level |= progress["sink"] == "good" && progress["is_level"] == true;
    }
    let (status, metrics) = get(address, "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    for line in [
        "# TYPE quire_pipe_changes_total counter",
        "quire_pipe_changes_total{sink=\"good\"} 2",
        "quire_pipe_level{sink=\"good\"} 1",
        "quire_pipe_failed{sink=\"bad\"} 1",
        "quire_pipe_delay_seconds_count{sink=\"good\"} 0",
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line}: {metrics}");
    }
    let (status, health) = get(address, "/health");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!(health["sinks"][0]["state"], "ok");
    assert_eq!(health["sinks"][1]["state"], "failed");
    assert!(get(address, "/other").0.contains("404"));
    running.kill().unwrap();
    running.wait().unwrap();

    quire.file("pipe.toml", source.to_owned() + &sink("good", "good"));
    quire.ok(&["pipe", "run", "pipe.toml", "--once", "--listen", "[::1]:0"]);
    let words = ["cannot listen on nowhere"];
    quire.fails(
        &["pipe", "run", "pipe.toml", "--listen", "nowhere"],
        1,
        &words,
    );
}

#[test]
fn a_terminal_gets_a_dashboard_and_the_result() {
    let mut script = Command::new("script");
    if script
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        println!("skipped: no program `script`, which makes a terminal; on Debian: bsdutils");
        return;
    }
    let quire = Quire::new();
    quire.file("songs.ndjson", "{\"_id\":1}\n{\"_id\":2}\n");
    quire.ok(&["load", "db", "songs", "songs.ndjson"]);
    quire.file("pipe.toml", PIPE);
    let command = format!("{} pipe run pipe.toml --once", env!("CARGO_BIN_EXE_quire"));
    let done = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(quire.path(""))
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let screen = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{screen}");
    for part in [
        "db/songs",
        "  archive   2 changes",
        "level",
        "0 retries, 0 refused",
        "2 changes;",
    ] {
        assert!(screen.contains(part), "{part:?} is not in {screen:?}");
    }
}

#[test]
fn a_sink_that_is_its_own_source_is_refused_and_letters_are_sent_again() {
    let quire = Quire::new();
    let server = Server::start_of(&quire, "served", &[]);
    let sink = format!(
        "[[sink]]\nname = \"s\"\nkind = \"quire\"\nurl = \"http://{}\"\nindex = \"songs\"\n",
        server.address
    );
    // No key of a collection is that long.
    let long = "k".repeat(70_000);
    quire.file(
        "in.ndjson",
        format!("{{\"_id\":\"{long}\"}}\n{{\"_id\":1}}\n"),
    );
    quire.file(
        "in.toml",
        format!("[source]\nfiles = [\"in.ndjson\"]\n{sink}"),
    );
    quire.ok(&["pipe", "run", "in.toml", "--once"]);
    let words = ["sent 1 dead letter", "1 refused again"];
    let retried = quire.run(&["pipe", "retry", "in.toml"]);
    assert_eq!(retried.code, 1);
    assert!(
        words.iter().all(|word| retried.stdout.contains(word)),
        "{retried:?}"
    );
    quire.fails(
        &["pipe", "retry", "in.toml", "--sink", "t"],
        2,
        &["no sink is named \"t\""],
    );
    quire.file("in.toml.state/s.dead.ndjson", "");
    let retried = quire.ok(&["pipe", "retry", "in.toml", "--json"]);
    let retried: Value = serde_json::from_str(retried.lines().last().unwrap()).unwrap();
    assert_eq!(retried["sent"], json!(0));

    let url = server.address.replace("127.0.0.1", "localhost");
    let source = format!("[source]\nurl = \"http://{url}\"\ncollection = \"songs\"\n");
    quire.file("own.toml", format!("{source}{sink}"));
    let words = ["sink \"s\" is the collection that [source] reads"];
    quire.fails(&["pipe", "run", "own.toml", "--once"], 2, &words);
    server.stop("TERM");
}
