//! `bench/` and `fuzz/` are workspaces with lock files of their own. All packages that the crates
//! are built from must be in those too, because the commands use the lock files as they are.

use crate::crate_graph::metadata;
use crate::quire::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

type Names = BTreeSet<String>;

/// For each crate here, the packages that it always needs, and those that it may need.
fn needs() -> BTreeMap<String, (Names, Names)> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let name = |one: &Value| one["name"].as_str().unwrap().to_string();
    packages
        .map(|package| {
            let all = package["dependencies"].as_array().unwrap();
            let built_from = || all.iter().filter(|one| one["kind"] != "dev");
            let always = built_from().filter(|one| one["optional"] == false);
            let needs = (always.map(name).collect(), built_from().map(name).collect());
            (name(package), needs)
        })
        .collect()
}

/// The packages that a lock file lists for each package.
fn locked(text: &str) -> BTreeMap<String, Names> {
    let mut packages = BTreeMap::new();
    for package in text.split("[[package]]").skip(1) {
        let (head, listed) = package
            .split_once("dependencies = [")
            .unwrap_or((package, ""));
        let name = head.lines().find_map(|line| line.strip_prefix("name = "));
        let listed = listed.lines().take_while(|line| *line != "]");
        // A name, and its version where several are locked.
        let word = |line: &str| {
            line.trim_matches([' ', '"', ','])
                .split(' ')
                .next()
                .map(str::to_string)
        };
        let listed = listed.filter_map(word).filter(|word| !word.is_empty());
        packages.insert(
            name.unwrap().trim_matches('"').to_string(),
            listed.collect(),
        );
    }
    packages
}

#[test]
fn lock_files_of_other_workspaces_are_in_step() {
    let needs = needs();
    for folder in ["bench", "fuzz"] {
        let text = std::fs::read_to_string(root().join(folder).join("Cargo.lock")).unwrap();
        let mut seen = 0;
        for (name, locked) in locked(&text) {
            let Some((always, maybe)) = needs.get(&name) else {
                continue;
            };
            let lost: Vec<_> = always
                .difference(&locked)
                .chain(locked.difference(maybe))
                .collect();
            assert!(
                lost.is_empty(),
                "{folder}/Cargo.lock is behind: {name} and {lost:?}; `cargo update --workspace` \
                 in {folder}/ brings it up"
            );
            seen += 1;
        }
        assert!(seen > 5, "{folder}: {seen} crates");
    }
}
