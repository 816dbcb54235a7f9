//! A real client for Node.js, unchanged, from npm: opensearch-js.

use crate::quire::{Server, root, target_dir};
use std::path::PathBuf;
use std::process::Command;

const OPENSEARCH: &str = "@opensearch-project/opensearch@2.13.0";

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
