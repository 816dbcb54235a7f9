//! Quire: a document database for large, ever-changing sets of documents.
//!
//! A [`Database`] is a directory of [`Collection`]s; a collection holds JSON [`Document`]s by
//! primary [`Key`], spread over partitions. Every write is a record in a partition's log, and its
//! position there is the document's version. Writes are durable when they are acknowledged, unless
//! asked otherwise ([`Durability`]); reads never wait for writes, and a [`View`] is one consistent
//! state.
//!
//! ```
//! use quiredb::{CollectionSettings, Database, Document, Key};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("library");
//!
//! let database = Database::open(&path)?;
//! let books = database.create_collection("books", CollectionSettings::default())?;
//! let book = Document::from_json(br#"{"_id":"moby-dick","title":"Moby-Dick; or, The Whale","year":1851}"#)?;
//! let written = books.put(&books.key_of(&book)?, &book)?;
//!
//! let found = books.get(&Key::parse("moby-dick")?)?.expect("it was just written");
//! assert_eq!(found.document, book);
//! assert_eq!(found.version, written.version);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backup;
mod catalog;
mod codec;
mod collection;
mod database;
mod error;
mod follow;
mod freeze;
mod frozen_view;
mod page;
mod rate_limiter;
mod read;
mod repair;
mod restore;
mod retention;
mod scrub;
mod settings;
mod stats;
mod tail;
mod verify;

#[cfg(test)]
mod tests;

pub use backup::{BackupOptions, BackupReport, PartitionPosition, SnapshotInfo, snapshots};
pub use codec::Codec;
pub use collection::Collection;
pub use database::Database;
pub use error::{Error, ErrorKind, Result};
pub use follow::{
    Applied, FollowerDir, Frame, Head, IncomingCopy, Lag, LeaderCopy, LeaderStream, Records,
    Replica,
};
pub use freeze::{FIELDS_MAX, FreezeOptions, FreezeProgress, FreezeReport};
pub use frozen_view::{FrozenDocument, FrozenView, Origin};
pub use page::{ID, Page};
pub use read::{Scan, View};
pub use repair::{LostKey, RepairEvent, RepairReport, repair};
pub use restore::{RestoreReport, restore};
pub use scrub::ScrubStats;
pub use settings::{CollectionSettings, Options};
pub use stats::{CollectionStats, DatabaseStats, FilterStats};
pub use tail::Tail;
pub use verify::{Damage, VerifyOptions, VerifyReport, verify, verify_with};

pub use quire_collection::{Action, Change, Condition, Effect, Found, Write, Written};
pub use quire_env::{Env, Gate, Medium, OsEnv, SimEnv, Volumes};
/// Frozen partitions, and what they are made with.
pub use quire_frozen as frozen;
/// Keys and values without documents: one ordered, durable tree in a directory of its own.
pub use quire_kv as kv;
pub use quire_model::{
    ArrayRef, DOCUMENT_BYTES_MAX, Document, KEY_BYTES_MAX, Key, ObjectRef, Position, ValueRef,
};
/// Filters, orders and aggregates, and what they are made with.
pub use quire_query as query;
pub use quire_store::{DELAY_BOUNDS_MICROS, Delays, Durability};
