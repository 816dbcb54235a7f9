//! A durable state machine: a log, the trees that are its view, and the manifest that says where
//! they agree.
//!
//! A write is decided against the newest state, appended to the log as one group of records, and
//! applied to the trees' memtables; it becomes visible to views when it is as durable as its writer
//! said. A flush writes the memtables out as table files and then a manifest that names them
//! together with the one position at which all trees agree. Opening reads the manifest and applies
//! the log from that position on: there is no other write-ahead log, and nothing in the trees that
//! the log could not give again.
//!
//! What the records mean is the [`Machine`]'s business; this crate never looks inside. Beside the
//! trees that it writes there can be trees that are derived from them in the background, added and
//! dropped while the store is open: see [`DerivedTrees`].

mod admission;
mod any_store;
mod capture;
mod capture_all;
mod change_trees;
mod damaged;
mod dead_space;
mod delays;
mod derived;
mod deriver;
mod durability;
mod error;
mod flush;
mod follow;
mod fork;
mod ingest;
mod inspect;
mod load;
mod log_compaction;
mod log_copy;
mod log_holds;
mod machine;
mod manifest;
mod named_tables;
mod open;
mod options;
mod place;
mod publish;
mod read;
mod rebuilt;
mod reclaim;
mod relief;
mod salvage;
mod sealed;
mod sealing;
mod segment_age;
mod shared;
mod ship;
mod space;
mod stats;
mod store;
mod trees;
mod verify;
mod view;
mod write;

#[cfg(test)]
mod tests;

pub use any_store::{AnyStore, BegunCapture, WriterHeld};
pub use capture::{Capture, FileCopy, FileName, Pieces, move_manifest};
pub use capture_all::capture;
pub use damaged::{DamageReport, WeakStore, is_damage};
pub use delays::{DELAY_BOUNDS_MICROS, Delays};
pub use derived::{DerivedTrees, Difference, TreeBatch};
pub use durability::Durability;
pub use error::{Error, ErrorKind, Result};
pub use fork::ForkPlace;
pub use inspect::{FileInspection, Inspected, StoreFile};
pub use log_copy::LogCopy;
pub use log_holds::LogHold;
pub use machine::{ApplyError, Machine, TreeWriter};
pub use named_tables::{NamedTable, named_tables};
pub use options::{LogSettings, StoreOptions};
pub use place::Place;
pub use rebuilt::Rebuilt;
pub use salvage::{
    DamagedTable, Salvage, Salvaged, SalvagedParts, SalvagedTrees, identities, salvage,
};
pub use sealed::{seal, unseal};
pub use shared::Shared;
pub use ship::{LogExtent, Shipped};
pub use stats::StoreStats;
pub use store::Store;
pub use trees::{TreeFigures, TreeId, TreeState};
pub use verify::{Damage, Verified, verify};
pub use view::{BaseView, LogRecords, PointView, TreeSnapshots, View};
pub use write::Transaction;

pub use quire_log::{Codec, Dealt, LogOptions};
