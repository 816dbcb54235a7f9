//! Fuzz targets: every decoder of bytes from a disk, a socket or a user gets bytes that are almost
//! right.
//!
//! A [`Target`] takes any bytes. It panics if the engine panics, gives a wrong answer, or decodes
//! something whose encoding does not decode to something equal. An error is a right answer. It has
//! no state: the same bytes do the same.
//!
//! Files have checksums, which almost no mutation passes. So the first byte of an input for one of
//! them is not part of the file: if it is odd, the caller seeds [the bugs](Target::below_checksums)
//! that leave checksums unchecked. Reads may then be wrong, but must not panic, hang, or allocate
//! without bound.
//!
//! A target returns a rough description of its path: inputs that take a new path are kept and
//! mutated further.

mod documents;
mod files;
mod frozen;
mod http;
mod load;
mod memcached;
mod mutate;
mod notes;
mod query;
pub mod run;

use std::hash::{DefaultHasher, Hash, Hasher};

/// One decoder, or a few related ones.
pub struct Target {
    /// Its name, and its folder's under `fuzz/corpus`.
    pub name: &'static str,
    /// Runs it on one input.
    pub run: fn(&[u8]) -> Way,
    /// Seed inputs, made by the code that writes such bytes.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Whether the first byte says that checksums go unchecked.
    pub has_checksums: bool,
    /// The most bytes that a run may hold at a time, on its own thread.
    pub bytes_max: usize,
}

impl Target {
    /// Whether this input is to be run with checksums unchecked.
    pub fn below_checksums(&self, input: &[u8]) -> bool {
        self.has_checksums && is_below_checksums(input)
    }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    documents::ENCODED,
    documents::JSON,
    documents::KEY,
    files::LOG,
    files::TABLE,
    files::MANIFEST,
    files::CATALOG,
    notes::SNAPSHOT,
    notes::SCRUB,
    http::BULK,
    http::BODIES,
    http::SEARCH,
    load::LOAD,
    memcached::MEMCACHED,
    query::QUERY,
    frozen::FROZEN,
];

/// The target of this name.
///
/// # Panics
/// If there is none.
pub fn target(name: &str) -> &'static Target {
    let mut targets = TARGETS.iter();
    targets
        .find(|target| target.name == name)
        .unwrap_or_else(|| panic!("no fuzz target {name:?}"))
}

/// A rough description of the path of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Way(pub u64);

impl Way {
    /// The path of a text, such as that of an error, without the numbers in it.
    fn of(text: &str) -> Way {
        let mut hasher = DefaultHasher::new();
        for byte in text.bytes().filter(|byte| !byte.is_ascii_digit()).take(200) {
            byte.hash(&mut hasher);
        }
        Way(hasher.finish())
    }

    /// The path of a result: its counts, roughly, or its error.
    fn of_result(result: &Result<u64, impl std::fmt::Display>) -> Way {
        match result {
            Ok(count) => {
                Way::of(&"+".repeat(count.checked_ilog2().map_or(1, |log| log as usize + 2)))
            }
            Err(error) => Way::of(&error.to_string()),
        }
    }

    fn and(self, other: Way) -> Way {
        let mut hasher = DefaultHasher::new();
        (self, other).hash(&mut hasher);
        Way(hasher.finish())
    }
}

fn is_below_checksums(input: &[u8]) -> bool {
    input.first().is_some_and(|byte| byte % 2 == 1)
}
