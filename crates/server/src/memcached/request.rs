//! A client's request, as the parser returns it: borrowed from the bytes it came in, before any
//! lookup.

use std::borrow::Cow;
use std::fmt;

use super::exptime::Exptime;
use super::meta::MetaFlags;
use super::mode::Mode;
use super::refusal::Refusal;

/// One request, or one key of a multi-get: the parser returns a line of keys key by key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// One key of `get`, `gets`, `gat`, `gats`.
    Get {
        key: &'a [u8],
        with_cas: bool,
        /// That of a `gat`.
        touch: Option<Exptime>,
    },
    /// The end of their line.
    GetEnd,
    MetaGet {
        key: Cow<'a, [u8]>,
        flags: MetaFlags<'a>,
        touch: Option<Exptime>,
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

    /// The write of a read that sets when the value expires.
    pub(crate) fn touch(&self) -> Option<Write<'_>> {
        let exptime = match self {
            Request::Get { touch, .. } | Request::MetaGet { touch, .. } => (*touch)?,
            _ => return None,
        };
        Some(Write {
            key: Cow::Borrowed(self.read_key()?),
            change: Change::Touch,
            cas: None,
            exptime: Some(exptime),
            reply: Reply::Text { noreply: false },
        })
    }
}

/// The request for people: the command, and its key.
impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (command, key) = match self {
            Request::Get { key, .. } => ("get", *key),
            Request::MetaGet { key, .. } => ("mg", key.as_ref()),
            Request::Write(write) => (write.change.name(), write.key.as_ref()),
            Request::GetEnd => ("get", &[][..]),
            Request::Stats | Request::StatsReset => ("stats", &[][..]),
            _ => ("other", &[][..]),
        };
        write!(f, "{command} {}", String::from_utf8_lossy(key))
    }
}

/// A request that may change a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write<'a> {
    pub(crate) key: Cow<'a, [u8]>,
    pub(crate) change: Change<'a>,
    /// The version that the document must have.
    pub(crate) cas: Option<u64>,
    /// When the value expires; none if that stays as it is.
    pub(crate) exptime: Option<Exptime>,
    pub(crate) reply: Reply<'a>,
}

/// What a write changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    Store {
        mode: Mode,
        value: &'a [u8],
        flags: u32,
    },
    Delete,
    Touch,
    /// Adds to, or subtracts from, a number of 64 bits.
    Count {
        up: bool,
        by: u64,
    },
}

impl Change<'_> {
    fn name(&self) -> &'static str {
        match self {
            Change::Store { .. } => "set",
            Change::Delete => "delete",
            Change::Touch => "touch",
            Change::Count { up: true, .. } => "incr",
            Change::Count { up: false, .. } => "decr",
        }
    }
}

/// How a write is answered: as text command or as meta command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply<'a> {
    Text { noreply: bool },
    Meta(MetaFlags<'a>),
}
