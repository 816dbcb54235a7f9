//! The README and the pages of `docs/` work as written: commands, links, pictures, widths.
//!
//! A page's ```sh blocks are one session: `bash -e` in an empty directory, with `quire` on the
//! path. Blocks of other kinds (```text, ```python, …) are shown, not run.

use crate::quire::{binary, root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// No line of Markdown is wider.
const COLUMNS_MAX: usize = 160;

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

/// The Markdown files of a folder and of those in it.
fn add_pages(dir: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_pages(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}

fn pages() -> Vec<PathBuf> {
    let names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let mut pages: Vec<_> = names.iter().map(|name| root().join(name)).collect();
    add_pages(&root().join("docs"), &mut pages);
    pages.sort();
    pages
}

/// A page's name from the root of the repository.
fn name(page: &Path) -> &str {
    page.strip_prefix(root()).unwrap().to_str().unwrap()
}

/// The targets of the links and pictures of a page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://") && !target.contains(char::is_whitespace))
}

/// What a heading is called in links: `## Cold reads` is `cold-reads`.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|char| char.is_alphanumeric() || [' ', '-', '_'].contains(char))
        .map(|char| if char == ' ' { '-' } else { char })
        .collect()
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
    let mut broken = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for target in links(&text) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let has_heading = |path: &Path| {
                let text = std::fs::read_to_string(path).unwrap();
                text.lines()
                    .any(|line| line.starts_with('#') && anchor(line) == heading)
            };
            if !path.exists() || !heading.is_empty() && !has_heading(&path) {
                broken.push(format!("{}: {target}", name(&page)));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new(), "these links lead nowhere");
}

#[test]
fn the_table_of_contents_has_every_page_of_docs() {
    let summary = root().join("docs/SUMMARY.md");
    let text = std::fs::read_to_string(&summary).unwrap();
    let listed: BTreeSet<_> = links(&text)
        .map(|link| root().join("docs").join(link))
        .collect();
    let mut pages = Vec::new();
    add_pages(&root().join("docs"), &mut pages);
    for page in pages.iter().filter(|page| **page != summary) {
        assert!(
            listed.contains(page),
            "docs/SUMMARY.md does not list {}",
            name(page)
        );
    }
}

#[test]
fn lines_of_markdown_are_at_most_160_columns() {
    let mut wide = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX {
                wide.push(format!("{}:{}: {columns}", name(&page), index + 1));
            }
        }
    }
    assert_eq!(wide, Vec::<String>::new(), "these lines are wider");
}

#[test]
fn plots_tables_and_diagrams_are_what_their_scripts_make() {
    for script in ["scripts/plots.py", "scripts/diagrams.py"] {
        let output = Command::new("python3")
            .args([script, "--check"])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "run {script}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
