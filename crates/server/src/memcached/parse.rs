//! The parser of the memcached protocol, text and meta commands. It works on bytes alone: no I/O,
//! no clock, no buffer of its own.
//!
//! # Invariants
//! 1. The requests depend on the bytes, not on how they were cut: byte by byte or all at once, the
//!    parser returns the same requests.
//! 2. A line of keys is returned key by key, whatever its length. Of any other request the caller
//!    holds at most one line ([`LINE_BYTES_MAX`]) and one value (the limit set on the parser).
//! 3. When a request is refused, its value is skipped, so no value is ever parsed as a command. If
//!    the length of a value is not known, or the value does not end where it should, nothing after
//!    it is parsed.
//!
//! # Grammar
//! ```text
//! line  := words between spaces, ended by \n or \r\n
//! value := the bytes that the line before it announced, then \r\n
//! ```

mod commands;
mod key;

use self::commands::{
    Announced, count, delete, ends_with_noreply, meta_get, meta_store, meta_write, text_store,
    touch, with_reply,
};
use self::key::{KEY_BYTES_MAX, Word, is_key, next_word};
use super::exptime::Exptime;
use super::meta::MetaCommand;
use super::mode::Mode;
use super::refusal::{
    BAD_CHUNK, BAD_EXPTIME, BAD_KEY, ERROR, LINE_TOO_LONG, NO_FLUSH, NO_ROOM, NOT_BINARY, NOT_HTTP,
    Refusal, TOO_LARGE, UNKNOWN_STATS,
};
use super::request::{Change, Request};
use super::words::{Words, advance};

/// The longest line, its end included. A line of keys may be longer.
pub(crate) const LINE_BYTES_MAX: usize = 2048;

const LINE_END: &[u8] = b"\r\n";

/// The first byte of each request of the binary protocol.
const BINARY_REQUEST: u8 = 0x80;

/// The result of parsing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    Request(Request<'a>),
    /// The input must hold this many bytes, and more than now, before parsing can continue.
    More(usize),
}

/// The parser, and its state between two calls.
#[derive(Debug)]
pub(crate) struct Parser {
    state: State,
    value_bytes_max: usize,
    /// There is no memory for the next value, so it is refused.
    is_out_of_memory: bool,
}

/// What comes next in the input.
#[derive(Debug, Clone, Copy)]
enum State {
    /// A request.
    Line,
    /// The exptime of a `gat`, then keys.
    Exptime { with_cas: bool },
    /// Keys.
    Keys {
        with_cas: bool,
        touch: Option<Exptime>,
        is_first: bool,
    },
    /// The rest of a refused line.
    SkipLine,
    /// The rest of a refused value: this many bytes, and its end.
    SkipValue { bytes: usize },
    /// Nothing more is parsed.
    Ended,
}

impl Parser {
    /// A parser for a new connection; `value_bytes_max` is the longest value that it accepts.
    pub(crate) fn new(value_bytes_max: usize) -> Parser {
        Parser {
            state: State::Line,
            value_bytes_max,
            is_out_of_memory: false,
        }
    }

    /// Changes the limit, from the next value on.
    pub(crate) fn set_value_bytes_max(&mut self, bytes: usize) {
        self.value_bytes_max = bytes;
    }

    /// Refuses the next value, because there is no memory to hold it.
    pub(crate) fn refuse_value(&mut self) {
        self.is_out_of_memory = true;
    }

    /// Whether a request has begun and its first bytes are no longer in the input.
    pub(crate) fn is_in_request(&self) -> bool {
        !matches!(self.state, State::Line)
    }

