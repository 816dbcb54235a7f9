//! Fuzz targets: every decoder of bytes from a disk, a socket or a user, fed with bytes that are
//! almost right.
//!
//! A [`Target`] takes any bytes. It panics if the engine panics, gives a wrong answer, or decodes
//! what does not encode again to something equal; an error is a right answer. It holds no state:
//! the same bytes do the same.
//!
//! Files have checksums, which a mutation almost never passes. So the first byte of an input for
//! one of them is no part of the file: where it is odd, whoever runs the target seeds [the
//! bugs](Target::below_checksums) that leave checksums unchecked. What is read then may be wrong;
//! it must not panic, hang, or allocate without bound.
//!
//! What a target returns stands for the way it went, roughly: inputs that go a new way are kept and
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

/// One decoder, or a few that belong together.
pub struct Target {
    /// Its name, and its folder's under `fuzz/corpus`.
    pub name: &'static str,
    /// Runs it on one input.
    pub run: fn(&[u8]) -> Way,
    /// Inputs to begin with, made by the code that writes such bytes.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Whether the first byte says that checksums go unchecked.
    pub has_checksums: bool,
    /// What a run may allocate at most at one time, in bytes, on its own thread.
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

/// Stands for the way that a run went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Way(pub u64);

impl Way {
    /// The way of a text, such as an error's, whatever the numbers in it.
    fn of(text: &str) -> Way {
        let mut hasher = DefaultHasher::new();
        for byte in text.bytes().filter(|byte| !byte.is_ascii_digit()).take(200) {
            byte.hash(&mut hasher);
        }
        Way(hasher.finish())
    }

    /// The way of a result: what it counts, roughly, or its error.
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
