//! Documents by id: one, many, changed in part, and the changes of a collection.

pub(crate) mod ack;
mod batches;
pub(crate) mod by_query;
pub(crate) mod changes;
pub(crate) mod conditions;
mod found;
pub(crate) mod lookup;
pub(crate) mod mget;
pub(crate) mod one;
pub(crate) mod parse;
pub(crate) mod reindex;
pub(crate) mod resize;
pub(crate) mod rethrottle;
pub(crate) mod source;
pub(crate) mod tally;
pub(crate) mod update;