    /// Takes the next request off the start of `input`.
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Step<'a> {
        loop {
            let step = match self.state {
                State::Line => self.line(input),
                State::Exptime { with_cas } => self.exptime(with_cas, input),
                State::Keys { .. } => Some(self.key(input)),
                State::SkipLine => match memchr::memchr(b'\n', input) {
                    Some(at) => {
                        advance(input, at + 1);
                        self.state = State::Line;
                        None
                    }
                    None => {
                        *input = &[];
                        Some(Step::More(1))
                    }
                },
                State::SkipValue { bytes: 0 } => match input.get(..LINE_END.len()) {
                    None => Some(Step::More(LINE_END.len())),
                    Some(LINE_END) => {
                        advance(input, LINE_END.len());
                        self.state = State::Line;
                        None
                    }
                    Some(_) => Some(self.refuse(BAD_CHUNK)),
                },
                State::SkipValue { bytes } => {
                    let skipped = bytes.min(input.len());
                    advance(input, skipped);
                    self.state = State::SkipValue {
                        bytes: bytes - skipped,
                    };
                    (skipped < bytes).then_some(Step::More(1))
                }
                State::Ended => {
                    *input = &[];
                    Some(Step::More(1))
                }
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    fn refuse<'a>(&mut self, refusal: Refusal) -> Step<'a> {
        if refusal.closes {
            self.state = State::Ended;
        }
        Step::Request(Request::Refused(refusal))
    }

    /// A whole line, or the beginning of a line of keys.
    fn line<'a>(&mut self, input: &mut &'a [u8]) -> Option<Step<'a>> {
        while let Some(rest) = input.strip_prefix(b" ") {
            *input = rest;
        }
        for (name, with_cas) in [(b"get ".as_slice(), false), (b"gets ", true)] {
            if let Some(rest) = input.strip_prefix(name) {
                *input = rest;
                self.state = State::Keys {
                    with_cas,
                    touch: None,
                    is_first: true,
                };
                return None;
            }
        }
        for (name, with_cas) in [(b"gat ".as_slice(), false), (b"gats ", true)] {
            if let Some(rest) = input.strip_prefix(name) {
                *input = rest;
                self.state = State::Exptime { with_cas };
                return None;
            }
        }
        // It has no lines: without an answer now its client would wait for ever.
        if input.first() == Some(&BINARY_REQUEST) {
            return Some(self.refuse(NOT_BINARY));
        }
        let head = input.get(..LINE_BYTES_MAX).unwrap_or(input);
        let Some(end) = memchr::memchr(b'\n', head) else {
            if input.len() >= LINE_BYTES_MAX {
                return Some(self.refuse(LINE_TOO_LONG));
            }
            return Some(Step::More(input.len() + 1));
        };
        let line = head.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Some(self.command(line, end + 1, input))
    }

