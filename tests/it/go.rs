//! The real client for Go, unchanged, from the Go module proxy.

use crate::quire::{Server, root, target_dir};
use std::process::Command;

/// The least version of Go that the client is built with.
const MINOR_MIN: u32 = 22;

/// The minor version of Go 1 that is installed.
fn minor() -> Option<u32> {
    let output = Command::new("go")
        .args(["env", "GOVERSION"])
        .output()
        .ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    version
        .trim()
        .strip_prefix("go1.")?
        .split('.')
        .next()?
        .parse()
        .ok()
}

#[test]
fn opensearch_go_works_without_a_shim() {
    let minor = minor();
    if minor.is_none_or(|minor| minor < MINOR_MIN) {
        eprintln!("skipped: opensearch-go needs Go 1.{MINOR_MIN} or later, found 1.{minor:?}");
        return;
    }
    let program = target_dir().join("go-opensearch-4.5.0");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(root().join("tests/go"))
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("database"), &[]);
    let output = Command::new(program)
        .arg(server.address.port().to_string())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    server.stop();
}
