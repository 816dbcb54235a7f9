//! One connection, on a thread that may block: it reads, parses, executes and answers.
//!
//! Because each active connection has a thread, a slow disk, a sync or a client that does not read
//! delays no other connection. It also makes a single request cheap: one read and one write of the
//! socket. A connection that has been idle for a moment gives up its thread and its buffers
//! (`port`).
//!
//! # Invariants
//! 1. A connection holds [`INPUT_BYTES`] of input at most, as many as it needs. For a longer value
//!    it reserves memory of that which all requests share. While it is idle it holds none.
//! 2. A request that does not arrive whole in time ends its connection. So does an answer that the
//!    client does not read in time.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::admission::WRONG_TOKEN_PAUSE;
use super::counters::Count;
use super::flow::Flow;
use super::parse::{Parser, Step};
use super::port_state::PortState;
use super::session::{Output, Session};
use crate::http::buffers::{Buffers, Held};

/// Bytes that are read at a time, and held without a reservation: at first, and at the most.
const INPUT_BYTES_FIRST: usize = 4 << 10;
const INPUT_BYTES: usize = 64 << 10;

/// The most requests that are executed together.
const BATCH_MAX: usize = 512;

/// A longer buffer of answers is freed when they are sent.
const OUTPUT_BYTES_KEPT: usize = 256 << 10;

/// The longest rest of a client over its limits, before it is checked again.
const REST_MAX: Duration = Duration::from_secs(1);

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
    /// How long the client is to rest before it is served again.
    rest: Duration,
    /// It is ended after the rest: its token was wrong.
    is_ending: bool,
}

/// Why a connection returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    /// It has ended.
    Ended,
    /// The server ended it, so that the client may still be sending.
    Lingers,
    /// It waits for a request, or for the rest of one while others wait for its thread.
    Idle,
    /// It is to be served again after a rest.
    Rests,
}

/// What a read gave.
enum Arrival {
    Bytes,
    End,
    Idle,
}

/// Bytes read and not yet parsed: `bytes[start..end]`.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The last read filled it: the client sends more at a time.
    was_filled: bool,
    /// The reservation of more than `INPUT_BYTES`.
    held: Option<Held>,
}

/// Answers that are not sent yet.
struct Sink<W> {
    writer: W,
    buffer: Vec<u8>,
    sent_bytes: u64,
    state: Arc<PortState>,
}

impl<W: Write> Output for Sink<W> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn send(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.write_all()?;
        self.sent_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        if self.buffer.capacity() > OUTPUT_BYTES_KEPT {
            self.buffer = Vec::new();
        }
        Ok(())
    }
}

