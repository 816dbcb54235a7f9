//! From a topic of changes to many sinks: batched, retried, tuned, with durable positions.
//!
//! A [`Source`] is what can be read by many: a collection's log, a collection of a server, files.
//! Each sink has a lane of its own, with a [`Topic`], a reader of that source. The lane cuts the
//! changes into bulks, sends several at once to its [`Sink`], and stores how far the sink is.
//!
//! # Invariants
//! 1. **Nothing is lost.** A stored position is after what a sink acknowledged, or what is durable
//!    among its dead letters with the reason.
//! 2. **Nothing is there twice.** What is sent again carries the version that it had (search
//!    servers), replaces the same document in order (Quire), or is cut off by the stored length
//!    (files).
//! 3. **The changes of a key arrive in order**, whatever is sent again.
//! 4. **Memory is bounded**, whatever the backlog, and a slow sink holds up no other.
//!
//! ```
//! use quire_ship::{FileSink, FileSource, ShipOptions, Target, ship};
//! use quiredb::{Env, OsEnv};
//! use std::sync::Arc;
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path();
//! # std::fs::write(dir.join("in.ndjson"), "{\"_id\":1}\n{\"_id\":2}\n")?;
//!
//! let env: Arc<dyn Env> = OsEnv::new()?;
//! let source = FileSource::new(Arc::clone(&env), vec![dir.join("in.ndjson")], "_id");
//! let archive = Target {
//!     name: "archive".into(),
//!     sink: Arc::new(FileSink::lines(Arc::clone(&env), dir.join("out"), 1 << 30)),
//!     bulk_bytes: None,
//!     concurrency: None,
//!     dead_letters_max: 0,
//! };
//! let options = ShipOptions {
//!     state: dir.join("state"),
//!     once: true,
//!     report_every: std::time::Duration::from_secs(1),
//! };
//! let ends = ship(&env, &source, &[archive], &options, &|_| (), &|| false)?;
//! assert_eq!(ends[0].as_ref().unwrap().changes, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backoff;
mod batcher;
mod bulk_answer;
mod bulk_body;
mod bulk_sink;
mod change;
mod change_line;
mod checkpoint;
mod collection_place;
mod collection_source;
mod config;
mod dead_letters;
mod delays;
mod deliver;
mod document_config;
mod error;
mod fault;
mod file_rows;
mod file_sink;
mod file_source;
mod folder;
mod http;
mod http_source;
mod lane;
mod mapped_source;
mod mapping;
mod nearest;
mod object_fields;
#[cfg(feature = "parquet")]
mod parquet_file;
mod progress;
mod reindex;
mod reindex_config;
mod retry;
mod server_source;
mod ship;
mod sink;
mod template;
mod topic;
mod transform;
mod tuner;

pub use bulk_sink::{BulkOptions, BulkSink, Server};
pub use change::{Change, Cursor};
pub use change_line::key_text;
pub use checkpoint::Checkpoint;
pub use collection_source::CollectionSource;
pub use config::{OnLostPosition, PipeConfig, SinkConfig, SourceConfig};
pub use delays::Delays;
pub use document_config::{Cast, FieldsConfig, JoinConfig, JoinKind};
pub use error::{Error, Result};
pub use fault::Fault;
pub use file_sink::FileSink;
pub use file_source::FileSource;
pub use http::{Access, Answer, Body, Http};
pub use http_source::{HttpOptions, HttpSource};
pub use mapped_source::MappedSource;
pub use mapping::Mapping;
pub use nearest::suggestion;
pub use progress::Progress;
pub use reindex::{
    Difference, Place, Plan, PlannedChange, PlannedDisk, Reindex, ReindexEvent, ReindexStatus,
    Said, Step, Verification,
};
pub use reindex_config::ReindexConfig;
pub use retry::{Retried, retry};
pub use server_source::ServerSource;
pub use ship::{ShipOptions, Target, ship, status};
pub use sink::{Failure, Sink, Verdict};
pub use topic::{Source, Topic};
pub use tuner::Setting;
