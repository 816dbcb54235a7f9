//! The memcached protocol, text and meta commands, from bytes alone: no I/O, no clock, no memory of
//! its own.
//!
//! # Invariants
//! 1. The requests depend on the bytes, not on how they were cut: a parser fed byte by byte hands
//!    out what one does that is given everything at once.
//! 2. A line of keys is handed out key by key, whatever its length. Of anything else the caller
//!    holds at most one line ([`LINE_BYTES_MAX`]) and one value (the limit the parser was made
//!    with).
//! 3. A request that is refused takes its value with it, so that no value is ever read as a
//!    command. Where the length of a value can't be known, or the value does not end where it
//!    should, nothing after it is read.
//!
//! # Grammar
//! ```text
//! line  := words between spaces, ended by \n or \r\n
//! value := the bytes that the line before it announced, then \r\n
//! ```

use std::borrow::Cow;

use super::meta::{MetaChange, MetaCommand, MetaFlags};
use super::request::{
    BAD_CHUNK, BAD_DELTA, BAD_EXPTIME, BAD_FORMAT, BAD_KEY, Change, ERROR, LINE_TOO_LONG, Mode,
    NO_EXPIRING_GET, NO_EXPIRY, NO_FLUSH, NO_ROOM, NOT_HTTP, Refusal, Reply, Request, TOO_LARGE,
    UNKNOWN_STATS, Write,
};
use super::words::{Expires, Words, expires_at_once, number};

/// Longest key, as memcached has it; of a key in base64, what it stands for.
pub(crate) const KEY_BYTES_MAX: usize = 250;

/// Longest line, its end included, but for a line of keys.
pub(crate) const LINE_BYTES_MAX: usize = 2048;

/// A length that no client means.
const CLAIM_BYTES_MAX: u64 = i32::MAX as u64 - 2;

const LINE_END: &[u8] = b"\r\n";

/// What the parser has to say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    Request(Request<'a>),
    /// It goes on when the input holds this many bytes, or more than now if that is fewer.
    More(usize),
}

/// The state between two calls.
#[derive(Debug)]
pub(crate) struct Parser {
    state: State,
    value_bytes_max: usize,
    /// The value that is awaited is not to be held.
    is_crowded: bool,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// A request begins.
    Line,
    /// The exptime of a `gat` follows, then keys.
    Exptime { with_cas: bool },
    /// Keys follow.
    Keys {
        with_cas: bool,
        is_touch: bool,
        is_first: bool,
    },
    /// Nothing until the end of the line counts.
    SkipLine,
    /// So many bytes of a value that was refused follow, and its end.
    SkipValue { bytes: usize },
    /// Nothing that follows is read.
    Ended,
}

impl Parser {
    /// A parser for a new connection, which takes values of so many bytes at most.
    pub(crate) fn new(value_bytes_max: usize) -> Parser {
        Parser {
            state: State::Line,
            value_bytes_max,
            is_crowded: false,
        }
    }

    /// Changes the limit, from the next value on.
    pub(crate) fn set_value_bytes_max(&mut self, bytes: usize) {
        self.value_bytes_max = bytes;
    }

    /// Has the value that is awaited refused, since there is no room to hold it.
    pub(crate) fn refuse_value(&mut self) {
        self.is_crowded = true;
    }

    /// Whether a request has begun whose bytes are no longer in the input.
    pub(crate) fn is_amid(&self) -> bool {
        !matches!(self.state, State::Line)
    }

    /// Takes the next request off the front of `input`.
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

