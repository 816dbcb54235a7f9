//! Quire: a document database for large, ever-changing sets of documents.
//!
//! A [`Database`] is a directory of [`Collection`]s. A collection holds JSON [`Document`]s by
//! primary [`Key`], spread over partitions. Every write is a record in a partition's log, and its
//! position there is the document's version. A write is durable when it is acknowledged, unless
//! another [`Durability`] is chosen. Reads never wait for writes, and a [`View`] is one consistent
//! state.
//!
//! ```
//! use quiredb::{Database, Document, Key};
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("library");
//!
//! let database = Database::builder(&path).memory(64 << 20).open()?;
//! let books = database.collection_or_create("books", Default::default)?;
//! let book = Document::from_json(br#"{"_id":"moby-dick","title":"Moby-Dick","year":1851}"#)?;
//! let written = books.put(&book)?;
//!
//! let found = books.get(&Key::parse("moby-dick")?)?.expect("it was just written");
//! assert_eq!(found.document, book);
//! assert_eq!(found.version, written.version);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Documents can be values of your own types ([`Collection::put_as`], [`Collection::get_as`]):
//!
//! ```
//! use quiredb::{Database, Key};
//! use serde::{Deserialize, Serialize};
//! # let dir = tempfile::tempdir()?;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Book {
//!     #[serde(rename = "_id")]
//!     id: String,
//!     year: u16,
//! }
//!
//! let database = Database::open(dir.path())?;
//! let books = database.collection_or_create("books", Default::default)?;
//! books.write().if_absent().put_as(&Book { id: "emma".into(), year: 1815 })?;
//! let emma: Option<Book> = books.get_as(&Key::parse("emma")?)?;
//! assert_eq!(emma.expect("it was just written").year, 1815);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`query`] has what queries are made of, [`operations`] what is done with a database as a whole
//! (backup, verify, follow and others), [`frozen`] immutable files of documents, [`wide`] rows
//! of declared columns in column groups, [`coprocessor`] code that runs beside the data, and [`kv`]
//! keys and values without documents.

pub mod coprocessor;
pub mod frozen;
pub mod kv;
pub mod operations;
pub mod query;
pub mod wide;

pub use quire_collection::{
    Action, Change, Condition, Effect, Expiry, Found, Within, Write, Written,
};
pub use quire_database::{
    Alias, AliasChange, Aliases, ApiSettings, Batch, Codec, Collection, CollectionFields,
    CollectionSettings, CollectionStats, ColumnMoveStats, Damage, Database, DatabaseBuilder,
    DatabaseOptions, DatabaseStats, Error, ErrorKind, FieldKind, FieldStats, FieldType,
    FilterStats, FrozenCollection, GroupStats, ID, IndexStats, IndexedFields, IoStats, Logged,
    Mapping, MappingError, Opened, Page, PartitionsProgress, PartitionsStage, Resolved, Result,
    Scan, ScrubStats, Seen, Tail, Templates, TierStats, Usage, Use, UseFigures, Using, View,
    Violation, VolumeStats, WriteBuilder, WriteRates, check_name, expand_cursor, from_document,
    is_at_or_before, partition_of, to_document,
};
pub use quire_env::{
    AdmissionFigures, AdmissionLimits, Env, IoLimits, Medium, MergeLimits, OsEnv, SimEnv, Volumes,
};
pub use quire_model::{
    ArrayRef, DOCUMENT_BYTES_MAX, Document, KEY_BYTES_MAX, Key, ObjectRef, Position, ValueRef,
};
pub use quire_store::{DELAY_BOUNDS_MICROS, Delays, Durability};
