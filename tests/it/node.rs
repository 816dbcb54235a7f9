//! Real clients for Node.js, unchanged, from npm: opensearch-js and elasticdump.

use crate::quire::{Server, root, target_dir};
use std::path::PathBuf;
use std::process::Command;

const OPENSEARCH: &str = "@opensearch-project/opensearch@2.13.0";
const ELASTICDUMP: &str = "elasticdump@6.124.2";

/// A directory with a package, which later runs find.
fn installed(package: &str, module: &str) -> PathBuf {
    let name = package.replace(['@', '/'], "-");
    let dir = target_dir().join(format!("node{name}"));
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
fn elasticdump_takes_documents_out_and_in_key_for_key() {
    let packages = installed(ELASTICDUMP, "elasticdump");
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("database"), &[]);
    for n in 0..250 {
        let document = format!(r#"{{"n":{n},"price":{n}.50,"o":{{"x":null}}}}"#);
        let (status, _) = server.request("PUT", &format!("/from/_doc/key-{n}"), &document);
        assert_eq!(status, 201);
    }
    let url = |index: &str| format!("http://{}/{index}", server.address);
    let file = dir.path().join("dump.json").display().to_string();
    for (from, to) in [(url("from"), file.clone()), (file, url("to"))] {
        run(Command::new("node")
            .arg(packages.join("node_modules/.bin/elasticdump"))
            .args(["--quiet", "--type=data"])
            .arg(format!("--input={from}"))
            .arg(format!("--output={to}")));
    }
    let all = |index: &str| {
        let path = format!(
            "/{index}/_search?size=300&sort=_id&filter_path=hits.hits._id,hits.hits._source"
        );
        server.request("GET", &path, "")
    };
    let (status, from) = all("from");
    assert_eq!(
        (status, from["hits"]["hits"].as_array().map(Vec::len)),
        (200, Some(250))
    );
    assert_eq!(all("to"), (200, from));
    server.stop();
}
