//! One connection, on a thread of its own that may block: it reads, parses, executes and answers.
//!
//! Because each connection has a thread, a slow disk, a sync or a client that does not read delays
//! no other connection. It also makes a single request cheap: one read and one write of the socket.
//!
//! # Invariants
//! 1. A connection holds [`INPUT_BYTES`] of input. For a longer value it reserves memory of that
//!    which all requests share.
//! 2. A request that does not arrive whole in time ends its connection. So does an answer that the
//!    client does not read in time.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use super::counters::Count;
use super::flow::Flow;
use super::parse::{Parser, Step};
use super::port_state::PortState;
use super::session::{Output, Session};
use crate::http::buffers::{Buffers, Held};

/// Bytes that are read at a time, and held without a reservation.
const INPUT_BYTES: usize = 64 << 10;

/// The most requests that are executed together.
const BATCH_MAX: usize = 512;

/// A longer buffer of answers is freed when they are sent.
const OUTPUT_BYTES_KEPT: usize = 256 << 10;

/// How much is read and discarded of a client whose connection is closed, so that it can read the
/// reason.
const LINGER_BYTES: usize = 4 << 20;

/// A connection over any stream. A read may return `WouldBlock` or `TimedOut`, so that the
/// connection can check whether it is to end.
pub(crate) struct Connection<R, W> {
    reader: R,
    sink: Sink<W>,
    session: Session,
    parser: Parser,
    input: Input,
    /// When the request that is arriving began.
    begun: Option<Duration>,
}

/// Bytes read and not yet parsed: `bytes[start..end]`.
struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The reservation of more than `INPUT_BYTES`.
    held: Option<Held>,
}

/// Answers that are not sent yet.
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
    pub(crate) fn new(state: Arc<PortState>, reader: R, writer: W) -> Connection<R, W> {
        let (session, parser) = Session::new(state);
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

    /// Serves the client until the client quits, or `goes_on` returns false. It is called between
    /// batches, and, with true, on an idle connection whenever a read returns early. Blocks.
    /// Returns true if the server ended the connection, so that the client may still be sending.
    ///
    /// # Errors
    /// The stream's, and `TimedOut` if a request did not arrive in time.
    pub(crate) fn run(&mut self, goes_on: &dyn Fn(bool) -> bool) -> io::Result<bool> {
        loop {
            let (flow, wanted_bytes) = self.batch()?;
            if flow != Flow::Continue {
                self.flush_tally();
                self.sink.send()?;
                return Ok(flow == Flow::Close);
            }
            let Some(wanted_bytes) = wanted_bytes else {
                continue;
            };
            self.flush_tally();
            self.sink.send()?;
            if !goes_on(false) {
                return Ok(false);
            }
            if !self
                .input
                .make_room(&self.session.state.buffers, wanted_bytes)
            {
                self.parser.refuse_value();
                continue;
            }
            if !self.read(goes_on)? {
                return Ok(false);
            }
        }
    }

    /// Executes the requests that have arrived, up to [`BATCH_MAX`]. Returns how many bytes the
    /// input must hold for the next request; none if it may hold one already.
    fn batch(&mut self) -> io::Result<(Flow, Option<usize>)> {
        self.parser
            .set_value_bytes_max(self.session.value_bytes_max());
        let filled = self.input.filled();
        let mut rest = filled;
        let mut requests = Vec::new();
        // A client that is not admitted yet is checked one request at a time.
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
        assert!(
            rest.len() <= filled.len(),
            "the parser takes bytes off its input"
        );
        let used = filled.len() - rest.len();
        drop(requests);
        self.input.consume(used);
        Ok((flow, more))
    }

    /// Reads more; false at the end.
    fn read(&mut self, goes_on: &dyn Fn(bool) -> bool) -> io::Result<bool> {
        let state = &self.session.state;
        let is_idle = self.input.filled().is_empty() && !self.parser.is_in_request();
        if !is_idle {
            let now = state.engine.now();
            let begun = *self.begun.get_or_insert(now);
            if now.saturating_sub(begun) > state.request_timeout {
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
                    if !goes_on(true) {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads and discards what the client still sends, up to a bound. If a socket is closed with
    /// unread bytes, the client may lose the last answer (TCP reset).
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
        self.session.tally.flush(&self.session.state.counters);
    }
}

impl Input {
    fn filled(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        assert!(self.start <= self.end, "no byte is used that was not read");
        if self.start < self.end {
            return;
        }
        (self.start, self.end) = (0, 0);
        if self.held.take().is_some() {
            self.bytes = vec![0; INPUT_BYTES];
        }
    }

    /// Makes the buffer long enough for `bytes` from `start`, and for at least one more byte. False
    /// if the memory is not free.
    fn make_room(&mut self, buffers: &Buffers, bytes: usize) -> bool {
        if self.start + bytes > self.bytes.len() || self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if bytes > self.bytes.len() {
            let held = match self.held.take() {
                Some(mut held) => held.resize(bytes).map(|()| held),
                None => buffers.hold_now(bytes),
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
        "the rest of a request did not arrive in time",
    )
}
