//! The crates depend on each other as the table of floors in `docs/ARCHITECTURE.md` says.

use crate::quire::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

#[derive(Debug)]
struct Place {
    floor: u32,
    /// Crates of its own floor that it may use.
    also: BTreeSet<String>,
}

/// The rows of the table: `| floor | crate | what it is | may also use |`.
fn floors() -> BTreeMap<String, Place> {
    let text = std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).unwrap();
    let mut places = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [floor, name, _, also] = cells.as_slice() else {
            continue;
        };
        let Ok(floor) = floor.parse() else { continue };
        let also = quoted(also).collect();
        for name in quoted(name) {
            let known = places.insert(
                name.clone(),
                Place {
                    floor,
                    also: BTreeSet::clone(&also),
                },
            );
            assert!(known.is_none(), "{name} is in the table twice");
        }
    }
    places
}

/// The words between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = String> + '_ {
    cell.split('`').skip(1).step_by(2).map(str::to_string)
}

/// The packages of this workspace, as cargo describes them.
pub(crate) fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
            "--locked",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The folder under `crates/` of each package there, and the packages it is built from.
fn packages() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let crates = root().join("crates");
    let mut folders = BTreeMap::new();
    let mut uses = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let manifest = std::path::Path::new(package["manifest_path"].as_str().unwrap());
        let Ok(below) = manifest.strip_prefix(&crates) else {
            continue;
        };
        let folder = below.iter().next().unwrap().to_str().unwrap().to_string();
        folders.insert(
            package["name"].as_str().unwrap().to_string(),
            folder.clone(),
        );
        let dependencies = package["dependencies"].as_array().unwrap();
        let built_from = dependencies.iter().filter(|one| one["kind"] != "dev");
        uses.insert(
            folder,
            built_from
                .map(|one| one["name"].as_str().unwrap().to_string())
                .collect::<Vec<_>>(),
        );
    }
    uses.into_iter()
        .map(|(folder, names)| {
            (
                folder,
                names
                    .iter()
                    .filter_map(|name| folders.get(name).cloned())
                    .collect(),
            )
        })
        .collect()
}

#[test]
fn crates_use_lower_floors_only_but_for_the_exceptions_in_the_table() {
    let (floors, packages) = (floors(), packages());
    assert_eq!(
        floors.keys().collect::<Vec<_>>(),
        packages.keys().collect::<Vec<_>>(),
        "docs/ARCHITECTURE.md and crates/ name the same crates"
    );
    for (name, uses) in &packages {
        let place = &floors[name];
        for used in uses {
            let below = floors[used].floor < place.floor;
            assert!(
                below || place.also.contains(used),
                "{name} (floor {}) uses {used}",
                place.floor
            );
        }
        for also in &place.also {
            assert!(
                uses.contains(also),
                "{name} may use {also}, and does not: take it out of the table"
            );
        }
    }
}
