//! Frozen partitions: documents in one immutable file, a `.quire` file, which is queried in place.
//!
//! [`FrozenBuilder`] makes a file of documents, in one pass and in bounded memory. [`FrozenFile`]
//! opens it, in constant time, and is a [`quire_query::Shard`]. [`FrozenFolder`] keeps all files of
//! a folder open, as one database.
//!
//! # What a file has
//! ```text
//! of each field     values, in order: each has a code      filterable and sortable
//!                   code → how many documents, and which   filterable; which: unless the next line
//!                                                          serves as well
//!                   document → codes                       sortable; or filterable and of few
//!                                                          documents
//! of each document  the document itself, a payload         in packed blocks
//! ```
//! The encoding of each part is chosen by its content: see `column.rs`, `dictionary.rs` and
//! `set_view.rs` of the index, and `postings.rs` and `rows.rs` here. `docs/FORMAT.md` has every
//! byte.
//!
//! # A file that changes while it is open
//! A file is to be replaced by a rename, and never written to: a reader that has the old one open
//! keeps reading it. If it is changed all the same, then with [`Access::Read`] sections that were
//! loaded stay as they were, and loading a changed one is an error. With [`Access::Map`], reading a
//! page that was cut off kills the process (SIGBUS), as with any memory map.

mod block_sink;
mod bounds;
mod builder;
mod codes;
mod column;
mod documents;
mod error;
mod file;
mod flat;
mod folder;
mod folder_options;
mod format;
mod gather;
mod inspect;
mod le;
mod merge;
mod merged_fields;
mod open_field;
mod options;
mod partition;
mod path_map;
mod postings;
mod prefix;
mod rows;
mod sections;
mod select;
mod shapes;
mod shard;
mod snapshot;
mod spool;
mod table;
mod top;
mod value_directory;
mod zone_maps;

pub use builder::FrozenBuilder;
pub use error::{Error, ErrorKind, Result};
pub use file::{FrozenFile, OpenOptions};
pub use folder::{Failure, FrozenFolder, Refreshed, Watch};
pub use folder_options::FolderOptions;
pub use inspect::{FieldInspection, Inspection, RowsInspection};
pub use options::{FieldSpec, FrozenOptions};
pub use quire_pack::Codec;
pub use rows::ROW_BYTES_MAX;
pub use sections::Access;
pub use snapshot::Snapshot;

#[cfg(test)]
mod tests;
