//! Frozen partitions: documents in one immutable file, a `.quire` file, that is queried where it
//! lies.
//!
//! [`FrozenBuilder`] makes a file of documents, in one pass and in bounded memory. [`FrozenFile`]
//! opens it, in the same time whatever its size, and is a [`quire_query::Shard`]. [`FrozenFolder`]
//! keeps all files of a folder open, as one database.
//!
//! # What a file has
//! ```text
//! of each field    values, in order: each has a code         filterable and sortable
//!                  code → how many documents, and which      filterable; which: unless the next is as good for it
//!                  document → codes                          sortable; of few documents also filterable
//! of each document the document itself, a payload            in packed blocks
//! ```
//! Each of these is encoded as its own contents want it: see `column.rs`, `dictionary.rs` and
//! `set_view.rs` of the index, and `postings.rs` and `rows.rs` here. What all bytes are stands in
//! `docs/FORMAT.md`.
//!
//! # A file that changes while it is open
//! A file is made to be replaced by a rename, never written to: who has the old one open goes on
//! with it. If it is changed all the same, then with [`Access::Read`] sections that were touched
//! stay as they were, and what is touched later is an error. With [`Access::Map`], a file that was
//! cut ends the process when what is gone is touched: that is what memory maps are.

mod block_sink;
mod bounds;
mod builder;
mod codes;
mod column;
mod error;
mod file;
mod folder;
mod format;
mod gather;
mod inspect;
mod le;
mod merge;
mod merged_fields;
mod options;
mod partition;
mod postings;
mod prefix;
mod rows;
mod sections;
mod select;
mod shard;
mod snapshot;
mod spool;
mod table;
mod zone_maps;

pub use builder::FrozenBuilder;
pub use error::{Error, ErrorKind, Result};
pub use file::{FrozenFile, OpenOptions};
pub use folder::{Failure, FolderOptions, FrozenFolder, Refreshed, Watch};
pub use inspect::{FieldInspection, Inspection, RowsInspection};
pub use options::{FieldSpec, FrozenOptions};
pub use quire_pack::Codec;
pub use rows::ROW_BYTES_MAX;
pub use sections::Access;
pub use snapshot::Snapshot;

#[cfg(test)]
mod tests;
