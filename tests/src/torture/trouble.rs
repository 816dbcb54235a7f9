//! Why a round ends before its time.

use std::fmt::Display;

/// Why a round ends before its time.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// A promise was broken, or something that the round needs did not work: a failure of the run.
    #[error("{0}")]
    Failed(String),
    /// This machine can't do it.
    #[error("skipped: {0}")]
    Skipped(String),
    /// The run was stopped.
    #[error("stopped")]
    Stopped,
}

/// The result of a round, or of a part of one.
pub type Result<T> = std::result::Result<T, Trouble>;

/// Ends the round: a promise was broken.
pub(crate) fn failed<T>(what: impl Display) -> Result<T> {
    Err(Trouble::Failed(what.to_string()))
}

/// Adds what was being done to an error.
pub trait While<T> {
    /// `what` was being done.
    ///
    /// # Errors
    /// Always those of `self`, as [`Trouble::Failed`].
    fn during(self, what: impl Display) -> Result<T>;
}

impl<T, E: Display> While<T> for std::result::Result<T, E> {
    /// `what` was being done.
    ///
    /// # Errors
    /// Always those of `self`, as [`Trouble::Failed`].
    fn during(self, what: impl Display) -> Result<T> {
        self.map_err(|error| Trouble::Failed(format!("{what}: {error}")))
    }
}