    /// One whole line, or the beginning of a line of keys.
    fn line<'a>(&mut self, input: &mut &'a [u8]) -> Option<Step<'a>> {
        while let Some(rest) = input.strip_prefix(b" ") {
            *input = rest;
        }
        for (name, with_cas) in [(b"get ".as_slice(), false), (b"gets ", true)] {
            if let Some(rest) = input.strip_prefix(name) {
                *input = rest;
                self.state = State::Keys {
                    with_cas,
                    is_touch: false,
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

    /// A command whose line, of `line_bytes` with its end, is whole.
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
            b"flush_all" => Err(refusal(NO_FLUSH, ends_with_noreply(words))),
            // A web page can make a browser send here what it likes, but for the first line.
            _ if line.ends_with(b"HTTP/1.1") || line.ends_with(b"HTTP/1.0") => Err(NOT_HTTP),
            _ => Err(ERROR),
        };
        match request {
            Ok(request) => Step::Request(request),
            Err(refusal) => self.refuse(refusal),
        }
    }

    /// A value that a line has announced.
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
                ..refusal(refused, noreply)
            });
        };
        let crowded = std::mem::take(&mut self.is_crowded);
        let refused = match write {
            Err(refused) => Some(refused),
            _ if bytes > self.value_bytes_max => Some(TOO_LARGE),
            _ if crowded => Some(NO_ROOM),
            _ => None,
        };
        if let Some(refused) = refused {
            advance(input, line_bytes);
            self.state = State::SkipValue { bytes };
            return self.refuse(refusal(refused, noreply));
        }
        let total = line_bytes + bytes + LINE_END.len();
        let Some(whole) = input.get(..total) else {
            return Step::More(total);
        };
        let value = whole.get(line_bytes..line_bytes + bytes);
        match (value, whole.ends_with(LINE_END), write) {
            (Some(stored), true, Ok(mut write)) => {
                if let Change::Store { value, .. } = &mut write.change {
                    *value = stored;
                }
                advance(input, total);
                Step::Request(Request::Write(write))
            }
            _ => self.refuse(refusal(BAD_CHUNK, noreply)),
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
        let refused = match expires_at_once(word) {
            Ok(false) => {
                self.state = State::Keys {
                    with_cas,
                    is_touch: true,
                    is_first: true,
                };
                return None;
            }
            Ok(true) | Err(Expires::Later) => NO_EXPIRING_GET,
            Err(Expires::Malformed) => BAD_EXPTIME,
        };
        self.state = State::SkipLine;
        Some(self.refuse(refused))
    }

    /// The next key of a line, or its end.
    fn key<'a>(&mut self, input: &mut &'a [u8]) -> Step<'a> {
        let State::Keys {
            with_cas,
            is_touch,
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
                    is_touch,
                    is_first: false,
                };
                Step::Request(Request::Get {
                    key,
                    with_cas,
                    is_touch,
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

/// What a line says of the value that follows it.
struct Announced<'a> {
    /// None if it does not say how long the value is.
    bytes: Option<usize>,
    /// What to do with the value, or why nothing.
    write: Result<Write<'a>, Refusal>,
    noreply: bool,
}

fn advance(input: &mut &[u8], bytes: usize) {
    *input = input.get(bytes..).unwrap_or_default();
}

fn refusal(refusal: Refusal, noreply: bool) -> Refusal {
    Refusal {
        closes: refusal.closes || noreply,
        noreply,
        ..refusal
    }
}

fn ends_with_noreply(words: Words<'_>) -> bool {
    words.last() == Some(b"noreply")
}

/// Whether these bytes may be a key of a line.
fn is_key(key: &[u8]) -> bool {
    (1..=KEY_BYTES_MAX).contains(&key.len())
        && !key
            .iter()
            .any(|byte| byte.is_ascii_control() || *byte == b' ')
}

/// A word of a line that may not be whole yet.
enum Word<'a> {
    Whole(&'a [u8]),
    /// The line has ended: its end is the next byte or two.
    None,
    More(usize),
    TooLong,
}

/// Takes the next word off a line, and the spaces before it.
fn next_word<'a>(input: &mut &'a [u8], bytes_max: usize) -> Word<'a> {
    while let Some(rest) = input.strip_prefix(b" ") {
        *input = rest;
    }
    // The word, a \r that may be a part of the line's end, and what ends it.
    let head = input.get(..bytes_max + 2).unwrap_or(input);
    let Some(end) = memchr::memchr2(b' ', b'\n', head) else {
        return match head.len() < bytes_max + 2 {
            true => Word::More(input.len() + 1),
            false => Word::TooLong,
        };
    };
    let mut word = head.get(..end).unwrap_or_default();
    if head.get(end) == Some(&b'\n') {
        word = word.strip_suffix(b"\r").unwrap_or(word);
    }
    if word.is_empty() {
        return Word::None;
    }
    if word.len() > bytes_max {
        return Word::TooLong;
    }
    advance(input, end);
    Word::Whole(word)
}