impl<W: Write> Sink<W> {
    /// Writes the buffer. A client that reads nothing for too long is given up, at once if others
    /// wait for its thread.
    fn write_all(&mut self) -> io::Result<()> {
        let mut rest = self.buffer.as_slice();
        let mut since = None;
        loop {
            let written = match rest {
                [] => self.writer.flush().map(|()| 0),
                rest => self.writer.write(rest),
            };
            match written {
                Ok(_) if rest.is_empty() => return Ok(()),
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => {
                    rest = rest.get(bytes..).unwrap_or_default();
                    since = None;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_early(&error) => {
                    let now = self.state.engine.now();
                    let waited = now.saturating_sub(*since.get_or_insert(now));
                    if waited > self.state.idle_timeout || self.state.is_crowded() {
                        return Err(too_slow());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl<R: Read, W: Write> Connection<R, W> {
    /// The connection of a client. If it has an address, the limits are about it.
    pub(crate) fn new(
        state: Arc<PortState>,
        address: Option<SocketAddr>,
        reader: R,
        writer: W,
    ) -> Connection<R, W> {
        let (mut session, parser) = Session::new(Arc::clone(&state), address);
        session.share = address.map(|address| state.limits.attend(Some(address.ip())));
        Connection {
            reader,
            sink: Sink {
                writer,
                buffer: Vec::new(),
                sent_bytes: 0,
                state,
            },
            session,
            parser,
            input: Input::default(),
            begun: None,
            rest: Duration::ZERO,
            is_ending: false,
        }
    }

    /// Whether the client may do something.
    pub(crate) fn is_admitted(&self) -> bool {
        self.session.is_admitted()
    }

    /// How long the client is to rest before it is served again, if it is to.
    pub(crate) fn take_rest(&mut self) -> Duration {
        std::mem::take(&mut self.rest)
    }

    /// Serves the client until the client quits, `goes_on`, which is called between batches,
    /// returns false, or a read returns early while the connection is idle. Blocks.
    ///
    /// # Errors
    /// The stream's, and `TimedOut` if a request did not arrive in time.
    pub(crate) fn run(&mut self, goes_on: &dyn Fn() -> bool) -> io::Result<Run> {
        if self.is_ending {
            self.sink.send()?;
            return Ok(Run::Lingers);
        }
        loop {
            let (flow, wanted_bytes) = self.batch()?;
            if flow == Flow::CloseLater {
                self.flush_tally();
                self.rest = WRONG_TOKEN_PAUSE;
                self.is_ending = true;
                return Ok(Run::Rests);
            }
            if flow != Flow::Continue {
                self.flush_tally();
                self.sink.send()?;
                return Ok(match flow {
                    Flow::Close => Run::Lingers,
                    _ => Run::Ended,
                });
            }
            let Some(wanted_bytes) = wanted_bytes else {
                continue;
            };
            self.flush_tally();
            self.sink.send()?;
            if !goes_on() {
                return Ok(Run::Ended);
            }
            if !self.rest.is_zero() {
                return Ok(Run::Rests);
            }
            if !self
                .input
                .make_room(&self.session.state.buffers, wanted_bytes)
            {
                self.parser.refuse_value();
                continue;
            }
            match self.read()? {
                Arrival::Bytes => {}
                Arrival::End => return Ok(Run::Ended),
                Arrival::Idle => return Ok(Run::Idle),
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
        if let Some(share) = &self.session.share {
            self.rest = share.rest(requests.len() as u64).min(REST_MAX);
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

    /// Reads more.
    fn read(&mut self) -> io::Result<Arrival> {
        let state = &self.session.state;
        let is_idle = self.input.filled().is_empty() && !self.parser.is_in_request();
        let waits_since = state.engine.now();
        let begun = match is_idle {
            true => waits_since,
            false => *self.begun.get_or_insert(waits_since),
        };
        loop {
            let now = state.engine.now();
            if !is_idle
                && (now.saturating_sub(begun) > state.request_timeout
                    || now.saturating_sub(waits_since) > state.idle_timeout)
            {
                return Err(too_slow());
            }
            let free = self.input.bytes.get_mut(self.input.end..);
            let free = free.unwrap_or_default();
            let room = free.len();
            match self.reader.read(free) {
                Ok(0) => return Ok(Arrival::End),
                Ok(bytes) => {
                    self.input.end += bytes;
                    self.input.was_filled = bytes == room;
                    self.session.tally.add(Count::ReceivedBytes, bytes as u64);
                    if let Some(share) = &self.session.share {
                        share.passed(bytes as u64);
                    }
                    return Ok(Arrival::Bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_early(&error) && (is_idle || state.is_crowded()) => {
                    return Ok(Arrival::Idle);
                }
                Err(error) if is_early(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives up the buffers of a connection that waits for its client. False if there is no memory
    /// for the part of a request that has arrived.
    pub(crate) fn release(&mut self) -> bool {
        if !self.is_ending {
            self.sink.buffer = Vec::new();
        }
        self.session.release();
        self.input.release(&self.session.state.buffers)
    }

    /// Whether a request has begun to arrive.
    pub(crate) fn is_in_request(&self) -> bool {
        !self.input.filled().is_empty() || self.parser.is_in_request()
    }

    fn flush_tally(&mut self) {
        let sent = std::mem::take(&mut self.sink.sent_bytes);
        if let Some(share) = &self.session.share {
            share.passed(sent);
        }
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
            self.bytes = Vec::new();
        }
    }

    /// Frees the memory, but for what is in it: that is reserved. False if it can't be.
    fn release(&mut self, buffers: &Buffers) -> bool {
        if self.filled().is_empty() {
            *self = Input::default();
        }
        if self.bytes.is_empty() || self.held.is_some() {
            return true;
        }
        self.bytes.truncate(self.end);
        self.bytes.shrink_to_fit();
        self.held = buffers.hold_now(self.bytes.len()).ok();
        self.held.is_some()
    }

    /// Makes the buffer long enough for `bytes` from `start`, and for at least one more byte. False
    /// if the memory is not free.
    fn make_room(&mut self, buffers: &Buffers, bytes: usize) -> bool {
        if self.start + bytes > self.bytes.len() || self.end == self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let more = match self.was_filled {
            true => self.bytes.len() * 2,
            false => 0,
        };
        let wanted = bytes.max(self.end + 1);
        if self.held.is_none() && wanted <= INPUT_BYTES {
            let length = wanted.max(more).next_power_of_two();
            let length = length.clamp(INPUT_BYTES_FIRST, INPUT_BYTES);
            self.bytes.resize(length.max(self.bytes.len()), 0);
            return true;
        }
        if wanted > self.bytes.len() {
            let held = match self.held.take() {
                Some(mut held) => held.resize(wanted).map(|()| held),
                None => buffers.hold_now(wanted),
            };
            let Ok(held) = held else {
                return false;
            };
            self.held = Some(held);
            self.bytes.resize(wanted, 0);
        }
        true
    }
}

pub(super) fn is_early(error: &io::Error) -> bool {
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
