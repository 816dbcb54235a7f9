//! What an index is made of, in memory. No I/O.
//!
//! - [`DocSet`]: a set of docids, for what a predicate matches.
//! - [`term`]: a scalar value as bytes whose order and equality are those of filters.

mod doc_set;
pub mod term;

pub use doc_set::{DocSet, Iter, Ranges};
