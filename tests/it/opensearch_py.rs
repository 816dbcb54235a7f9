//! A real client, unchanged: opensearch-py against `quire serve`.

use crate::quire::{Server, root, target_dir};
use std::path::PathBuf;
use std::process::Command;

/// The version tested, from PyPI.
const CLIENT: &str = "opensearch-py==3.2.0";

/// A Python with the client, in an environment of its own that later runs find.
fn python() -> PathBuf {
    let environment = target_dir().join("opensearch-py");
    let python = environment.join("bin/python");
    let has_client = |python: &PathBuf| {
        let check = Command::new(python)
            .args(["-c", "import opensearchpy"])
            .output();
        check.is_ok_and(|output| output.status.success())
    };
    if !has_client(&python) {
        run(Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&environment));
        run(Command::new(&python).args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            CLIENT,
        ]));
    }
    python
}

fn run(command: &mut Command) {
    let needs =
        "this test needs python3 with venv, and PyPI (Debian: apt-get install python3-venv)";
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; {needs}"));
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {printed}\n{needs}");
}

#[test]
fn opensearch_py_works_without_a_shim() {
    let python = python();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("database"), &[]);
    let script = root().join("tests/python/opensearch_py.py");
    let output = Command::new(python)
        .arg(script)
        .arg(server.address.port().to_string())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    server.stop();
}
