//! The memcached protocol: text and meta commands over documents, so that what reads Memcached
//! today reads Quire.
//!
//! - A key addresses a document: `collection:key`, or a key of one collection that is set
//!   ([`MemcachedOptions::collection`](crate::MemcachedOptions)).
//! - A value is the document's JSON, or one field of it
//!   ([`MemcachedOptions::field`](crate::MemcachedOptions)).
//! - The cas unique is the document's version, and `cas` a write on condition that it is still that
//!   one.
//! - Documents do not expire: an exptime that is not 0 is refused, a negative one removes.
//!
//! From the socket inwards: `port` accepts, `connection` reads and writes, `parse` makes requests
//! of bytes, `session` does them in batches, `write` decides what a write comes to, `value` finds
//! values in documents, `outcome` has the answers.

mod admission;
mod connection;
mod counters;
mod meta;
mod outcome;
mod parse;
mod port;
mod request;
mod session;
mod stats;
mod value;
mod words;
mod write;

use std::io::{self, Read};
use std::sync::Arc;

use quiredb::Database;

use crate::options::ServerOptions;
use crate::state::Server;
use connection::Connection;

pub(crate) use counters::Counters;
pub(crate) use port::Port;

/// Serves one client of the memcached protocol, in process: requests from `reader`, answers to
/// `writer`, until the reader ends or the client does. Blocks. Bounds of connections and sockets
/// are [`serve`](crate::serve())'s; all others hold here too.
///
/// # Errors
/// [`Error::InvalidOption`](crate::Error), as an [`io::Error`]; what `reader` and `writer` fail
/// with.
///
/// ```
/// use quire_server::{MemcachedOptions, ServerOptions, memcached};
/// # let dir = tempfile::tempdir()?;
///
/// let database = quiredb::Database::open(dir.path())?;
/// let options = ServerOptions {
///     memcached: Some(MemcachedOptions::default()),
///     ..ServerOptions::default()
/// };
/// let requests = b"set books:emma 0 0 14\r\n{\"year\": 1815}\r\nget books:emma\r\n";
/// let mut answers = Vec::new();
/// memcached(database, options, &requests[..], &mut answers)?;
/// assert_eq!(answers, b"STORED\r\nVALUE books:emma 0 13\r\n{\"year\":1815}\r\nEND\r\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn memcached(
    database: Database,
    options: ServerOptions,
    reader: impl Read,
    writer: impl io::Write,
) -> io::Result<()> {
    options.check(options.listen).map_err(io::Error::other)?;
    let server = Arc::new(Server::new(database, options, None));
    Connection::new(server, reader, writer).run(&|_| true)?;
    Ok(())
}
