//! A table of MariaDB as a source of `quire pipe`: its rows, and then each change of a row.
//!
//! The rows are read in chunks beside the stream of changes. Each chunk is a consistent read, and
//! the server says at which position of its binlog it is; the chunk takes its place in the stream
//! exactly there. So no table is locked, nothing is written to the server, and a kill costs a chunk
//! at most.
//!
//! # Invariants
//! 1. A chunk is given after all changes up to its position, and before all later ones. So the
//!    last change given of a key is the newest.
//! 2. The position of a change is its place in the binlog of a server; it is the same whenever it
//!    is read, and grows. When a server takes the place of another, positions begin above all of
//!    the former: their upper bits count such events.
//! 3. The stored `Place` is the end of a transaction, and of a chunk.
//!
//! Source of the method: Andreakis, Papapanagiotou 2020, "DBLog: A Watermark Based
//! Change-Data-Capture Framework"; the watermark is the position of MariaDB's consistent snapshot,
//! so none has to be written.

mod charset;
mod ddl;
mod direct;
mod dirty;
mod fault;
mod fields;
mod lookup;
mod mark;
mod options;
mod place;
mod relation;
mod row;
mod server;
mod snapshot;
mod source;
mod stream;
mod table;
mod topic;
mod value;

pub use options::MysqlOptions;
pub use source::MysqlSource;
