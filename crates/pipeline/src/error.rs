//! Why a pipeline stops, and what a bad document is.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Why a pipeline stopped before the end of its inputs. What was acknowledged stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A bad document, and the policy is [`OnBad::Stop`](crate::OnBad::Stop).
    #[error("{0}")]
    Bad(BadDocument),
    /// One bad document more than [`OnBad::Skip`](crate::OnBad::Skip) allows.
    #[error("{last}; more than {max} bad documents")]
    TooManyBad {
        /// How many may be skipped.
        max: u64,
        /// The one after these.
        last: BadDocument,
    },
    /// An input can't be read.
    #[error("cannot read {name}")]
    Input {
        /// The name of the input.
        name: Arc<str>,
        /// Why.
        source: io::Error,
    },
    /// The database failed, or refused a write for another reason than its document.
    #[error("cannot write")]
    Database(#[source] quiredb::Error),
    /// The observer returned an error.
    #[error("cannot report progress")]
    Observer(#[source] io::Error),
    /// A thread can't be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// A thread of the pipeline, which is named, panicked: a bug in Quire.
    #[error("the {0} thread panicked; this is a bug in Quire")]
    Panicked(&'static str),
}

/// A document that can't be written: where it is, and why. It is shown as `input:line: reason`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadDocument {
    /// The name of the input.
    pub input: Arc<str>,
    /// The line where it starts, from 1.
    pub line: u64,
    /// The offset in the input where it starts, in bytes.
    pub byte: u64,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for BadDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.input, self.line, self.reason)
    }
}

/// The reason that a bad document gets from a refusal of the database: the message of the error,
/// then each of its causes that is not quoted in it.
pub(crate) fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = cause.source();
    }
    text
}