/// `<key> <flags> <exptime> <bytes> [<cas unique>] [noreply]`
fn text_store(mode: Mode, with_cas: bool, mut words: Words<'_>) -> Announced<'_> {
    let [key, flags, exptime, bytes] = std::array::from_fn(|_| words.next());
    let cas = with_cas.then(|| words.next());
    let noreply = words.next() == Some(b"noreply");
    let (Some(key), Some(flags), Some(exptime), Some(length)) = (key, flags, exptime, bytes) else {
        return Announced {
            bytes: None,
            write: Err(ERROR),
            noreply: false,
        };
    };
    let write = || {
        let flags = number(flags).and_then(|flags| u32::try_from(flags).ok());
        let cas = match cas {
            None => None,
            Some(unique) => Some(unique.and_then(number).ok_or(BAD_FORMAT)?),
        };
        Ok(Write {
            key: text_key(key)?,
            change: Change::Store {
                mode,
                value: &[],
                flags: flags.ok_or(BAD_FORMAT)?,
            },
            cas,
            expires_at_once: expiry(expires_at_once(exptime))?,
            reply: Reply::Text { noreply },
        })
    };
    Announced {
        bytes: claim(length),
        write: write(),
        noreply,
    }
}

/// `<key> <bytes> <flags>*`
fn meta_store(mut words: Words<'_>) -> Announced<'_> {
    let [key, length] = std::array::from_fn(|_| words.next());
    let (Some(key), Some(length)) = (key, length) else {
        return Announced {
            bytes: None,
            write: Err(BAD_FORMAT),
            noreply: false,
        };
    };
    let write = || {
        let (flags, change) = MetaFlags::parse(MetaCommand::Set, key, words.rest())?;
        let store = Change::Store {
            mode: change.mode,
            value: &[],
            flags: change.client_flags,
        };
        of_meta(flags, change, store)
    };
    Announced {
        bytes: claim(length),
        write: write(),
        noreply: false,
    }
}

/// The length of a value; none if no value can have it.
fn claim(word: &[u8]) -> Option<usize> {
    number(word)
        .filter(|bytes| *bytes <= CLAIM_BYTES_MAX)
        .and_then(|bytes| usize::try_from(bytes).ok())
}

fn text_key(key: &[u8]) -> Result<Cow<'_, [u8]>, Refusal> {
    is_key(key).then_some(Cow::Borrowed(key)).ok_or(BAD_KEY)
}

fn meta_key(flags: MetaFlags<'_>) -> Result<Cow<'_, [u8]>, Refusal> {
    if !flags.is_base64 {
        return text_key(flags.key);
    }
    flags
        .decoded_key()
        .filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()))
        .ok_or(BAD_KEY)
}

fn expiry(parsed: Result<bool, Expires>) -> Result<bool, Refusal> {
    parsed.map_err(|expires| match expires {
        Expires::Malformed => BAD_EXPTIME,
        Expires::Later => NO_EXPIRY,
    })
}

fn of_meta<'a>(
    flags: MetaFlags<'a>,
    change: MetaChange,
    what: Change<'a>,
) -> Result<Write<'a>, Refusal> {
    Ok(Write {
        key: meta_key(flags)?,
        change: what,
        cas: change.cas,
        expires_at_once: expiry(change.expiry)?,
        reply: Reply::Meta(flags),
    })
}

/// `<key> <flags>*`
fn meta_get(mut words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let key = words.next().ok_or(ERROR)?;
    let (flags, change) = MetaFlags::parse(MetaCommand::Get, key, words.rest())?;
    if change.expiry != Ok(false) {
        return Err(NO_EXPIRING_GET);
    }
    Ok(Request::MetaGet {
        key: meta_key(flags)?,
        flags,
    })
}

/// `<key> <flags>*`
fn meta_write(command: MetaCommand, mut words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let key = words.next().ok_or(ERROR)?;
    let (flags, change) = MetaFlags::parse(command, key, words.rest())?;
    let what = match command {
        MetaCommand::Delete => Change::Delete,
        _ => Change::Count {
            up: change.up,
            by: change.by,
        },
    };
    Ok(Request::Write(of_meta(flags, change, what)?))
}

fn of_text<'a>(
    key: &'a [u8],
    change: Change<'a>,
    expires_at_once: bool,
    noreply: bool,
) -> Result<Request<'a>, Refusal> {
    Ok(Request::Write(Write {
        key: text_key(key).map_err(|refused| refusal(refused, noreply))?,
        change,
        cas: None,
        expires_at_once,
        reply: Reply::Text { noreply },
    }))
}

/// `<key> [0] [noreply]`
fn delete(mut words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let key = words.next().ok_or(ERROR)?;
    let noreply = ends_with_noreply(words);
    // Once there was a time here; clients still send the only one that was left, 0.
    match (words.next(), words.next(), words.next()) {
        (None, ..) | (Some(b"0" | b"noreply"), None, _) | (Some(b"0"), Some(b"noreply"), None) => {
            of_text(key, Change::Delete, false, noreply)
        }
        _ => Err(refusal(BAD_FORMAT, noreply)),
    }
}

/// `<key> <by> [noreply]`
fn count(up: bool, mut words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let (Some(key), Some(by)) = (words.next(), words.next()) else {
        return Err(ERROR);
    };
    let noreply = ends_with_noreply(words);
    let by = number(by).ok_or(refusal(BAD_DELTA, noreply))?;
    of_text(key, Change::Count { up, by }, false, noreply)
}

/// `<key> <exptime> [noreply]`
fn touch(mut words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let (Some(key), Some(exptime)) = (words.next(), words.next()) else {
        return Err(ERROR);
    };
    let noreply = ends_with_noreply(words);
    let at_once = expiry(expires_at_once(exptime)).map_err(|refused| refusal(refused, noreply))?;
    of_text(key, Change::Touch, at_once, noreply)
}

#[cfg(test)]
mod tests;
