//! Every command in the README and in the pages of `docs/` works as written.
//!
//! A page's ```sh blocks are one session: `bash -e` in an empty directory, with `quire` on the
//! path. Blocks of other kinds (```text, ```python, …) are shown, not run.

use crate::quire::{binary, root};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The ```sh blocks of a page, one after another.
fn session(page: &Path) -> String {
    let text = std::fs::read_to_string(page).unwrap();
    let mut script = String::new();
    let mut inside = false;
    for line in text.lines() {
        match (inside, line.trim_end()) {
            (false, "```sh") => inside = true,
            (true, "```") => inside = false,
            (true, command) => {
                script.push_str(command);
                script.push('\n');
            }
            _ => {}
        }
    }
    assert!(!inside, "{}: a block without an end", page.display());
    script
}

fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

#[test]
fn every_command_in_the_documentation_works() {
    let mut sessions = 0;
    for page in pages() {
        let script = session(&page);
        if script.is_empty() {
            continue;
        }
        sessions += 1;
        println!("{}: {} lines", page.display(), script.lines().count());
        let dir = tempfile::tempdir().unwrap();
        let path = std::env::var("PATH").unwrap();
        let quire = binary().parent().unwrap().display().to_string();
        // A server that the page left running ends with its session.
        let script = format!(
            "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nset -x\n{script}"
        );
        let output = Command::new("bash")
            .args(["-c", &script])
            .current_dir(dir.path())
            .env("PATH", format!("{quire}:{path}"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{} ended with {}\n--- output\n{}\n--- commands and messages\n{}",
            page.display(),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert!(sessions > 0, "the README has commands to run");
}

#[test]
fn links_between_pages_lead_somewhere() {
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            let path = page.parent().unwrap().join(target);
            assert!(path.exists(), "{}: {target} is not there", page.display());
        }
    }
}
