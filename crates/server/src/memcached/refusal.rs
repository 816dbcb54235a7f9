//! Requests that are refused, and the lines that say so. Where memcached has a line for the same
//! error, it is memcached's.

/// A request that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The answer.
    pub(crate) line: &'static str,
    /// The connection ends: it is not known where the next request begins, or the client reads no
    /// answer.
    pub(crate) closes: bool,
    /// The client reads no answer to this request. It would take the line for the answer to its
    /// next request.
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

    /// A refusal that ends the connection.
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
pub(crate) const NOT_ALONE: Refusal = Refusal::new(
    "CLIENT_ERROR exptime must be 0: the document has other fields, and would expire whole",
);
pub(crate) const TOO_LARGE: Refusal = Refusal::new("SERVER_ERROR object too large for cache");
pub(crate) const NO_ROOM: Refusal = Refusal::new("SERVER_ERROR out of memory storing object");
pub(crate) const CANCELLED: Refusal = Refusal::last("SERVER_ERROR cancelled by user request");
pub(crate) const LINE_TOO_LONG: Refusal = Refusal::last("CLIENT_ERROR line too long");
pub(crate) const NOT_HTTP: Refusal =
    Refusal::last("CLIENT_ERROR this port speaks memcached, not HTTP");
pub(crate) const NOT_BINARY: Refusal =
    Refusal::last("CLIENT_ERROR the binary protocol is not supported");
pub(crate) const NO_FLUSH: Refusal =
    Refusal::new("CLIENT_ERROR flush_all not allowed: drop the collection instead");
pub(crate) const UNKNOWN_STATS: Refusal =
    Refusal::new("CLIENT_ERROR unknown stats: only stats and stats reset are supported");
