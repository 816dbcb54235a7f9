//! A table of PostgreSQL as a source of `quire pipe`: its rows, and then each change of a row.
//!
//! A replication slot keeps the changes that a reader has not confirmed. The rows are read in
//! chunks beside the stream of changes. Each chunk is a consistent read, whose snapshot says which
//! transactions it sees; the chunk is given when the stream has given all of those. So no table is
//! locked, no row is written to the server, and a kill costs a chunk at most.
//!
//! # Invariants
//! 1. A chunk is given after all changes of the transactions that it sees, and without the rows
//!    that others changed before it is given. So the last change given of a key is the newest.
//! 2. The position of a change is a function of the stream from the place on: it is the same
//!    whenever the change is read, and grows.
//! 3. The stored `Place` is between two transactions, and at the end of a chunk.
//! 4. The slot is advanced to places only that are stored: what comes after is there for the next
//!    run, however this one ends.
//!
//! Source of the method: Andreakis, Papapanagiotou 2020, "DBLog: A Watermark Based
//! Change-Data-Capture Framework"; the watermark is the snapshot's own list of transactions, so
//! none has to be written.

mod array;
mod fault;
mod layout;
mod options;
mod pgoutput;
mod place;
mod reader;
mod replication;
mod row;
mod rows;
mod server;
mod session;
mod slot;
mod source;
mod stream;
mod table;
mod tls;
mod topic;
mod types;
mod value;
mod visible;
mod wire;

pub use options::PostgresOptions;
pub use source::PostgresSource;
