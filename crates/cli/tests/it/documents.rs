//! get, put, delete, scan, count and tail.

use crate::Quire;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

#[test]
fn documents_come_back_as_they_went_in() {
    let document = concat!(
        r#"{"_id":"a","n":[1.10,1e3,-0,18446744073709551615],"#,
        r#""s":"é\u0000\"","o":{"z":1,"a":{}},"x":null}"#,
    );
    let quire = Quire::with_documents(document);
    let found = quire.ok(&["get", "db", "c", "a"]);
    let exact = r#""n":[1.10,1e3,-0,18446744073709551615]"#;
    assert!(found.contains(exact), "{found}");
    assert_eq!(found, quire.ok(&["scan", "db", "c"]));
    let values: [Value; 2] = [document, &found].map(|text| serde_json::from_str(text).unwrap());
    assert_eq!(values[0], values[1]);
    let fields: Vec<_> = values[1].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["_id", "n", "s", "o", "x"]);
}

#[test]
fn get_prints_what_is_there_and_says_what_is_not() {
    let quire = Quire::with_documents("{\"_id\":\"a\",\"v\":1}\n{\"_id\":2}\n");
    let done = quire.fails(
        &["get", "db", "c", "a", "nope", "2"],
        1,
        &["no document nope in c"],
    );
    assert_eq!(done.lines(), [r#"{"_id":"a","v":1}"#, r#"{"_id":2}"#]);

    let done = quire.fails(&["get", "db", "c", "a", "nope", "--json"], 1, &["nope"]);
    let lines: Vec<Value> = done
        .lines()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["key"], "a");
    assert_eq!(lines[0]["found"], true);
    assert_eq!(lines[0]["document"], json!({"_id": "a", "v": 1}));
    assert!(lines[0]["version"].as_u64().unwrap() > 0);
    assert_eq!(lines[1], json!({"key": "nope", "found": false}));
}

#[test]
fn put_replaces_patches_and_keeps_conditions() {
    let quire = Quire::new();
    quire.ok(&["create", "db", "c"]);
    let created = quire.json(&["put", "db", "c", r#"{"_id":"a","x":1,"y":2}"#]);
    assert_eq!(
        (&created["key"], &created["effect"]),
        (&json!("a"), &json!("created"))
    );
    let version = created["version"].to_string();

    quire.fails(&["put", "db", "c", "a", "{}", "--if-absent"], 1, &["a"]);
    let patched = quire.json(&[
        "put",
        "db",
        "c",
        "a",
        r#"{"x":null,"z":3}"#,
        "--patch",
        "--if-version",
        &version,
    ]);
    assert_eq!(patched["effect"], "updated");
    assert_eq!(
        quire.ok(&["get", "db", "c", "a"]),
        "{\"_id\":\"a\",\"y\":2,\"z\":3}\n"
    );
    quire.fails(
        &["put", "db", "c", "a", "{}", "--if-version", &version],
        1,
        &["a"],
    );
    quire.fails(&["put", "db", "c", "b", "{}", "--patch"], 1, &["b"]);

    let done = quire.pipe(&["put", "db", "c", "-7", "-"], r#"{"from":"stdin"}"#);
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(
        quire.ok(&["get", "db", "c", "-7"]),
        "{\"from\":\"stdin\"}\n"
    );
    assert!(
        quire
            .ok(&["put", "db", "c", "a", "{}"])
            .starts_with("updated a")
    );

    quire.fails(&["put", "db", "c", r#"{"no":"key"}"#], 1, &["_id"]);
    quire.fails(
        &["put", "db", "c", "k", "{\"a\":1,\"a\":2}"],
        1,
        &["more than once"],
    );
    quire.fails(&["put", "db", "c", "k", "[1]"], 1, &["object"]);
    quire.fails(&["put", "db", "c", &"k".repeat(1025), "{}"], 2, &["1024"]);
}

#[test]
fn delete_removes_and_says_what_was_not_there() {
    let quire = Quire::with_documents("{\"_id\":\"a\"}\n{\"_id\":\"b\"}\n{\"_id\":\"c\"}\n");
    let version = quire.json(&["get", "db", "c", "a"])["version"].to_string();
    quire.fails(
        &["delete", "db", "c", "b", "nope"],
        1,
        &["no document nope"],
    );
    assert_eq!(quire.json(&["count", "db", "c"]), json!({"count": 2}));
    assert_eq!(
        quire.json(&["delete", "db", "c", "a", "--if-version", &version])["effect"],
        "deleted"
    );
    quire.fails(
        &["delete", "db", "c", "c", "--if-version", "999"],
        1,
        &["999"],
    );
    quire.fails(
        &["delete", "db", "c", "a", "c", "--if-version", "1"],
        2,
        &["one key"],
    );
    assert_eq!(quire.ok(&["count", "db", "c"]), "1\n");
}

#[test]
fn scan_goes_in_key_order_within_bounds() {
    let keys = ["b", "a", "10", "9", "-1", "2101.1", "2101.2", "21010", "ab"];
    let documents: String = keys
        .iter()
        .map(|key| format!("{{\"_id\":\"{key}\"}}\n"))
        .collect();
    let quire = Quire::with_documents(&documents);
    let scan = |arguments: &[&str]| -> Vec<String> {
        let found = quire.ok(&[&["scan", "db", "c"], arguments].concat());
        found
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["_id"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect()
    };
    assert_eq!(
        scan(&[]),
        ["-1", "9", "10", "21010", "2101.1", "2101.2", "a", "ab", "b"]
    );
    assert_eq!(
        scan(&["--from", "10", "--to", "a"]),
        ["10", "21010", "2101.1", "2101.2"]
    );
    assert_eq!(scan(&["--from", "-5", "--limit", "2"]), ["-1", "9"]);
    assert_eq!(scan(&["--prefix", "a"]), ["a", "ab"]);
    assert_eq!(scan(&["--prefix", "2101"]), ["2101.1", "2101.2"]);
    assert_eq!(scan(&["--prefix", "zz"]), [""; 0]);
    assert_eq!(scan(&["--limit", "0"]), [""; 0]);
    quire.fails(
        &["scan", "db", "c", "--prefix", "a", "--from", "b"],
        2,
        &["--prefix"],
    );
    let line = quire.json(&["scan", "db", "c", "--from", "b"]);
    assert_eq!(
        (&line["key"], &line["document"]),
        (&json!("b"), &json!({"_id": "b"}))
    );
}

#[test]
fn tail_shows_every_change_in_order() {
    let quire = Quire::new();
    quire.ok(&["create", "db", "c", "--partitions", "1"]);
    quire.ok(&["put", "db", "c", r#"{"_id":"a","v":1}"#]);
    quire.ok(&["put", "db", "c", "a", r#"{"v":2}"#, "--patch"]);
    quire.ok(&["delete", "db", "c", "a"]);
    let tail = |arguments: &[&str]| -> Vec<Value> {
        let printed = quire.ok(&[&["tail", "db", "c"], arguments].concat());
        printed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let changes = tail(&[]);
    assert_eq!(changes.len(), 3);
    assert_eq!(changes[1]["document"], json!({"_id": "a", "v": 2}));
    assert_eq!(changes[2]["deleted"], true);
    let positions: Vec<_> = changes
        .iter()
        .map(|change| change["position"].as_u64().unwrap())
        .collect();
    assert_eq!(positions, [1, 2, 3]);
    assert!(
        changes
            .iter()
            .all(|change| change["key"] == "a" && change["time_micros"].as_i64().unwrap() > 0)
    );
    assert_eq!(tail(&["--from", "2", "--limit", "1"]), changes[1..2]);
    assert_eq!(tail(&["--from", "4", "--json"]), [Value::Null; 0]);
    quire.ok(&["put", "db", "c", r#"{"_id":"ab","v":1}"#]);
    assert_eq!(tail(&["--prefix", "a"]).len(), 4);
    assert_eq!(tail(&["--prefix", "ab"])[0]["key"], "ab");
    assert_eq!(tail(&["--prefix", "no such"]), [Value::Null; 0]);
}

#[test]
fn tail_follow_prints_what_other_commands_write() {
    let quire = Quire::with_documents("{\"_id\":1}\n");
    let mut follower = quire
        .command(&["tail", "db", "c", "--follow", "--limit", "3"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next_key = || {
        serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()["key"]
            .as_i64()
            .unwrap()
    };
    assert_eq!(next_key(), 1);
    for key in [2, 3] {
        // The follower has the database open for a moment after each change.
        let document = format!("{{\"_id\":{key}}}");
        while quire.run(&["put", "db", "c", &document]).code != 0 {}
        assert_eq!(next_key(), key);
    }
    assert!(follower.wait().unwrap().success());
}

#[test]
fn a_reader_that_goes_away_ends_a_scan_quietly() {
    let documents: String = (0..20_000)
        .map(|id| format!("{{\"_id\":{id},\"text\":\"{}\"}}\n", "x".repeat(50)))
        .collect();
    let quire = Quire::with_documents(&documents);
    let mut scan = quire
        .command(&["scan", "db", "c"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(scan.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert!(first.starts_with("{\"_id\":0,"));
    let mut said = String::new();
    scan.stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!((scan.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn an_address_of_a_server_is_no_directory() {
    let quire = Quire::new();
    quire.file("c.ndjson", "{\"_id\":1}\n");
    for arguments in [
        &["freeze", "http://127.0.0.1:9200", "c", "c.quire"][..],
        &["compact", "https://example.org"],
        &["get", "http:/127.0.0.1:9200", "c", "1"],
        &["load", "https:/example.org", "c", "c.ndjson"],
    ] {
        let done = quire.run(arguments);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.stderr.contains("address of a server"), "{done:?}");
    }
    assert!(!quire.path("http:").exists() && !quire.path("https:").exists());
    for arguments in [
        &["load", "localhost:9377", "c", "c.ndjson"][..],
        &["count", "localhost:9377", "c"],
        &["collections", "[::1]:9200"],
        &["query", "localhost:9377", "c"],
        &["freeze", "localhost:9377", "c", "c.quire"],
    ] {
        let hint = format!("write http://{0}, or ./{0} for a directory", arguments[1]);
        quire.fails(arguments, 2, &[&hint]);
    }
    assert!(!quire.path("localhost:9377").exists());
    quire.ok(&["load", "./localhost:9377", "c", "c.ndjson"]);
    assert_eq!(quire.ok(&["count", "localhost:9377", "c"]), "1\n");
}

#[test]
fn a_conflict_names_the_external_version_where_there_is_one() {
    let quire = Quire::new();
    let line = "{\"_key\":\"k\",\"_version\":6,\"a\":1}\n";
    assert_eq!(quire.pipe(&["load", "db", "c"], line).code, 0);
    let put = ["put", "db", "c", "k", "{}", "--if-absent"];
    quire.fails(&put, 1, &["it exists already (external version 6)"]);
}

#[test]
fn a_frozen_file_is_named_as_one() {
    let quire = Quire::new();
    quire.ok(&["create", "db", "c"]);
    quire.ok(&["put", "db", "c", "k", "{}"]);
    quire.ok(&["freeze", "db", "c", "c.quire"]);
    for arguments in [
        &["get", "c.quire", "c", "k"][..],
        &["get", "c.quire", "k"],
        &["count", "c.quire"],
        &["scan", "c.quire"],
    ] {
        let done = quire.run(arguments);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(done.stderr.contains("frozen file"), "{done:?}");
    }
    let done = quire.run(&["get", "nothing.quire", "k"]);
    assert!(done.stderr.contains("<KEY>"), "{done:?}");
}

#[test]
fn a_document_without_a_key_points_to_the_option() {
    let quire = Quire::new();
    quire.file("c.ndjson", "{\"id\":1,\"a\":2}\n");
    let done = quire.run(&["load", "db", "c", "c.ndjson"]);
    assert!(done.stderr.contains("--key id"), "{done:?}");
    quire.file("pretty.json", "{\n  \"_id\": 1\n}\n");
    let done = quire.run(&["load", "db", "c", "pretty.json"]);
    assert!(done.stderr.contains("jq -c ."), "{done:?}");
}

#[test]
fn a_scan_carries_keys_that_are_not_in_the_documents() {
    let quire = Quire::new();
    quire.ok(&["create", "db", "c"]);
    quire.ok(&["put", "db", "c", "k", r#"{"a":1.50}"#]);
    quire.ok(&["put", "db", "c", r#"{"a":2,"_id":"l"}"#]);
    let lines = "{\"_key\":\"k\",\"a\":1.50}\n{\"a\":2,\"_id\":\"l\"}\n";
    assert_eq!(quire.ok(&["scan", "db", "c"]), lines);
    assert_eq!(quire.ok(&["query", "db", "c", "--order", "_id"]), lines);
    assert_eq!(quire.ok(&["get", "db", "c", "k"]), "{\"a\":1.50}\n");
    let fields = ["query", "db", "c", "--order", "_id", "--fields", "_id,a"];
    let selected = "{\"_id\":\"k\",\"a\":1.50}\n{\"a\":2,\"_id\":\"l\"}\n";
    assert_eq!(quire.ok(&fields), selected);
    let done = quire.run(&["put", "db", "c", "k2", r#"{"_id":"k1"}"#]);
    assert_eq!(done.code, 1);
    assert!(done.stderr.contains("key k2"), "{done:?}");
}
