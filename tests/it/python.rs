//! Real clients in Python, from PyPI, each in an environment of its own.

use crate::quire::{root, target_dir};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// A client: its package with the version tested, and the module it is imported as.
pub(crate) struct Client {
    pub(crate) package: &'static str,
    pub(crate) module: &'static str,
}

/// OpenSearch's client.
pub(crate) const OPENSEARCH: Client = Client {
    package: "opensearch-py==3.2.0",
    module: "opensearchpy",
};

/// A client of memcached.
pub(crate) const PYMEMCACHE: Client = Client {
    package: "pymemcache==4.0.0",
    module: "pymemcache",
};

/// A Python with the client, in an environment that later runs find.
pub(crate) fn python(client: &Client) -> PathBuf {
    // Tests of one client run at once: the first one makes its environment.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let environment = target_dir().join(client.package.replace("==", "-"));
    let python = environment.join("bin/python");
    let has_client = |python: &PathBuf| {
        let check = Command::new(python)
            .args(["-c", &format!("import {}", client.module)])
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
            client.package,
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

/// Runs a script of `tests/python`, which checks each of its steps.
#[track_caller]
pub(crate) fn check(client: &Client, script: &str, arguments: &[&str]) {
    let output = Command::new(python(client))
        .arg(root().join("tests/python").join(script))
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
