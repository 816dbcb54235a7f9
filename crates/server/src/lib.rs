//! Server for Quire: the document part of the OpenSearch REST API over HTTP, and the memcached
//! protocol, so that existing clients and shippers work unchanged.
//!
//! [`serve()`] runs it on listeners; [`router`] and [`memcached()`] call it in process. What it
//! promises:
//!
//! 1. **An acknowledged write is seen.** A 2xx answer to a write means it is as durable as the
//!    collection's setting says, and every read that begins after it sees it; `refresh` changes
//!    nothing.
//! 2. **A document comes back as it went in**: every field, in its order, numbers as written.
//! 3. **What can't be honoured is refused by name**, with a 400: a parameter, a setting, a query, a
//!    script. Nothing is skipped silently, except what could not have changed an answer, such as
//!    the number of replicas.
//! 4. **Memory is bounded** whatever clients do: bodies and long answers share one bound
//!    ([`ServerOptions::buffer_bytes_max`]), bulk bodies are applied as they arrive, multi-get
//!    answers are made as they are read, connections are counted, and whoever neither sends nor
//!    reads is cut off.
//! 5. **The engine never runs on the threads that drive connections**: reads and writes have
//!    bounded sets of threads of their own, and each memcached connection has its own.
//!
//! Versions: `_version` and `_seq_no` are both the document's position in its partition's log,
//! `_primary_term` is 1. They grow with every write but are not dense, and those of documents in
//! different partitions can't be compared.
//!
//! ```no_run
//! use quire_server::{ServerOptions, bind, serve};
//! use quiredb::Database;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let database = Database::open("jobs.db")?;
//! let options = ServerOptions::default();
//! let listener = bind(&options).await?;
//! let interrupted = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
//! serve(database.clone(), listener, options, interrupted).await?;
//! database.close()?;
//! # Ok(())
//! # }
//! ```

mod admin;
mod bulk;
mod collections;
mod documents;
mod error;
mod follow;
mod http;
mod jobs;
mod memcached;
mod metrics;
mod net;
mod options;
mod routes;
mod search;
mod serve;
mod state;

pub use error::{Error, ErrorKind, Result};
pub use follow::{FollowOptions, Follower, Response, request, serve_follower};
pub use memcached::memcached;
pub use options::{MemcachedOptions, ServerOptions};
pub use serve::{Listeners, bind, router, serve};
