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
mod estimate;
mod field_figures;
mod fields;
mod index;
mod inversion;
mod key;
mod merger;
mod postings;
mod shard;
mod state;
#[cfg(test)]
mod tests;
mod tree_postings;

pub use entries::ID;
pub(crate) use entries::Indexer;
pub use fields::IndexedFields;
pub(crate) use index::SearchIndex;
pub(crate) use key::term_hash;
pub(crate) use postings::each_pair;
pub use shard::LiveShard;
pub(crate) use shard::{Changed, Documents};
pub use state::IndexSettings;
pub(crate) use state::{CachedChanges, SearchState, SearchTree, is_search_tree};
