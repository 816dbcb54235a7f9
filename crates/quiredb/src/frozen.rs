//! Frozen partitions: immutable files of documents, made by
//! [`operations::freeze`](crate::operations::freeze()) or document by document, and folders of them
//! that are queried as one.

pub use quire_frozen::{
    Access, Codec, Error, ErrorKind, Failure, FieldInspection, FieldSpec, FolderOptions,
    FrozenBuilder, FrozenFile, FrozenFolder, FrozenOptions, Inspection, OpenOptions, Refreshed,
    Result, RowsInspection, Snapshot, Watch,
};
