//! Server for Quire: the document part of the OpenSearch REST API over HTTP, and the memcached
//! protocol, so that existing clients and shippers work unchanged.
//!
//! [`serve()`] runs it on listeners; [`router`] and [`memcached()`] call it in process.
//!
//! # Invariants
//! 1. **An acknowledged write is seen.** A 2xx answer to a write means that it is as durable as the
//!    collection's setting says. Every read that begins after it sees it; `refresh` changes
//!    nothing.
//! 2. **A document comes back as it was put**: every field, in its order, numbers as written.
//! 3. **What is not supported is refused by name**, with a 400: a parameter, a setting, a query, a
//!    script. Nothing is ignored silently, except what could not change an answer, such as the
//!    number of replicas.
//! 4. **Memory is bounded** whatever clients do. Bodies and long answers share one bound
//!    ([`Database::work`](quiredb::Database::work)). Bulk bodies are applied as they arrive, and
//!    answers to multi-gets and searches are made as the client reads them. The number of
//!    connections is bounded, and a client that neither sends nor reads is disconnected.
//! 5. **The engine never runs on the threads that drive connections**: reads, searches and writes
//!    each have a bounded set of threads, and each memcached connection has a thread.
//!
//! Versions: `_version` and `_seq_no` are both the document's position in its partition's log;
//! `_primary_term` is 1. They grow with every write but are not dense. Versions of documents in
//! different partitions can't be compared. A split of the partitions leaves them as they are.
//!
//! # Modules
//! `serve` opens the ports, `dispatch` finds the route of a request in `routes` and calls its
//! handler, if `access` says that the caller may call it. The handlers are in `documents`, `bulk`,
//! `search`, `collections`, `command`, `admin`, `jobs`, `tasks` and `follow`. Each gets what it
//! uses of `state`; most get only the `engine`, the way to the database. `http` and `net` are what
//! all of them share, and `memcached` is the other protocol.
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

mod access;
mod admin;
mod audit;
mod bulk;
mod collections;
mod command;
mod compat;
mod dispatch;
mod documents;
mod engine;
mod error;
mod follow;
mod frozen;
mod held_memtables;
mod http;
mod ids;
mod jobs;
mod limits;
mod log_file;
mod memcached;
mod metrics;
mod net;
pub mod objects;
mod options;
mod routes;
mod search;
mod serve;
mod slow;
mod state;
mod tasks;
pub mod unknown_fields;
mod wide;

pub use access::lifetime::parse_lifetime;
pub use access::record::TokenRecord;
pub use access::role::Role;
pub use access::tokens::{NewToken, Tokens, TokensError};
pub use audit::Audit;
pub use command::{
    AggregateText, AnswerText, End, ExplainText, Line, QueryText, QueryTextError, Row, WriteAnswer,
    WriteLine, selected,
};
pub use compat::Compat;
pub use error::{Error, ErrorKind, Result};
pub use follow::{
    ClientTlsFiles, FollowOptions, Follower, Remote, RemoteError, Response, Session,
    SessionResponse,
};
pub use frozen::refresh_frozen;
pub use limits::Limit;
pub use log_file::{LogFileError, LogFileOptions};
pub use memcached::memcached;
pub use net::listen::listen;
pub use net::pem::TlsError;
pub use net::tls::{Tls, TlsFiles};
pub use options::{MemcachedOptions, ServerOptions};
pub use serve::{Listeners, bind, router, serve, serve_follower};
pub use slow::SlowLog;
