//! Real documents come back as they went in.

use super::*;
use std::path::PathBuf;

/// A shared corpus; none, with a word, where it is absent.
#[allow(
    clippy::disallowed_methods,
    reason = "test data lies outside the engine's Env"
)]
fn read(file: &str) -> Option<Vec<u8>> {
    let shared = std::env::var_os("QUIRE_SHARED").map(PathBuf::from);
    let shared = shared
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")));
    let path = shared.join("data").join(file);
    let read = std::fs::read(&path);
    if let Err(error) = &read {
        println!("skipped: {}: {error}", path.display());
    }
    read.ok()
}

fn check(file: &str) {
    let Some(corpus) = read(file) else { return };
    let mut documents = 0;
    for line in corpus
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let document = Document::from_json(line).unwrap();
        let text = document.to_json();
        // serde_json keeps the order of fields but not every number as written: those are compared
        // as texts.
        let theirs: serde_json::Value = serde_json::from_slice(line).unwrap();
        let ours: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(ours.to_string(), theirs.to_string());
        assert_eq!(numbers(&text), numbers(std::str::from_utf8(line).unwrap()));
        assert_eq!(Document::from_bytes(document.bytes()).unwrap(), document);
        check_accessors(&document);
        Key::from_value(document.get("_id").unwrap()).unwrap();
        documents += 1;
    }
    assert!(documents > 500, "{file} has {documents} documents");
}

#[test]
fn works_of_art_come_back_as_they_went_in() {
    check("tate-artworks.ndjson");
}

#[test]
fn papers_come_back_as_they_went_in() {
    check("arxiv-databases.ndjson");
}
