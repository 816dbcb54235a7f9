//! The items of a bulk body.

use super::action::Op;
use crate::documents::ack::Ack;
use crate::documents::source::Source as Shown;
use crate::http::failure::{Failure, Outcome};
use bytes::Bytes;
use quiredb::Condition;
use std::sync::Arc;

/// One item: an action, and its source.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) op: Op,
    pub(crate) index: Arc<str>,
    pub(crate) id: Option<String>,
    /// What must hold, or why the item can't be done.
    pub(crate) condition: Outcome<Condition>,
    pub(crate) retries: Option<u32>,
    /// Whether `index` must be an alias.
    pub(crate) requires_alias: bool,
    pub(crate) source: Source,
    /// Which part of an updated document the answer shows, if the item or the request says that.
    pub(crate) shows: Option<Arc<Shown>>,
}

/// What follows an action line.
#[derive(Debug)]
pub(crate) enum Source {
    /// Nothing: a delete.
    None,
    Text(Bytes),
    /// A line with this count of bytes, more than a document can have.
    TooLong(u64),
}

/// The outcome of an item.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) op: Op,
    pub(crate) index: Arc<str>,
    /// None if the item had none and got none.
    pub(crate) id: Option<String>,
    pub(crate) outcome: Outcome<Ack>,
    /// The part of an updated document that the answer shows, as JSON.
    pub(crate) shown: Option<Vec<u8>>,
}

/// The outcome of an item until it has another one. No client gets it, unless the database leaves
/// a result out.
pub(super) fn not_done() -> Failure {
    Failure::internal("the write was not answered")
}
