//! Wide collections over HTTP: a document is a row, a field a column.
//!
//! # Invariants
//! 1. A route that wide collections do not have refuses them by name.
//! 2. A read of some fields reads no column group of others.

pub(crate) mod cells;
pub(crate) mod documents;
pub(crate) mod schema;

use quiredb::wide::{Condition, WideCollection};

use crate::engine::Engine;
use crate::http::failure::{Failure, Outcome};

/// The wide collection of this name, or of this alias, whose cells are read.
///
/// # Errors
/// As [`Engine::wide_collection`] and [`Engine::wide`].
pub(crate) fn to_read(engine: &Engine, name: &str) -> Outcome<WideCollection> {
    match engine.wide(name)? {
        Some(wide) => Ok(wide),
        None => engine.wide_collection(name),
    }
}

/// The wide collection of this name, or of this alias, whose cells are written.
///
/// # Errors
/// As [`Engine::wide_collection`] and [`Engine::wide_for_writes`].
pub(crate) fn to_write(engine: &Engine, name: &str) -> Outcome<WideCollection> {
    match engine.wide_for_writes(name)? {
        Some(wide) => Ok(wide),
        None => engine.wide_collection(name),
    }
}

/// The condition of a write, as wide collections have it.
///
/// # Errors
/// 400 for an external version.
pub(crate) fn condition_of(condition: quiredb::Condition) -> Outcome<Condition> {
    let condition = WideCollection::condition_of(condition);
    condition.map_err(|error| Failure::illegal_argument(error.to_string()))
}
