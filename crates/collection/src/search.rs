//! The search index of a live partition: for every field and value, the documents that have it.
//!
//! ```text
//!  document ──► Indexer: Values, field by field ──► Inversion: which docids leave and enter each
//!                                                    │          posting of a batch of documents
//!                                                    ▼
//!  query::Leaf ──► LiveShard ◄── postings by key: field, value, cluster of 65,536 docids
//! ```
//!
//! The index is at a position of its own, at or behind the partition's. A [`LiveShard`] takes the
//! documents that changed since out of every posting, and tests them directly: an answer is that of
//! the partition's position, however far behind the index is.

mod ahead;
mod by_lot;
mod cached_changes;
mod changed;
mod column;
mod column_blocks;
mod column_changes;
mod column_merger;
mod estimate;
mod field_ends;
mod field_figures;
mod field_set;
mod fields;
mod followed;
mod followed_columns;
mod index;
mod indexer;
mod inversion;
mod key;
mod live_columns;
mod looked;
mod merger;
mod new_documents;
mod number;
mod number_column;
mod number_first;
mod number_sample;
mod postings;
mod sample;
mod segments;
mod shard;
mod shard_columns;
mod shard_followed;
mod shared_reads;
mod state;
mod term_column;
#[cfg(test)]
mod tests;
mod tree_postings;
mod values;

pub(crate) use cached_changes::CachedChanges;
pub(crate) use changed::{Change, Changed};
pub(crate) use column_blocks::{COLUMN_BLOCK_BITS, ColumnBlocks, FieldBlock, damaged};
pub(crate) use field_set::{
    Exceptions, FieldSet, add_listed_below, count_with_many, fields_with_many, is_listed,
    refused_fields,
};
pub use fields::IndexedFields;
pub(crate) use index::SearchIndex;
pub use indexer::ID;
pub(crate) use indexer::Indexer;
pub(crate) use key::{entry_words, is_of_list, term_hash};
pub(crate) use live_columns::LiveColumns;
pub(crate) use postings::each_pair;
pub use shard::LiveShard;
pub(crate) use shard::{ColumnsAt, Documents};
pub use state::IndexSettings;
pub(crate) use state::{SearchState, SearchTree, is_search_tree};
pub(crate) use tree_postings::tree_error;
pub(crate) use values::Values;
