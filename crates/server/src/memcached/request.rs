//! What a client asks for, as the parser hands it on: borrowed from the bytes it came in, nothing
//! looked up yet.

use std::borrow::Cow;

use super::meta::MetaFlags;

/// One request, or one key of a multi-get: a line of any number of keys is never held whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// One key of `get`, `gets`, `gat`, `gats`.
    Get {
        key: &'a [u8],
        with_cas: bool,
        is_touch: bool,
    },
    /// The end of their line.
    GetEnd,
    MetaGet {
        key: Cow<'a, [u8]>,
        flags: MetaFlags<'a>,
    },
    Write(Write<'a>),
    MetaNoop,
    Version,
    Verbosity {
        noreply: bool,
    },
    Stats,
    StatsReset,
    Quit,
    Refused(Refusal),
}

impl Request<'_> {
    /// The key of a request that only reads.
    pub(crate) fn read_key(&self) -> Option<&[u8]> {
        match self {
            Request::Get { key, .. } => Some(key),
            Request::MetaGet { key, .. } => Some(key),
            _ => None,
        }
    }
}

/// A request that changes a document, or may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write<'a> {
    pub(crate) key: Cow<'a, [u8]>,
    pub(crate) change: Change<'a>,
    /// The version that the document must have.
    pub(crate) cas: Option<u64>,
    /// Its time to live is over at once: what is there afterwards is nothing.
    pub(crate) expires_at_once: bool,
    pub(crate) reply: Reply<'a>,
}

/// What is to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    Store {
        mode: Mode,
        value: &'a [u8],
        flags: u32,
    },
    Delete,
    Touch,
    /// Adds or takes away, as a number of 64 bits.
    Count {
        up: bool,
        by: u64,
    },
}

/// When, and what, is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
}

/// In which words a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    Text { noreply: bool },
    Meta(MetaFlags<'a>),
}

/// A request that can't be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// What is answered.
    pub(crate) line: &'static str,
    /// Where the next request begins is not known, or nobody may be told: the connection ends.
    pub(crate) closes: bool,
    /// The client reads no answer to this request: the line would be taken for the answer to its
    /// next one.
    pub(crate) noreply: bool,
}

impl Refusal {
    pub(crate) const fn new(line: &'static str) -> Refusal {
        Refusal {
            line,
            closes: false,
            noreply: false,
        }
    }

    /// One after which the connection ends.
    pub(crate) const fn last(line: &'static str) -> Refusal {
        Refusal {
            line,
            closes: true,
            noreply: false,
        }
    }
}

pub(crate) const ERROR: Refusal = Refusal::new("ERROR");
pub(crate) const BAD_FORMAT: Refusal = Refusal::new("CLIENT_ERROR bad command line format");
pub(crate) const BAD_KEY: Refusal =
    Refusal::new("CLIENT_ERROR bad key: 1 to 250 bytes without white space or control characters");
pub(crate) const BAD_CHUNK: Refusal = Refusal::last("CLIENT_ERROR bad data chunk");
pub(crate) const BAD_DELTA: Refusal = Refusal::new("CLIENT_ERROR invalid numeric delta argument");
pub(crate) const BAD_EXPTIME: Refusal = Refusal::new("CLIENT_ERROR invalid exptime argument");
pub(crate) const BAD_FLAG: Refusal = Refusal::new("CLIENT_ERROR invalid flag");
pub(crate) const DUPLICATE_FLAG: Refusal = Refusal::new("CLIENT_ERROR duplicate flag");
pub(crate) const UNSUPPORTED_FLAG: Refusal =
    Refusal::new("CLIENT_ERROR this flag is not supported");
pub(crate) const NO_EXPIRY: Refusal =
    Refusal::new("CLIENT_ERROR exptime must be 0 or, to remove, negative: documents do not expire");
pub(crate) const NO_EXPIRING_GET: Refusal =
    Refusal::new("CLIENT_ERROR exptime of a get must be 0: documents do not expire");
pub(crate) const TOO_LARGE: Refusal = Refusal::new("SERVER_ERROR object too large for cache");
pub(crate) const NO_ROOM: Refusal = Refusal::new("SERVER_ERROR out of memory storing object");
pub(crate) const LINE_TOO_LONG: Refusal = Refusal::last("CLIENT_ERROR line too long");
pub(crate) const NOT_HTTP: Refusal =
    Refusal::last("CLIENT_ERROR this port speaks memcached, not HTTP");
pub(crate) const NO_FLUSH: Refusal =
    Refusal::new("CLIENT_ERROR flush_all not allowed: drop the collection instead");
pub(crate) const UNKNOWN_STATS: Refusal =
    Refusal::new("CLIENT_ERROR only stats and stats reset are there");
