//! The seam to where changes go: [`Sink`].

use crate::change::Change;
use serde_json::Value;
use std::fmt;

/// What became of one change of a bulk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The sink has it.
    Done,
    /// The sink has it already, or a later one of the same document.
    Had,
    /// The sink has no room for it at the moment: send it again.
    Again(String),
    /// The sink will never take it.
    Refused(String),
}

/// Why nothing is known of a whole bulk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The sink rejects for lack of room: send less.
    Busy(String),
    /// No answer, half an answer, or none that can be read. The changes may have been applied.
    NoAnswer(String),
    /// The bulk is too large for the sink.
    TooLarge(String),
    /// The sink takes nothing of the bulk because of one or more changes in it.
    Refused(String),
    /// Another attempt would not help.
    Final(String),
}

impl Failure {
    /// Of files here: it may work later.
    pub(crate) fn of_machine(error: quire_env::Error) -> Failure {
        Failure::NoAnswer(error.to_string())
    }

    /// What the sink said, or why it said nothing.
    pub fn reason(&self) -> &str {
        match self {
            Failure::Busy(why)
            | Failure::NoAnswer(why)
            | Failure::TooLarge(why)
            | Failure::Refused(why)
            | Failure::Final(why) => why,
        }
    }
}

/// Takes bulks of changes. A change may come twice, and never before an earlier one of its key.
pub trait Sink: Send + Sync + fmt::Debug {
    /// Sends a bulk once. Returns a verdict of each change. No two changes have one key.
    ///
    /// # Errors
    /// If nothing is known of any of them.
    fn send(&self, bulk: &[&Change]) -> Result<Vec<Verdict>, Failure>;

    /// The most bulks that it takes at once.
    fn concurrency_max(&self) -> usize;

    /// Sets it to what it was when `mark` was made; none at the first start.
    ///
    /// # Errors
    /// If it does not answer, or does not fit.
    fn begin(&self, mark: Option<&Value>) -> Result<(), Failure>;

    /// What is stored with the cursor after the last bulk, and given to [`begin`](Sink::begin) at
    /// the next start. A sink whose mark changes with each bulk takes one at a time.
    fn mark(&self) -> Option<Value> {
        None
    }

    /// Makes durable what it took. The cursor is stored only after that.
    ///
    /// # Errors
    /// If that fails. The cursor then stays.
    fn sync(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// The cursor with this mark is stored: what only an earlier mark needs can go.
    ///
    /// # Errors
    /// If that fails. The run then ends.
    fn stored(&self, _mark: Option<&Value>) -> Result<(), Failure> {
        Ok(())
    }

    /// Makes everything visible to readers, at the end of a run.
    ///
    /// # Errors
    /// If that fails.
    fn finish(&self) -> Result<(), Failure> {
        Ok(())
    }
}
