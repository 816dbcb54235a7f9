//! Hands libFuzzer's inputs to the targets of `quire_tests::fuzz`, as the stable runner
//! (`tests/fuzz.rs`) does.

use quire_seeded::{Bug, seed_bug};

/// Runs a target on one input, with checksums unchecked where the input says so.
///
/// # Panics
/// If the target finds something wrong.
pub fn run(name: &str, input: &[u8]) {
    let target = quire_tests::fuzz::target(name);
    let bugs = [
        Bug::LogChecksumUnchecked,
        Bug::TableChecksumUnchecked,
        Bug::ManifestChecksumUnchecked,
        Bug::FrozenChecksumUnchecked,
    ];
    let _seeded = target.below_checksums(input).then(|| bugs.map(seed_bug));
    (target.run)(input);
}
