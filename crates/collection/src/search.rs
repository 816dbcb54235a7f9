//! The search index of a live partition: for every field and value, the documents that have it.
//!
//! ```text
//!  document ──► each_entry: (field, value) pairs ──► Inversion: which docids leave and enter each
//!                                                    │           posting of a batch of documents
//!                                                    ▼
//!  query::Leaf ──► LiveShard ◄── postings by key: field, value, cluster of 65,536 docids
//! ```
//!
//! The index is at a position of its own, at or behind the partition's. A [`LiveShard`] takes the
//! documents that changed since out of every posting, and tests them directly: an answer is that of
//! the partition's position, however far behind the index is.

mod column;
mod entries;
mod fields;
mod index;
mod inversion;
mod key;
mod merger;
mod postings;
mod shard;
#[cfg(test)]
mod tests;
mod tree_postings;

pub use fields::IndexedFields;
pub(crate) use index::{SEARCH, SearchIndex};
pub(crate) use shard::{Columns, Documents, LiveShard};
