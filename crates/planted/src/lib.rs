//! Bugs that tests plant into the engine, to show that they would be found.
//!
//! Each [`Bug`] is a mistake that somebody could make, at the one place in the engine where it would be made:
//! `if !planted(Bug::LogChecksumUnchecked) && …`. Without the feature `on`, which tests alone switch on, [`planted`] is a
//! constant `false`, and nothing of a bug is compiled.

/// A mistake, planted at one place in the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// A block of the log is taken as it is, whatever its checksum.
    LogChecksumUnchecked,
    /// A block of a table is taken as it is, whatever its checksum.
    TableChecksumUnchecked,
    /// A manifest is taken as it is, whatever its checksum.
    ManifestChecksumUnchecked,
}

impl Bug {
    /// Every bug there is.
    pub const ALL: &[Bug] = &[
        Bug::LogChecksumUnchecked,
        Bug::TableChecksumUnchecked,
        Bug::ManifestChecksumUnchecked,
    ];
}

/// Whether this thread runs with this bug.
#[cfg(not(feature = "on"))]
#[inline(always)]
pub const fn planted(_bug: Bug) -> bool {
    false
}

#[cfg(feature = "on")]
pub use on::{Planted, plant, planted};

#[cfg(feature = "on")]
mod on {
    use super::Bug;
    use std::cell::Cell;

    thread_local! {
        /// A bit for each bug.
        static PLANTED: Cell<u64> = const { Cell::new(0) };
    }

    /// Whether this thread runs with this bug.
    #[inline]
    pub fn planted(bug: Bug) -> bool {
        PLANTED.get() & bit(bug) != 0
    }

    const fn bit(bug: Bug) -> u64 {
        1 << bug as u64
    }

    /// Plants a bug on this thread until the answer is dropped. Under simulation the whole engine runs on one thread.
    #[must_use = "the bug goes when this is dropped"]
    pub fn plant(bug: Bug) -> Planted {
        PLANTED.set(PLANTED.get() | bit(bug));
        Planted(bug)
    }

    /// Keeps a bug planted.
    #[derive(Debug)]
    pub struct Planted(Bug);

    impl Drop for Planted {
        fn drop(&mut self) {
            PLANTED.set(PLANTED.get() & !bit(self.0));
        }
    }
}
