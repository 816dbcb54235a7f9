//! Wide collections over HTTP: a document is a row, a field a column.
//!
//! # Invariants
//! 1. A route that wide collections do not have refuses them by name.
//! 2. A read of some fields reads no column group of others.

pub(crate) mod cells;
pub(crate) mod documents;
pub(crate) mod schema;

use quiredb::ErrorKind;
use quiredb::wide::{Condition, WideCollection};

use crate::engine::Engine;
use crate::http::failure::{Failure, Outcome};

/// The wide collection of this name.
///
/// # Errors
/// 404 if there is no collection of this name; 400 if it is a plain one.
pub(crate) fn collection(engine: &Engine, name: &str) -> Outcome<WideCollection> {
    let opened = engine.database().wide_collection(name);
    opened.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::index_not_found(name),
        _ => Failure::engine(&error, Some(name)),
    })
}

/// The condition of a write, as wide collections have it.
///
/// # Errors
/// 400 for an external version.
pub(crate) fn condition_of(condition: quiredb::Condition) -> Outcome<Condition> {
    Ok(match condition {
        quiredb::Condition::Always => Condition::Always,
        quiredb::Condition::IfAbsent => Condition::IfAbsent,
        quiredb::Condition::IfVersion(version) => Condition::IfVersion(version),
        quiredb::Condition::External(_) | quiredb::Condition::ExternalOrEqual(_) => {
            return Err(Failure::illegal_argument(
                "rows of a wide collection have no external versions",
            ));
        }
    })
}
