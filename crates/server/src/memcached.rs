//! The memcached protocol: text and meta commands over documents, so that programs which read
//! Memcached can read Quire.
//!
//! - A key addresses a document: it is `collection:key`, or a key of the one collection that is set
//!   ([`MemcachedOptions::collection`](crate::MemcachedOptions)).
//! - A value is the document's JSON, or one field of it
//!   ([`MemcachedOptions::field`](crate::MemcachedOptions)).
//! - The cas unique is the document's version. `cas` writes if the document still has that version.
//! - Documents do not expire: an exptime that is not 0 is refused, a negative one removes.
//!
//! From the socket inwards: `port` accepts, `connection` reads and writes, `parse` turns bytes into
//! requests, `session` executes them in batches, `keyspace` looks documents up, `write` decides and
//! commits writes, `value` finds values in documents, `outcome` formats answers.

mod admission;
mod connection;
mod counters;
mod exptime;
mod flow;
mod keyspace;
mod meta;
mod mode;
mod outcome;
mod parse;
pub(crate) mod port;
pub(crate) mod port_state;
mod refusal;
mod request;
mod rows;
mod session;
mod socket;
mod stats;
mod value;
mod words;
mod write;

use std::io::{self, Read};
use std::sync::Arc;

use quiredb::Database;

use self::connection::{Connection, Run};
use self::port_state::PortState;
use crate::engine::Engine;
use crate::http::buffers::Buffers;
use crate::limits::Limits;
use crate::options::ServerOptions;

/// Serves one client of the memcached protocol in process: reads requests from `reader` and writes
/// answers to `writer`, until `reader` ends or the client quits. Blocks. The bounds on connections
/// and sockets are [`serve`](crate::serve())'s and do not hold here; all others do.
///
/// # Errors
/// [`Error::InvalidOption`](crate::Error), as an [`io::Error`]; the errors of `reader` and
/// `writer`.
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
    let engine = Engine::new(database, &options);
    let database = engine.database();
    let buffers = Buffers::new(database.work(), database.memtables());
    let access = Arc::new(options.access());
    let env = Arc::clone(engine.database().env());
    let limits = Arc::new(Limits::new(Arc::clone(&env), None, None));
    let tasks = Arc::default();
    let state = PortState::new(&options, tasks, limits, access, engine, buffers, None);
    let mut connection = Connection::new(Arc::new(state), None, reader, writer);
    while connection.run(&|| true)? == Run::Rests {
        env.sleep(connection.take_rest());
    }
    Ok(())
}
