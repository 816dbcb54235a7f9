//! Real clients for Java, unchanged, from Maven Central: opensearch-java and the high-level REST
//! client.

use crate::quire::{Server, root, target_dir};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory with the packages that `tests/java/pom.xml` names, which later runs find.
fn packages() -> PathBuf {
    let pom = root().join("tests/java/pom.xml");
    let dir = target_dir().join("java-opensearch-2.24.0-2.19.1");
    if !dir.join("opensearch-java-2.24.0.jar").exists() {
        run(Command::new("mvn")
            .args(["--quiet", "--batch-mode", "dependency:copy-dependencies"])
            .arg("--file")
            .arg(pom)
            .arg(format!("-DoutputDirectory={}", dir.display())));
    }
    dir
}

#[track_caller]
fn run(command: &mut Command) {
    let needs =
        "this test needs a JDK and Maven (Debian: apt-get install default-jdk-headless maven)";
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; {needs}"));
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {printed}\n{needs}");
}

/// Compiles and runs a program against a server.
fn run_program(packages: &Path, program: &str, server: &Server) {
    run(Command::new("java")
        .arg("-classpath")
        .arg(packages.join("*"))
        .arg(root().join("tests/java").join(program))
        .arg(server.address.port().to_string()));
}

#[test]
fn clients_for_java_work_without_a_shim() {
    let packages = packages();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("database"), &[]);
    run_program(&packages, "OpensearchJava.java", &server);
    run_program(&packages, "HighLevelRestClient.java", &server);
    server.stop();
}
