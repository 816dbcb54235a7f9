//! One connection, on a thread of its own that may block: read, parse, do, answer.
//!
//! A thread each is what keeps a slow disk, a sync or a client that does not read from holding up
//! other connections, and what makes a lone request cheap: one read and one write of the socket.
//!
//! # Invariants
//! 1. A connection holds [`INPUT_BYTES`] of what it was sent; a longer value only if the room that
//!    all requests share has room for it.
//! 2. A request that does not arrive whole in time ends its connection, as does an answer that is
//!    not taken.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use super::counters::Count;
use super::parse::{Parser, Step};
use super::session::{Flow, Output, Session};
use crate::http::buffers::Held;
use crate::state::Server;

/// Bytes that are read at a time, and held without asking for room.
const INPUT_BYTES: usize = 64 << 10;

/// Requests that are done together at the most.
const BATCH_MAX: usize = 512;

/// An answer's buffer that is longer is given back when it was sent.
const OUTPUT_BYTES_KEPT: usize = 256 << 10;

/// What is still read of a client that is cut off, so that it gets to read why.
const LINGER_BYTES: usize = 4 << 20;

/// A connection over any stream. A read of it may end early with `WouldBlock` or `TimedOut`, to let
/// this look about.
pub(crate) struct Connection<R, W> {
    reader: R,
    sink: Sink<W>,
    session: Session,
    parser: Parser,
    input: Input,
    /// Since when a request has been arriving.
    begun: Option<Duration>,
}

/// What has been read and not yet used.
struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The room for more than `INPUT_BYTES`.
    held: Option<Held>,
}

/// Answers on their way.
struct Sink<W> {
    writer: W,
    buffer: Vec<u8>,
    sent_bytes: u64,
}

impl<W: Write> Output for Sink<W> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn send(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.writer.write_all(&self.buffer)?;
        self.sent_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        if self.buffer.capacity() > OUTPUT_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        Ok(())
    }
}

impl<R: Read, W: Write> Connection<R, W> {
    pub(crate) fn new(server: Arc<Server>, reader: R, writer: W) -> Connection<R, W> {
        let (session, parser) = Session::new(server);
        Connection {
            reader,
            sink: Sink {
                writer,
                buffer: Vec::new(),
                sent_bytes: 0,
            },
            session,
            parser,
            input: Input {
                bytes: vec![0; INPUT_BYTES],
                start: 0,
                end: 0,
                held: None,
            },
            begun: None,
        }
    }

    /// Serves the client until it or `is_wanted` ends it: asked between batches, and, of an idle
    /// connection, whenever a read ends early. Blocks. True if the client was cut off and may have
    /// more to say.
    ///
    /// # Errors
    /// The stream's, and `TimedOut` if a request did not arrive in time.
    pub(crate) fn run(&mut self, is_wanted: &dyn Fn(bool) -> bool) -> io::Result<bool> {
        loop {
            let (flow, wanted_bytes) = self.batch()?;
            if flow != Flow::On {
                self.flush_tally();
                self.sink.send()?;
                return Ok(flow == Flow::Close);
            }
            let Some(wanted_bytes) = wanted_bytes else {
                continue;
            };
            self.flush_tally();
            self.sink.send()?;
            if !is_wanted(false) {
                return Ok(false);
            }
            if !self.input.make_room(&self.session.server, wanted_bytes) {
                self.parser.refuse_value();
                continue;
            }
            if !self.read(is_wanted)? {
                return Ok(false);
            }
        }
    }

    /// Does what has arrived, up to a bound. The bytes that must have arrived for the next request;
    /// none if there may be one already.
    fn batch(&mut self) -> io::Result<(Flow, Option<usize>)> {
        self.parser
            .set_value_bytes_max(self.session.value_bytes_max());
        let filled = self.input.filled();
        let mut rest = filled;
        let mut requests = Vec::new();
        // Whoever is not admitted yet is judged by one request at a time.
        let batch_max = match self.session.is_admitted() {
            true => BATCH_MAX,
            false => 1,
        };
        let more = loop {
            match self.parser.next(&mut rest) {
                Step::Request(request) => requests.push(request),
                Step::More(bytes) => break Some(bytes),
            }
            if requests.len() == batch_max {
                break None;
            }
        };
        let flow = self.session.run(&requests, &mut self.sink)?;
        if !requests.is_empty() {
            self.begun = None;
        }
        let used = filled.len() - rest.len();
        drop(requests);
        self.input.consume(used);
        Ok((flow, more))
    }

    /// Reads more; false at the end.
    fn read(&mut self, is_wanted: &dyn Fn(bool) -> bool) -> io::Result<bool> {
        let server = &self.session.server;
        let is_idle = self.input.filled().is_empty() && !self.parser.is_amid();
        if !is_idle {
            let now = server.database().env().monotonic();
            let begun = *self.begun.get_or_insert(now);
            if now.saturating_sub(begun) > server.options.request_timeout {
                return Err(too_slow());
            }
        }
        loop {
            let free = self.input.bytes.get_mut(self.input.end..);
            match self.reader.read(free.unwrap_or_default()) {
                Ok(0) => return Ok(false),
                Ok(bytes) => {
                    self.input.end += bytes;
                    self.session.tally.add(Count::ReceivedBytes, bytes as u64);
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_early(&error) => {
                    if !is_idle {
                        return Err(too_slow());
                    }
                    if !is_wanted(true) {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads, for a while, what a client that was cut off still sends, and throws it away: closing
    /// a socket with unread bytes takes the last answer from it.
    pub(crate) fn linger(&mut self) {
        let mut left = LINGER_BYTES;
        while left > 0 {
            match self.reader.read(&mut self.input.bytes) {
                Ok(0) | Err(_) => return,
                Ok(bytes) => left = left.saturating_sub(bytes),
            }
        }
    }

    fn flush_tally(&mut self) {
        let sent = std::mem::take(&mut self.sink.sent_bytes);
        self.session.tally.add(Count::SentBytes, sent);
        self.session.tally.flush(&self.session.server.memcached);
    }
}

impl Input {
    fn filled(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        if self.start < self.end {
            return;
        }
        (self.start, self.end) = (0, 0);
        if self.held.take().is_some() {
            self.bytes = vec![0; INPUT_BYTES];
        }
    }

    /// Makes room for `bytes` in all, and for one more than there are; false if there is none to be
    /// had.
    fn make_room(&mut self, server: &Server, bytes: usize) -> bool {
        if self.start + bytes > self.bytes.len() || self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if bytes > self.bytes.len() {
            let held = match self.held.take() {
                Some(mut held) => held.resize(bytes).map(|()| held),
                None => server.buffers.hold_now(bytes),
            };
            let Ok(held) = held else {
                return false;
            };
            self.held = Some(held);
            self.bytes.resize(bytes, 0);
        }
        true
    }
}

fn is_early(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn too_slow() -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        "the rest of a request did not come",
    )
}
