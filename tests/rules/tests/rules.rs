//! The sources keep the rules.

#![allow(
    clippy::disallowed_methods,
    reason = "tests read files of the real machine"
)]

use quire_rules::modules::ModuleGraph;
use quire_rules::{files, root, text};

/// Arrows of the module graph that stand although they close a circle: the crate, the module, the
/// one that it knows, the reason. Crates in [`WITHOUT_CIRCLES`] have none.
const EXCEPTIONS: &[(&str, &str, &str, &str)] = &[];
const EXCEPTIONS_MAX: usize = 12;
const WITHOUT_CIRCLES: &[&str] = &["log", "lsm", "store", "query"];

/// Words that a file may use all the same: what its name begins with, the words, the reason.
const ALLOWED: &[(&str, &[&str], &str)] = &[
    (
        "crates/server/",
        &["touch", "touched", "touches"],
        "memcached's command",
    ),
    (
        "tests/it/memcached",
        &["touch", "touched", "touches"],
        "memcached's command",
    ),
    (
        "tests/src/fuzz/memcached.rs",
        &["touch"],
        "memcached's command",
    ),
    (
        "crates/server/src/search/aggregations/",
        &["ranks"],
        "an aggregation of OpenSearch",
    ),
    (
        "crates/server/tests/it/aggregations.rs",
        &["ranks"],
        "an aggregation of OpenSearch",
    ),
    (
        "docs/SERVING.md",
        &["ranks"],
        "an aggregation of OpenSearch",
    ),
    ("docs/MEMCACHED.md", &["touch"], "memcached's command"),
    (
        "crates/query/src/text/tokens.rs",
        &["span"],
        "a name of sqlparser",
    ),
    (
        "crates/cli/src/logging.rs",
        &["span", "spans"],
        "names of tracing",
    ),
];

#[test]
fn modules_of_a_crate_know_each_other_in_one_direction() {
    let mut wrong = Vec::new();
    for folder in root().join("crates").read_dir().unwrap() {
        let folder = folder.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap();
        let mut graph = ModuleGraph::of_crate(&folder).unwrap();
        for (_, from, to, _) in EXCEPTIONS.iter().filter(|row| row.0 == name) {
            assert!(
                graph.remove(from, to),
                "{name}: {from} no longer knows {to}: unlist it"
            );
        }
        for circle in graph.circles() {
            for module in &circle {
                let known = graph.knows(module, &circle).join(", ");
                wrong.push(format!("{name}: {module} knows {known}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "modules in circles:\n{}",
        wrong.join("\n")
    );
    assert!(EXCEPTIONS.len() <= EXCEPTIONS_MAX);
    assert!(
        EXCEPTIONS
            .iter()
            .all(|row| !WITHOUT_CIRCLES.contains(&row.0))
    );
}

#[test]
fn no_line_of_rust_is_wider_than_the_screen() {
    let mut wrong = Vec::new();
    for file in files(&root(), "rs").unwrap() {
        let text = std::fs::read_to_string(&file).unwrap();
        for finding in text::wide_lines(&text, text::RUST_COLUMNS_MAX) {
            wrong.push(format!(
                "{}:{}: {}",
                file.display(),
                finding.line,
                finding.what
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} lines:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn text_uses_the_words_of_the_field() {
    let mut wrong = Vec::new();
    let root = root().canonicalize().unwrap();
    let mut sources = files(&root, "rs").unwrap();
    sources.extend(files(&root, "md").unwrap());
    for file in sources {
        let below = file.strip_prefix(&root).unwrap().display().to_string();
        let rows = ALLOWED.iter().filter(|(name, ..)| below.starts_with(name));
        let allowed: Vec<&str> = rows
            .flat_map(|(_, words, _)| words.iter().copied())
            .collect();
        if below == "CHANGELOG.md" || below.starts_with("tests/rules/") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        for finding in text::unused_words(&text, &allowed) {
            wrong.push(format!("{below}:{}: {}", finding.line, finding.what));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} places:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
