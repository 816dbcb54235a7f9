//! Real clients for Node.js, unchanged, from npm: opensearch-js and elasticdump.

use crate::quire::{Server, ok, root, target_dir};
use quiredb::{CollectionSettings, Database, Document, Key};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

const OPENSEARCH: &str = "@opensearch-project/opensearch@2.13.0";
const ELASTICDUMP: &str = "elasticdump@6.125.1";

/// A directory with a package, which later runs find.
fn installed(package: &str, module: &str) -> PathBuf {
    let name = package.replace(['@', '/'], "-");
    let dir = target_dir().join(format!("node-{}", name.trim_start_matches('-')));
    if !dir
        .join("node_modules")
        .join(module)
        .join("package.json")
        .exists()
    {
        std::fs::create_dir_all(&dir).unwrap();
        let install = [
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--prefix",
            ".",
        ];
        run(Command::new("npm")
            .args(install)
            .arg(package)
            .current_dir(&dir));
    }
    dir
}

#[track_caller]
fn run(command: &mut Command) {
    let needs = "this test needs node and npm (Debian: apt-get install nodejs npm)";
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; {needs}"));
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {printed}\n{needs}");
}

#[test]
fn opensearch_js_works_without_a_shim() {
    let packages = installed(OPENSEARCH, "@opensearch-project/opensearch");
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("database"), &[]);
    let port = server.address.port().to_string();
    run(Command::new("node")
        .arg(root().join("tests/node/opensearch_js.mjs"))
        .arg(port)
        .arg(packages));
    server.stop();
}

#[test]
fn elasticdump_copies_key_for_key_and_byte_for_byte() {
    let packages = installed(ELASTICDUMP, "elasticdump");
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("database");
    let server = Server::start(&database, &[]);
    let mapping = r#"{"mappings":{"properties":{"n":{"type":"long"}}}}"#;
    assert_eq!(server.request("PUT", "/cars", mapping).0, 200);
    let mut lines = String::new();
    for n in 0..700 {
        writeln!(lines, "{{\"index\":{{\"_id\":\"{n}\"}}}}").unwrap();
        writeln!(
            lines,
            "{{\"n\":{n},\"make\":\"VW\",\"at\":{{\"x.y\":[1.5,null]}},\"empty\":{{}}}}"
        )
        .unwrap();
    }
    // Ids and texts that are easily copied wrong; numbers are those that JavaScript keeps.
    for id in ["a/b?c%20", "é\\n", "q\\\"", " ", "-7", "_x"] {
        writeln!(lines, "{{\"index\":{{\"_id\":\"{id}\"}}}}").unwrap();
        writeln!(lines, "{{\"_id\":\"{id}\",\"text\":\"\\u0001é\\\\\"}}").unwrap();
    }
    let (status, answer) = server.request("POST", "/cars/_bulk", &lines);
    assert!(status == 200 && answer["errors"] == false, "{answer}");

    let dump = |input: &str, output: &str, more: &[&str]| {
        run(Command::new("node")
            .arg(packages.join("node_modules/.bin/elasticdump"))
            .arg(format!("--input={input}"))
            .arg(format!("--output={output}"))
            .args(more)
            .arg("--quiet"));
    };
    let url = |name: &str| format!("http://{}/{name}", server.address);
    let file = dir.path().join("cars.json");
    let file = file.to_str().unwrap();
    dump(&url("cars"), file, &["--type=data"]);
    dump(file, &url("copy"), &["--type=data"]);
    // From server to server: the mapping, then the documents in slices.
    dump(&url("cars"), &url("direct"), &["--type=mapping"]);
    for slice in 0..2 {
        let slice = format!(r#"{{"id":{slice},"max":2}}"#);
        let body =
            format!(r#"--searchBody={{"slice":{slice},"stored_fields":["*"],"_source":true}}"#);
        dump(&url("cars"), &url("direct"), &["--type=data", &body]);
    }
    let (_, shown) = server.request("GET", "/direct/_mapping", "");
    assert_eq!(
        shown["direct"]["mappings"]["properties"]["n"]["type"],
        "long"
    );
    server.stop();
    let scan = |name: &str| ok(&["scan", database.to_str().unwrap(), name]);
    let cars = scan("cars");
    assert_eq!(cars.lines().count(), 706);
    assert_eq!(scan("copy"), cars);
    assert_eq!(scan("direct"), cars);
}

#[test]
fn elasticdump_copies_what_every_face_has_written() {
    let packages = installed(ELASTICDUMP, "elasticdump");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("database");
    let database = Database::open(&path).unwrap();
    let made = database.create_collection("c", CollectionSettings::default());
    let made = made.unwrap();
    let document = |json: &str| Document::from_json(json.as_bytes()).unwrap();
    made.put(&document(r#"{"title":"Rust","_id":"rust-1"}"#))
        .unwrap();
    made.put_at(&Key::parse("rust-2").unwrap(), &document(r#"{"a":{}}"#))
        .unwrap();
    drop(made);
    database.close().unwrap();
    let server = Server::start_memcached(&path, &[]);
    for (method, path, body) in [
        ("PUT", "/c/_doc/http-1", r#"{"title":"put"}"#),
        (
            "POST",
            "/c/_doc",
            r#"{"_id":"http-2","title":"its own id"}"#,
        ),
        ("POST", "/c/_doc", r#"{"title":"a new id"}"#),
        ("POST", "/c/_update/http-1", r#"{"doc":{"more":[1,null]}}"#),
        (
            "POST",
            "/c/_bulk",
            "{\"index\":{\"_id\":7}}\n{\"_id\":7,\"n\":1.5}\n",
        ),
    ] {
        let (status, answer) = server.request(method, path, body);
        assert!(status < 300 && answer["errors"] != true, "{path}: {answer}");
    }
    let mut stream = TcpStream::connect(server.memcached()).unwrap();
    stream
        .write_all(b"set c:mem 0 0 9\r\n{\"m\":\"c\"}\r\nquit\r\n")
        .unwrap();
    let mut stored = String::new();
    stream.read_to_string(&mut stored).unwrap();
    assert_eq!(stored, "STORED\r\n");
    let url = |name: &str| format!("http://{}/{name}", server.address);
    let lines = dir.path().join("lines.ndjson");
    std::fs::write(&lines, "{\"_id\":\"command\",\"x\":[{}]}\n").unwrap();
    let address = format!("http://{}", server.address);
    ok(&["load", &address, "c", lines.to_str().unwrap()]);
    let file = dir.path().join("c.json");
    let file = file.to_str().unwrap();
    for (input, output) in [(url("c").as_str(), file), (file, &url("copy"))] {
        run(Command::new("node")
            .arg(packages.join("node_modules/.bin/elasticdump"))
            .arg(format!("--input={input}"))
            .arg(format!("--output={output}"))
            .args(["--type=data", "--quiet"]));
    }
    server.stop();
    let scan = |name: &str| ok(&["scan", path.to_str().unwrap(), name]);
    let written = scan("c");
    assert_eq!(written.lines().count(), 8, "{written}");
    assert_eq!(scan("copy"), written);
}
