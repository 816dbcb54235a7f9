//! OpenSearch's own cases of its REST API, from Maven Central: how many pass, and that none is
//! answered otherwise without a reason.

use crate::java::maven;
use crate::python::{Client, python};
use crate::quire::{binary, root, target_dir};
use std::process::Command;

/// How many of the 1,434 cases pass at least.
const PASSED: u32 = 913;

#[test]
fn the_cases_of_opensearch_pass_or_are_refused() {
    let dir = target_dir().join("opensearch-rest-api-spec");
    let jar = dir.join("rest-api-spec-2.19.0.jar");
    if !jar.exists() {
        maven(&[
            "dependency:copy",
            "-Dartifact=org.opensearch:rest-api-spec:2.19.0",
            &format!("-DoutputDirectory={}", dir.display()),
        ]);
    }
    let yaml = Client {
        package: "PyYAML==6.0.3",
        module: "yaml",
    };
    let output = Command::new(python(&yaml))
        .arg(root().join("tests/rest/run.py"))
        .arg(binary())
        .arg(jar)
        .args(["--passed", &PASSED.to_string()])
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{printed}");
    assert!(output.status.success(), "{printed}");
}
