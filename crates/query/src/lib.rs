//! Filters, orders and aggregates over shards of documents. No storage, no I/O.
//!
//! - [`Query`]: what is asked, said with [`find`] and [`field`].
//! - [`Shard`]: documents with indexes, and all that a query asks of them. A shard knows predicates on one field alone
//!   ([`Leaf`]); and, or, not, orders, pages and aggregates are made here.
//! - [`ModelShard`]: a shard in memory without any index, which others are tested against.
//!
//! # What values are
//! A document's values at a [`Path`] are the scalars that it reaches, through objects and arrays: a set, so what is there
//! twice counts once. They are compared as [terms](quire_index::term): 42 and 42.0 are equal, and null < booleans <
//! numbers < strings. Null is a value, which [`Filter::Exists`] and aggregates pass over.

mod error;
mod filter;
mod leaf;
mod model;
mod path;
mod prepared;
mod query;
mod shard;
mod tree;
mod value;

pub use error::{Error, ErrorKind, Result};
pub use filter::{Field, Filter, field};
pub use leaf::{Leaf, TermBounds, TermRange, Test};
pub use model::ModelShard;
pub use path::Path;
pub use prepared::Prepared;
pub use query::{Aggregate, Measure, Order, Query, find, find_all};
pub use shard::{Column, Cost, End, Estimate, FieldInfo, NO_RANK, Ranks, Shard, TermPair};
pub use tree::{DEPTH_MAX, IN_VALUES_MAX, PREDICATES_MAX};
pub use value::Value;
