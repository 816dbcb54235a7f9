//! From a source of documents to durable partitions, in bounded memory.
//!
//! ```text
//!              source batches        parsed batches              parts, one queue a writer
//!   reader ──────────────► parsers ─────────────────► coordinator ─────────────► writers
//!      ▲                                                │     ▲                     │
//!      └──────────── room in flight ◄───────────────────┘     └─────────────────────┘
//!                       (bytes)                                      written
//! ```
//!
//! The reader cuts each [`Input`] into batches of whole documents. Parsers turn them into writes,
//! and group these by partition. The coordinator puts the batches back in order and gives each
//! partition's groups to its writer. A writer writes the groups in its queue with one sync. The
//! coordinator acknowledges batches in the order of the inputs, each with the [`SourcePosition`]
//! from which a later run can resume.
//!
//! A program that has writes of its own uses the last two stages alone: [`Grouper`] and
//! [`write_groups`].
//!
//! # Invariants
//! 1. The documents of one key are written in the order of the inputs, so the last one wins.
//! 2. [`Progress`] counts a prefix of the inputs: all of it is as durable as
//!    [`Options::durability`] says.
//! 3. The bytes in flight are bounded ([`Options::in_flight_bytes_max`]), and so is a document.
//! 4. A bad document never takes a good one with it: all documents before it are written, and if
//!    it is skipped, all after it.
//!
//! ```
//! use quire_pipeline::{Format, Input, Options, load};
//! use quiredb::{CollectionSettings, Database, Key, SimEnv, Volumes};
//!
//! let env = SimEnv::new(1);
//! let database = Database::builder("/db").env(env.clone()).open()?;
//! let jobs = database.create_collection("jobs", CollectionSettings::default())?;
//! let text = "{\"_id\":1}\n{\"_id\":2}\n";
//! let input = Input::new("two jobs", Format::Ndjson, || Ok(Box::new(text.as_bytes())));
//!
//! let summary = load(&jobs, &*env, vec![input], &Options::default(), &mut |_| Ok(()));
//! assert!(summary.stopped.is_none());
//! assert_eq!(summary.progress.documents, 2);
//! assert_eq!(summary.progress.position.byte, text.len() as u64);
//! assert!(jobs.get(&Key::from(2))?.is_some());
//! # Ok::<(), quiredb::Error>(())
//! ```

mod batch;
mod csv;
mod csv_types;
mod documents;
mod error;
mod group;
mod in_flight;
mod input;
mod keyed_line;
mod ledger;
mod made_keys;
mod ndjson;
mod options;
mod parquet;
mod parse;
mod position;
mod progress;
mod read;
mod run;
mod sink;
mod source;
mod target;
mod wide_target;

pub use csv_types::{CellType, ColumnTypes, CsvColumn, CsvOptions};
pub use documents::documents_of;
pub use error::{BadDocument, Error};
pub use group::{Grouper, PartitionGroup};
pub use input::{Format, Input};
pub use keyed_line::{Beside, KEY, write_line};
pub use made_keys::MadeKeys;
pub use options::{OnBad, Options};
pub use parquet::ParquetOptions;
pub use position::SourcePosition;
pub use progress::{Event, Observe, Progress, Summary};
pub use run::load;
pub use sink::write_groups;
pub use target::{Outcomes, Target};
