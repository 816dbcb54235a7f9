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
mod changes;
mod check;
mod column;
mod column_blocks;
mod column_changes;
mod column_merger;
mod error;
mod estimate;
mod field_ends;
mod field_figures;
mod field_set;
mod fields;
mod followed;
mod followed_columns;
mod id_value;
mod indexed_fields;
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
mod partition_index;
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
mod view;
mod with_key;

pub use changed::Change;
pub use changes::{IndexChanges, IndexTrees};
pub use error::{Error, Result};
pub(crate) use field_set::{Exceptions, FieldSet};
pub use fields::{FieldFigures, FieldType, Fields};
pub use id_value::id_value;
pub use indexed_fields::IndexedFields;
pub use indexer::ID;
pub(crate) use indexer::Indexer;
pub use partition_index::{IndexFigures, PartitionIndexes, ViewOf};
pub use shard::LiveShard;
pub use state::{IndexSettings, SearchState, SearchTree};
pub use view::{IndexedView, SeeDocument, ViewIndexes};
pub use with_key::with_key;
