//! One key for a document, at every face: what contradicts it is refused, and what every face has
//! written survives `scan | load`, key for key and byte for byte.

use crate::follow::{copy_in, follow, wait_until_level};
use crate::quire::{Server, ok, run, run_with_input};
use quiredb::{CollectionSettings, Database, Document, ErrorKind, Key, Write as Change};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

fn document(json: &str) -> Document {
    Document::from_json(json.as_bytes()).unwrap()
}

fn key(text: &str) -> Key {
    Key::parse(text).unwrap()
}

/// The documents of a collection by key, as their bytes and as their text.
fn contents(path: &Path, name: &str) -> BTreeMap<String, (Vec<u8>, String)> {
    let database = Database::open(path).unwrap();
    let found = database.collection(name).unwrap().scan(..).unwrap();
    let documents = found.map(|found| {
        let found = found.unwrap();
        let (bytes, json) = (found.document.as_bytes().to_vec(), found.document.to_json());
        (found.key.to_string(), (bytes, json))
    });
    let documents = documents.collect();
    database.close().unwrap();
    documents
}

/// Documents that are easily copied wrong.
const ODD: [(&str, &str); 9] = [
    ("odd-1", r#"{}"#),
    ("odd-2", r#"{"_key":"x"}"#),
    ("odd-3", r#"{"_key":"odd-3","a":1.50}"#),
    ("odd-4", r#"{"_document":{"a":1}}"#),
    ("odd-5", r#"{"_key":"odd-5","_document":{"a":1}}"#),
    ("odd-6", r#"{"key":"k","document":{"a":1}}"#),
    ("odd \"7\" é\n", r#"{"a":"\u0000é"}"#),
    ("8", r#"{"a":1e400000}"#),
    ("-9", r#"{"a":-0,"b":1E5,"c":0.10}"#),
];

fn write_by_rust(path: &Path) {
    let database = Database::open(path).unwrap();
    let by_sku = CollectionSettings {
        key_field: "sku".to_owned(),
        ..CollectionSettings::default()
    };
    let c = database
        .create_collection("c", CollectionSettings::default())
        .unwrap();
    let skus = database.create_collection("skus", by_sku).unwrap();
    for (odd, json) in ODD {
        if let Ok(document) = Document::from_json(json.as_bytes()) {
            c.put_at(&key(odd), &document).unwrap();
            skus.put_at(&key(odd), &document).unwrap();
        }
    }
    c.put(&document(r#"{"title":"inside","_id":"rust"}"#))
        .unwrap();
    c.put(&document(r#"{"_id":12,"n":1.0}"#)).unwrap();
    c.put(&document(r#"{"_id":"13"}"#)).unwrap();
    skus.put(&document(r#"{"a":1,"sku":"A-1"}"#)).unwrap();
    let mut batch = c.batch();
    batch.put_at(&key("beside"), &document(r#"{"title":"beside"}"#));
    batch.push(Change::patch(
        key("rust"),
        document(r#"{"_id":null,"patched":true}"#),
    ));
    assert!(batch.write().into_iter().all(|result| result.is_ok()));
    database.close().unwrap();
}

fn memcached(address: SocketAddr, key: &str, json: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "set {key} 0 0 {}\r\n{json}\r\n", json.len()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

fn write_by_server(server: &Server) {
    let requests = [
        ("PUT", "/c/_doc/http-1", r#"{"title":"put"}"#),
        ("PUT", "/c/_doc/http-2", r#"{"title":"put","_id":"http-2"}"#),
        ("PUT", "/c/_doc/77", r#"{"title":"a number"}"#),
        ("POST", "/c/_doc", r#"{"title":"a new id"}"#),
        (
            "POST",
            "/c/_doc",
            r#"{"title":"its own id","_id":"http-3"}"#,
        ),
        ("PUT", "/c/_create/http-4", r#"{"title":"create"}"#),
        ("POST", "/c/_update/http-4", r#"{"doc":{"more":[1,2.50]}}"#),
        (
            "POST",
            "/c/_update/http-5",
            r#"{"doc":{"a":1},"doc_as_upsert":true}"#,
        ),
        ("PUT", "/skus/_doc/A-2", r#"{"title":"no sku"}"#),
        (
            "POST",
            "/c/_bulk",
            "{\"index\":{\"_id\":\"bulk-1\"}}\n{\"title\":\"bulk\"}\n\
             {\"create\":{\"_id\":78}}\n{\"title\":\"bulk\",\"_id\":78}\n\
             {\"index\":{}}\n{\"title\":\"new\"}\n",
        ),
    ];
    for (method, path, body) in requests {
        let (status, answer) = server.request(method, path, body);
        assert!(status < 300 && answer["errors"] != true, "{path}: {answer}");
    }
    let stored = memcached(server.memcached(), "c:mem", r#"{"title":"memcached"}"#);
    assert_eq!(stored.trim_end(), "STORED");
}

/// Copies a collection as the documentation says, and compares.
#[track_caller]
fn survives_scan_and_load(database: &Path, name: &str, arguments: &[&str]) {
    let copy = tempfile::tempdir().unwrap();
    let copy = copy.path().join("copy");
    let lines = ok(&["scan", database.to_str().unwrap(), name]);
    let load = ["load", copy.to_str().unwrap(), name];
    let load = [&load, arguments].concat();
    let loaded = run_with_input(&load, lines.as_bytes());
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    let (from, to) = (contents(database, name), contents(&copy, name));
    assert_eq!(from, to);
    // What a query gives loads again too.
    let lines = ok(&["query", database.to_str().unwrap(), name, "--all"]);
    let loaded = run_with_input(&load, lines.as_bytes());
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    assert_eq!(contents(&copy, name), from);
    // And so do changes, deletions among them.
    let copy = copy.with_file_name("changes");
    let lines = ok(&["tail", database.to_str().unwrap(), name]);
    let load = ["load", copy.to_str().unwrap(), name];
    let loaded = run_with_input(&[&load, arguments].concat(), lines.as_bytes());
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    assert_eq!(contents(&copy, name), from);
}

#[test]
fn a_collection_written_by_every_face_survives_scan_and_load() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = path.to_str().unwrap();
    write_by_rust(&path);
    ok(&["put", db, "c", r#"{"_id":"put-1","a":1}"#]);
    ok(&["put", db, "c", "put-2", r#"{"a":1}"#]);
    ok(&["put", db, "c", "put-2", r#"{"b":0.50}"#, "--patch"]);
    let lines = b"{\"_id\":\"load-1\",\"a\":1}\n{\"a\":2,\"_id\":79}\n";
    assert_eq!(run_with_input(&["load", db, "c"], lines).code, Some(0));
    let csv = b"sku,name\nA-3,Kettle\n";
    let load = ["load", db, "skus", "--format", "csv", "--key", "sku"];
    assert_eq!(run_with_input(&load, csv).code, Some(0));
    ok(&["put", db, "c", "gone", "{}"]);
    ok(&["delete", db, "c", "gone"]);

    let server = Server::start_memcached(&path, &[]);
    write_by_server(&server);
    let reindex = r#"{"source":{"index":"c"},"dest":{"index":"again"}}"#;
    let (status, report) = server.request("POST", "/_reindex", reindex);
    assert_eq!((status, &report["failures"]), (200, &json!([])), "{report}");
    let following = dir.path().join("follower");
    let follower = follow(&following, server.address);
    wait_until_level(&follower);
    follower.stop();
    server.stop();
    let copy = copy_in(&following);
    let backup = dir.path().join("backup");
    ok(&["backup", db, backup.to_str().unwrap()]);
    let restored = dir.path().join("restored");
    ok(&[
        "restore",
        backup.to_str().unwrap(),
        restored.to_str().unwrap(),
    ]);

    assert!(contents(&path, "c").len() > 20);
    assert_eq!(contents(&path, "again"), contents(&path, "c"));
    for database in [&path, &copy, &restored] {
        assert_eq!(contents(database, "c"), contents(&path, "c"));
        survives_scan_and_load(database, "c", &[]);
        survives_scan_and_load(database, "skus", &["--key", "sku"]);
    }
}

#[test]
fn a_document_that_names_another_key_than_its_own_is_refused_at_every_face() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = path.to_str().unwrap();
    write_by_rust(&path);
    let before = (contents(&path, "c"), contents(&path, "skus"));
    let refuses = |arguments: &[&str], input: &str| {
        let done = run_with_input(arguments, input.as_bytes());
        assert_eq!(done.code, Some(1), "{arguments:?}: {done:?}");
        assert!(done.stderr.contains("leave it out"), "{done:?}");
    };
    refuses(&["put", db, "c", "k2", r#"{"_id":"k1"}"#], "");
    refuses(&["put", db, "c", "rust", r#"{"_id":"k1"}"#, "--patch"], "");
    refuses(&["put", db, "skus", "k2", r#"{"sku":"k1"}"#], "");
    refuses(&["put", db, "skus", "k2", r#"{"_id":"k1"}"#], "");
    refuses(
        &["load", db, "c"],
        r#"{"_key":"k2","_document":{"_id":"k1"}}"#,
    );
    refuses(&["load", db, "skus"], r#"{"sku":"k2","_id":"k1"}"#);

    let server = Server::start_memcached(&path, &[]);
    for (method, path, body) in [
        ("PUT", "/c/_doc/x", r#"{"_id":"y"}"#),
        ("PUT", "/c/_create/x", r#"{"_id":"y"}"#),
        ("POST", "/c/_update/rust", r#"{"doc":{"_id":"y"}}"#),
        (
            "POST",
            "/c/_update/x",
            r#"{"doc":{"_id":"y"},"doc_as_upsert":true}"#,
        ),
        ("PUT", "/skus/_doc/x", r#"{"sku":"y"}"#),
        ("PUT", "/skus/_doc/x", r#"{"_id":["x"]}"#),
    ] {
        let (status, answer) = server.request(method, path, body);
        assert_eq!(status, 400, "{method} {path} {body}: {answer}");
        let reason = answer["error"]["reason"].as_str().unwrap();
        assert!(reason.contains("leave it out"), "{reason}");
    }
    let bulk = "{\"index\":{\"_id\":\"x\"}}\n{\"_id\":\"y\"}\n\
                {\"update\":{\"_id\":\"rust\"}}\n{\"doc\":{\"_id\":\"y\"}}\n";
    let (status, answer) = server.request("POST", "/c/_bulk", bulk);
    assert_eq!((status, &answer["errors"]), (200, &Value::from(true)));
    assert_eq!(answer["items"][0]["index"]["status"], 400, "{answer}");
    assert_eq!(answer["items"][1]["update"]["status"], 400, "{answer}");
    let refused = memcached(server.memcached(), "c:x", r#"{"_id":"y"}"#);
    assert!(refused.starts_with("CLIENT_ERROR"), "{refused}");
    assert!(refused.contains("leave it out"), "{refused}");
    server.stop();

    let database = Database::open(&path).unwrap();
    let c = database.collection("c").unwrap();
    let bad = document(r#"{"_id":"k1"}"#);
    let write = |key: &Key| Change::put(key.clone(), bad.clone());
    let k2 = key("k2");
    let partition = c.partition_of(&k2);
    let group = [write(&k2), Change::put(k2.clone(), document("{}"))];
    let grouped = c.write_grouped(vec![(partition, &group)], None).remove(0);
    assert!(grouped[1].is_ok());
    c.delete(&k2).unwrap();
    let refused = [
        c.put_at(&k2, &bad),
        c.patch(&key("rust"), &bad),
        c.batch().writes([write(&k2)]).write().remove(0),
        c.batch()
            .writes([write(&k2)])
            .write_atomic()
            .map(|mut all| all.remove(0)),
        grouped[0].clone(),
    ];
    for result in refused {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Invalid);
    }
    drop(c);
    database.close().unwrap();
    assert_eq!((contents(&path, "c"), contents(&path, "skus")), before);
}

#[test]
fn the_id_of_queries_is_the_key_live_by_index_and_frozen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = path.to_str().unwrap();
    write_by_rust(&path);
    let file = dir.path().join("c.quire");
    ok(&["freeze", db, "c", file.to_str().unwrap()]);
    let questions = [
        ("_id = 'rust'", 1),
        ("_id = 12", 1),
        ("_id = '12'", 1),
        ("_id = 13", 1),
        ("_id = '13'", 1),
        ("_id = -9", 1),
        ("_id = '-9'", 1),
        ("_id > -10 AND _id < 13", 2),
        ("_id LIKE 'odd-%'", 6),
        ("_id IS NOT NULL", 12),
    ];
    let count = |source: &[&str], condition: &str| {
        let arguments = [&["query"], source, &["--count", "--where", condition]].concat();
        let counted = ok(&arguments);
        counted
            .split_whitespace()
            .next()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    let order = |source: &[&str]| {
        let arguments = ["--all", "--order", "_id desc", "--fields", "_id"];
        ok(&[&["query"], source, &arguments].concat())
    };
    let live = order(&[db, "c"]);
    assert_eq!(live.lines().count(), 12);
    assert_eq!(live.lines().last(), Some(r#"{"_id":-9}"#));
    for round in 0..2 {
        for (condition, expected) in questions {
            assert_eq!(
                count(&[db, "c"], condition),
                expected,
                "{condition}, round {round}"
            );
            let frozen = count(&[file.to_str().unwrap()], condition);
            assert_eq!(frozen, expected, "{condition}, frozen");
        }
        assert_eq!(order(&[db, "c"]), live);
        assert_eq!(order(&[file.to_str().unwrap()]), live);
        ok(&["alter", db, "c", "--index", "all"]);
        ok(&["compact", db]);
    }
    let explained = ok(&["query", db, "c", "--where", "_id = 12", "--explain"]);
    assert!(!explained.contains("every document read"), "{explained}");
    assert_eq!(run(&["verify", db]).code, Some(0));
}

/// The external versions of documents by key, and when they expire.
fn versions(path: &Path, name: &str) -> BTreeMap<String, (Option<u64>, Option<i64>)> {
    let database = Database::open(path).unwrap();
    let found = database.collection(name).unwrap().scan(..).unwrap();
    let versions = found.map(|found| {
        let found = found.unwrap();
        let beside = (found.external, found.expires_micros);
        (found.key.to_string(), beside)
    });
    let versions = versions.collect();
    database.close().unwrap();
    versions
}

#[test]
fn external_versions_and_expiries_survive_scan_query_and_tail_from_directories_and_servers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = path.to_str().unwrap();
    let server = Server::start(&path, &[]);
    let requests = [
        ("PUT", "/c/_doc/a?version=17&version_type=external", "{}"),
        (
            "PUT",
            "/c/_doc/b?version=18&version_type=external",
            r#"{"_id":"b","n":1.50}"#,
        ),
        (
            "PUT",
            "/c/_doc/3?version=0&version_type=external_gte",
            r#"{"_version":9,"x":1}"#,
        ),
        (
            "PUT",
            "/c/_doc/d?version=9223372036854775807&version_type=external",
            r#"{"_document":{"a":1}}"#,
        ),
        ("PUT", "/c/_doc/e", r#"{"_version":5,"_document":{}}"#),
        ("PUT", "/c/_doc/gone?version=4&version_type=external", "{}"),
    ];
    for (method, path, body) in requests {
        let (status, answer) = server.request(method, path, body);
        assert_eq!(status, 201, "{path}: {answer}");
    }
    let gone = "/c/_doc/gone?version=9&version_type=external";
    let (status, answer) = server.request("DELETE", gone, "");
    assert_eq!(status, 200, "{answer}");
    let url = format!("http://{}", server.address);
    let expiring = "{\"_key\":\"f\",\"_expires\":9000000000000001,\"n\":1}\n\
                    {\"_key\":\"g\",\"_version\":3,\"_expires\":9000000000000002}\n\
                    {\"_key\":\"past\",\"_expires\":5,\"n\":1}\n";
    let loaded = run_with_input(&["load", &url, "c"], expiring.as_bytes());
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    let reads: [&[&str]; 4] = [
        &["scan"],
        &["scan", "--json"],
        &["query", "--all"],
        &["tail"],
    ];
    let lines_of =
        |place: &str| reads.map(|read| ok(&[&read[..1], &[place, "c"], &read[1..]].concat()));
    let remote = lines_of(&url);
    server.stop();
    let right = versions(&path, "c");
    assert_eq!(right["a"], (Some(17), None));
    assert_eq!(right["d"], (Some(i64::MAX as u64), None));
    assert_eq!(right["e"], (None, None));
    assert_eq!(right["f"], (None, Some(9_000_000_000_000_001)));
    assert_eq!(right["g"], (Some(3), Some(9_000_000_000_000_002)));
    assert!(!right.contains_key("past"));
    let local = lines_of(db);
    assert_eq!(local, remote);
    for (number, lines) in local.iter().enumerate() {
        let copy = dir.path().join(format!("copy-{number}"));
        let load = ["load", copy.to_str().unwrap(), "c"];
        // Lines that are loaded again change nothing.
        for _ in 0..2 {
            let loaded = run_with_input(&load, lines.as_bytes());
            assert_eq!(loaded.code, Some(0), "{lines}: {loaded:?}");
        }
        assert_eq!(contents(&copy, "c"), contents(&path, "c"), "{lines}");
        assert_eq!(versions(&copy, "c"), right, "{lines}");
    }

    // On a server, where a newer version stays.
    let copy = dir.path().join("copy-3");
    let server = Server::start(&copy, &[]);
    let newer = "/c/_doc/a?version=20&version_type=external";
    let (status, answer) = server.request("PUT", newer, r#"{"newer":true}"#);
    assert_eq!(status, 200, "{answer}");
    let url = format!("http://{}", server.address);
    let loaded = run_with_input(&["load", &url, "c"], local[0].as_bytes());
    assert_eq!(loaded.code, Some(0), "{loaded:?}");
    let (_, answer) = server.request("GET", "/c/_doc/a", "");
    assert_eq!(
        (&answer["_version"], &answer["_source"]["newer"]),
        (&json!(20), &json!(true))
    );
    // A deletion came with its version.
    let late = "/c/_doc/gone?version=9&version_type=external";
    assert_eq!(server.request("PUT", late, "{}").0, 409);
    server.stop();
}
