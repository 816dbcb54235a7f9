//! Bad input of every kind, through the command line and over HTTP: the error says what is wrong,
//! where, and what to do; acknowledged writes stay; and the same server answers the next request.

mod damage;
mod directories;
mod disk;
mod documents;
mod half_bulk;
mod requests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Checks that a text has all of these words.
#[track_caller]
fn assert_says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:.3000}");
    }
}

/// Every file below a directory, with its bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false => drop(files.insert(path.clone(), std::fs::read(path).unwrap())),
        }
    }
    files
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp")
        .arg("-r")
        .args([from, to])
        .status()
        .unwrap();
    assert!(status.success());
}
