//! Real clients for Java, unchanged, from Maven Central: opensearch-java and the high-level REST
//! client.

use crate::quire::{Server, root, target_dir};
use std::path::PathBuf;
use std::process::Command;

/// The directory with the packages that `tests/java/pom.xml` names, which later runs find.
fn packages() -> PathBuf {
    let pom = root().join("tests/java/pom.xml");
    let dir = target_dir().join("java-opensearch-2.24.0-2.19.1");
    if !dir.join("opensearch-java-2.24.0.jar").exists() {
        maven(&[
            "dependency:copy-dependencies",
            &format!("--file={}", pom.display()),
            &format!("-DoutputDirectory={}", dir.display()),
        ]);
    }
    dir
}

/// Runs Maven.
#[track_caller]
pub(crate) fn maven(arguments: &[&str]) {
    run(Command::new("mvn")
        .args(["--quiet", "--batch-mode"])
        .args(arguments));
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

#[test]
fn clients_for_java_work_without_a_shim() {
    let (packages, dir) = (packages().join("*"), tempfile::tempdir().unwrap());
    let (sources, classes) = (root().join("tests/java"), dir.path().join("classes"));
    run(Command::new("javac")
        .arg("-classpath")
        .arg(&packages)
        .arg("-d")
        .arg(&classes)
        .args(
            ["Steps", "OpensearchJava", "HighLevelRestClient"]
                .map(|name| sources.join(name).with_extension("java")),
        ));
    let class_path = std::env::join_paths([&classes, &packages]).unwrap();
    let server = Server::start(&dir.path().join("database"), &[]);
    for program in ["OpensearchJava", "HighLevelRestClient"] {
        run(Command::new("java")
            .arg("-classpath")
            .arg(&class_path)
            .arg(program)
            .arg(server.address.port().to_string()));
    }
    server.stop();
}