    /// A command whose line is whole; `line_bytes` is its length with its end.
    fn command<'a>(&mut self, line: &'a [u8], line_bytes: usize, input: &mut &'a [u8]) -> Step<'a> {
        let mut words = Words(line);
        let command = words.next().unwrap_or_default();
        let announced = match command {
            b"set" => Some(text_store(Mode::Set, false, words)),
            b"add" => Some(text_store(Mode::Add, false, words)),
            b"replace" => Some(text_store(Mode::Replace, false, words)),
            b"append" => Some(text_store(Mode::Append, false, words)),
            b"prepend" => Some(text_store(Mode::Prepend, false, words)),
            b"cas" => Some(text_store(Mode::Set, true, words)),
            b"ms" => Some(meta_store(words)),
            _ => None,
        };
        if let Some(announced) = announced {
            return self.value(announced, line_bytes, input);
        }
        advance(input, line_bytes);
        let request = match command {
            b"mg" => meta_get(words),
            b"md" => meta_write(MetaCommand::Delete, words),
            b"ma" => meta_write(MetaCommand::Arithmetic, words),
            b"mn" => Ok(Request::MetaNoop),
            b"delete" => delete(words),
            b"incr" => count(true, words),
            b"decr" => count(false, words),
            b"touch" => touch(words),
            b"version" => Ok(Request::Version),
            b"verbosity" => Ok(Request::Verbosity {
                noreply: words.any(|word| word == b"noreply"),
            }),
            b"stats" => match words.next() {
                None => Ok(Request::Stats),
                Some(b"reset") => Ok(Request::StatsReset),
                Some(_) => Err(UNKNOWN_STATS),
            },
            b"quit" => {
                self.state = State::Ended;
                Ok(Request::Quit)
            }
            b"flush_all" => Err(with_reply(NO_FLUSH, ends_with_noreply(words))),
            // A web page can make a browser send any bytes here, except in the first line.
            _ if line.ends_with(b"HTTP/1.1") || line.ends_with(b"HTTP/1.0") => Err(NOT_HTTP),
            _ => Err(ERROR),
        };
        match request {
            Ok(request) => Step::Request(request),
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// The value that a line has announced.
    fn value<'a>(
        &mut self,
        announced: Announced<'a>,
        line_bytes: usize,
        input: &mut &'a [u8],
    ) -> Step<'a> {
        let Announced {
            bytes,
            write,
            noreply,
        } = announced;
        let Some(bytes) = bytes else {
            advance(input, line_bytes);
            let refused = write.err().unwrap_or(BAD_CHUNK);
            return self.refuse(Refusal {
                closes: true,
                ..with_reply(refused, noreply)
            });
        };
        let is_out_of_memory = std::mem::take(&mut self.is_out_of_memory);
        let refused = match write {
            Err(refused) => Some(refused),
            _ if bytes > self.value_bytes_max => Some(TOO_LARGE),
            _ if is_out_of_memory => Some(NO_ROOM),
            _ => None,
        };
        if let Some(refused) = refused {
            advance(input, line_bytes);
            self.state = State::SkipValue { bytes };
            return self.refuse(with_reply(refused, noreply));
        }
        let total = line_bytes + bytes + LINE_END.len();
        let Some(whole) = input.get(..total) else {
            return Step::More(total);
        };
        debug_assert!(line_bytes + bytes < whole.len(), "a value has an end");
        let value = whole.get(line_bytes..line_bytes + bytes);
        match (value, whole.ends_with(LINE_END), write) {
            (Some(stored), true, Ok(mut write)) => {
                if let Change::Store { value, .. } = &mut write.change {
                    *value = stored;
                }
                advance(input, total);
                Step::Request(Request::Write(write))
            }
            _ => self.refuse(with_reply(BAD_CHUNK, noreply)),
        }
    }

    /// The exptime of a `gat`.
    fn exptime<'a>(&mut self, with_cas: bool, input: &mut &'a [u8]) -> Option<Step<'a>> {
        let word = match next_word(input, 20) {
            Word::Whole(word) => word,
            Word::More(bytes) => return Some(Step::More(bytes)),
            Word::TooLong => b"",
            Word::None => {
                self.state = State::SkipLine;
                return Some(self.refuse(ERROR));
            }
        };
        let touch = Exptime::parse(word);
        if touch.is_none() {
            self.state = State::SkipLine;
            return Some(self.refuse(BAD_EXPTIME));
        }
        self.state = State::Keys {
            with_cas,
            touch,
            is_first: true,
        };
        None
    }

    /// The next key of a line, or its end.
    fn key<'a>(&mut self, input: &mut &'a [u8]) -> Step<'a> {
        let State::Keys {
            with_cas,
            touch,
            is_first,
        } = self.state
        else {
            return Step::More(1);
        };
        match next_word(input, KEY_BYTES_MAX) {
            Word::More(bytes) => Step::More(bytes),
            Word::Whole(key) if is_key(key) => {
                self.state = State::Keys {
                    with_cas,
                    touch,
                    is_first: false,
                };
                Step::Request(Request::Get {
                    key,
                    with_cas,
                    touch,
                })
            }
            Word::Whole(_) | Word::TooLong => {
                self.state = State::SkipLine;
                self.refuse(BAD_KEY)
            }
            Word::None => {
                self.state = State::SkipLine;
                match is_first {
                    true => self.refuse(ERROR),
                    false => Step::Request(Request::GetEnd),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
