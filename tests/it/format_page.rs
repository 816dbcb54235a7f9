//! The table of files in `docs/FORMAT.md` states the magics and versions of the code.
//!
//! A format is known by a constant in the sources: `MAGIC`, or `KIND` or `NAME` of a sealed text
//! file. The `VERSION…` constants in the same file are the versions that are written and read.

use crate::quire::root;
use std::collections::BTreeMap;
use std::path::Path;

/// The newest version that is written, and the oldest one that is read.
type Versions = (u32, u32);

/// The rows of the table: `| file | begins with | newest version | oldest read | section |`.
fn page() -> BTreeMap<String, Versions> {
    let text = std::fs::read_to_string(root().join("docs/FORMAT.md")).unwrap();
    let mut formats = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [_, begins, newest, oldest, _] = cells.as_slice() else {
            continue;
        };
        let (Ok(newest), Ok(oldest)) = (newest.parse(), oldest.parse()) else {
            continue;
        };
        let begins = begins.trim_matches('`').to_owned();
        assert!(
            formats.insert(begins.clone(), (newest, oldest)).is_none(),
            "{begins} is in the table twice"
        );
    }
    formats
}

/// The text of a constant that names a format: `const MAGIC: [u8; 8] = *b"QUIRELOG";`.
fn name_of(line: &str) -> Option<&str> {
    let (before, value) = line.split_once(" = ")?;
    let name = before.split(':').next()?.rsplit(' ').next()?;
    let is_name = before.contains("const ") && ["MAGIC", "KIND", "NAME"].contains(&name);
    let text = value.trim_start_matches(['*', 'b', '&']);
    let text = text.strip_prefix('"')?.split('"').next()?;
    (is_name && (name == "MAGIC" || text.starts_with("quire-"))).then_some(text)
}

/// The number of a version constant: `const VERSION_MIN: u32 = 1;`.
fn version_of(line: &str) -> Option<u32> {
    let (before, value) = line.split_once(": u32 = ")?;
    let name = before.rsplit(' ').next()?;
    let is_version = before.contains("const ") && name.starts_with("VERSION");
    is_version.then(|| value.trim_end_matches(';').parse().ok())?
}

/// Every format of a source file below `dir`: what it begins with, and its versions.
fn collect(dir: &Path, formats: &mut BTreeMap<String, Versions>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, formats);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let versions: Vec<_> = text.lines().filter_map(version_of).collect();
            let range = versions.iter().max().zip(versions.iter().min());
            let name = text.lines().find_map(name_of);
            if let (Some(name), Some((newest, oldest))) = (name, range) {
                formats.insert(name.to_owned(), (*newest, *oldest));
            }
        }
    }
}

#[test]
fn versions_on_the_page_are_those_of_the_code() {
    let mut code = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        collect(&entry.unwrap().path().join("src"), &mut code);
    }
    let page = page();
    for (name, versions) in &page {
        assert_eq!(
            code.get(name),
            Some(versions),
            "docs/FORMAT.md states (newest, oldest read) of {name}; the code has the first of these"
        );
    }
    for name in code.keys() {
        assert!(
            page.contains_key(name),
            "{name} is a format of its own: describe it in docs/FORMAT.md, and add it to the table"
        );
    }
}

#[test]
fn formats_are_found_in_sources() {
    let found = |line| name_of(line);
    assert_eq!(
        found(r#"const MAGIC: [u8; 8] = *b"QUIRELOG";"#),
        Some("QUIRELOG")
    );
    assert_eq!(
        found(r#"const MAGIC: &[u8; 8] = b"QUIREMAN";"#),
        Some("QUIREMAN")
    );
    assert_eq!(
        found(r#"const KIND: &str = "quire-catalog";"#),
        Some("quire-catalog")
    );
    assert_eq!(found(r#"const NAME: &str = "other";"#), None);
    assert_eq!(version_of("pub(crate) const VERSION: u32 = 3;"), Some(3));
    assert_eq!(version_of("const VERSION_MIN: u32 = 1;"), Some(1));
    assert_eq!(version_of("const HELLO_VERSION: u32 = 1;"), None);
}
