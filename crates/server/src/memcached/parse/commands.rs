//! The commands that are a line of their own: their words as requests.

use super::key::{meta_key, text_key};
use crate::memcached::exptime::Exptime;
use crate::memcached::meta::{MetaChange, MetaCommand, MetaFlags};
use crate::memcached::mode::Mode;
use crate::memcached::refusal::{BAD_DELTA, BAD_EXPTIME, BAD_FORMAT, ERROR, Refusal};
use crate::memcached::request::{Change, Reply, Request, Write};
use crate::memcached::words::{Words, number};

/// The longest value that a line can announce. A larger number is taken as malformed.
const ANNOUNCED_BYTES_MAX: u64 = i32::MAX as u64 - 2;

/// What a line announces of the value after it.
pub(super) struct Announced<'a> {
    /// The value's length; none if the line does not state a valid one.
    pub(super) bytes: Option<usize>,
    /// What to do with the value, or why it is refused.
    pub(super) write: Result<Write<'a>, Refusal>,
    pub(super) noreply: bool,
}

/// A refusal of a request whose client reads an answer or, with `noreply`, does not. Without an
/// answer the connection ends, so that the client does not miss the error.
pub(super) fn with_reply(refusal: Refusal, noreply: bool) -> Refusal {
    Refusal {
        closes: refusal.closes || noreply,
        noreply,
        ..refusal
    }
}

pub(super) fn ends_with_noreply(words: Words<'_>) -> bool {
    words.last() == Some(b"noreply")
}

/// `<key> <flags> <exptime> <bytes> [<cas unique>] [noreply]`
pub(super) fn text_store(mode: Mode, with_cas: bool, mut words: Words<'_>) -> Announced<'_> {
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
            exptime: Some(Exptime::parse(exptime).ok_or(BAD_EXPTIME)?),
            reply: Reply::Text { noreply },
        })
    };
    Announced {
        bytes: announced_bytes(length),
        write: write(),
        noreply,
    }
}

/// `<key> <bytes> <flags>*`
pub(super) fn meta_store(mut words: Words<'_>) -> Announced<'_> {
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
        bytes: announced_bytes(length),
        write: write(),
        noreply: false,
    }
}

/// The length of a value; none if it is malformed or too large for any value.
fn announced_bytes(word: &[u8]) -> Option<usize> {
    number(word)
        .filter(|bytes| *bytes <= ANNOUNCED_BYTES_MAX)
        .and_then(|bytes| usize::try_from(bytes).ok())
}

/// A write of a meta command.
fn of_meta<'a>(
    flags: MetaFlags<'a>,
    change: MetaChange,
    what: Change<'a>,
) -> Result<Write<'a>, Refusal> {
    // What is stored without a time never expires.
    let exptime = match what {
        Change::Store { .. } => change.exptime.or(Some(Exptime::Never)),
        _ => change.exptime,
    };
    Ok(Write {
        key: meta_key(flags)?,
        change: what,
        cas: change.cas,
        exptime,
        reply: Reply::Meta(flags),
    })
}

/// `<key> <flags>*`
pub(super) fn meta_get(mut words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let key = words.next().ok_or(ERROR)?;
    let (flags, change) = MetaFlags::parse(MetaCommand::Get, key, words.rest())?;
    Ok(Request::MetaGet {
        key: meta_key(flags)?,
        flags,
        touch: change.exptime,
    })
}

/// `<key> <flags>*`
pub(super) fn meta_write(
    command: MetaCommand,
    mut words: Words<'_>,
) -> Result<Request<'_>, Refusal> {
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

/// A write of a text command without a value.
fn of_text<'a>(
    key: &'a [u8],
    change: Change<'a>,
    exptime: Option<Exptime>,
    noreply: bool,
) -> Result<Request<'a>, Refusal> {
    Ok(Request::Write(Write {
        key: text_key(key).map_err(|refused| with_reply(refused, noreply))?,
        change,
        cas: None,
        exptime,
        reply: Reply::Text { noreply },
    }))
}

/// `<key> [0] [noreply]`
pub(super) fn delete(mut words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let key = words.next().ok_or(ERROR)?;
    let noreply = ends_with_noreply(words);
    // Old versions of the protocol had a time here. Clients still send it, always as 0.
    match (words.next(), words.next(), words.next()) {
        (None, ..) | (Some(b"0" | b"noreply"), None, _) | (Some(b"0"), Some(b"noreply"), None) => {
            of_text(key, Change::Delete, None, noreply)
        }
        _ => Err(with_reply(BAD_FORMAT, noreply)),
    }
}

/// `<key> <by> [noreply]`
pub(super) fn count(up: bool, mut words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let (Some(key), Some(by)) = (words.next(), words.next()) else {
        return Err(ERROR);
    };
    let noreply = ends_with_noreply(words);
    let by = number(by).ok_or(with_reply(BAD_DELTA, noreply))?;
    of_text(key, Change::Count { up, by }, None, noreply)
}

/// `<key> <exptime> [noreply]`
pub(super) fn touch(mut words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let (Some(key), Some(exptime)) = (words.next(), words.next()) else {
        return Err(ERROR);
    };
    let noreply = ends_with_noreply(words);
    let exptime = Exptime::parse(exptime).ok_or(with_reply(BAD_EXPTIME, noreply))?;
    of_text(key, Change::Touch, Some(exptime), noreply)
}
