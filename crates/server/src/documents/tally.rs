//! Writes are counted where they are done: see [`Usage`].

use quiredb::{Usage, Use, Using};

use super::ack::Ack;
use crate::http::failure::{Failure, Outcome};

/// Does a write of a collection, and counts it.
pub(crate) fn counted(
    usage: &Usage,
    what: Use,
    write: impl FnOnce() -> Outcome<Ack>,
) -> Outcome<Ack> {
    let using = usage.begin(what);
    let outcome = write();
    ended(usage, using, what, outcome.as_ref().copied());
    outcome
}

/// A write ends with this outcome. An update that changed nothing is no write.
pub(crate) fn ended(usage: &Usage, using: Using<'_>, what: Use, outcome: Result<Ack, &Failure>) {
    if is_done(usage, what, outcome) {
        using.end(1);
    }
}

/// Counts an outcome; returns whether something was written.
pub(crate) fn is_done(usage: &Usage, what: Use, outcome: Result<Ack, &Failure>) -> bool {
    match outcome {
        Ok(ack) => {
            usage.answered(ack.status().as_u16());
            if ack.is_noop() {
                usage.noop();
            }
            !ack.is_noop()
        }
        Err(failure) => {
            usage.answered(failure.status.as_u16());
            if what == Use::Index {
                usage.index_failed(1);
            }
            false
        }
    }
}
