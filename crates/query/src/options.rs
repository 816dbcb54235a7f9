//! [`Options`]: how a query is answered, and what it may take.

use crate::{Access, Error, Result, Workers};
use std::time::Duration;

/// A clock: time since some fixed moment.
pub type Clock<'a> = &'a (dyn Fn() -> Duration + Sync);

/// Whether a query is to stop, for example because its client has gone.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// How a query is answered.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How a field that no document has is treated.
    pub unknown_fields: UnknownFields,
    /// Memory that the query may hold, in bytes, beside its sets of docids: for hits that are
    /// sorted or returned at once, and values that are counted.
    pub memory_bytes_max: usize,
    /// If there is one, the answer explains itself, with the time that each step took.
    pub clock: Option<Clock<'a>>,
    /// Called before each shard, or before each batch of documents where there is no index: true
    /// ends the query with an error of kind [`Stopped`](crate::ErrorKind::Stopped).
    pub stop: Option<Stop<'a>>,
    /// If `stop` ends the query, the answer is that of what was seen until then, and says so. Else
    /// it is an error.
    pub partial: bool,
    /// Executes predicates in this way, where it can be gone, and not in the cheapest: for tests
    /// and benchmarks.
    pub access: Option<Access>,
    /// Threads that the query may use beside its own, where that saves time.
    pub workers: Option<Workers<'a>>,
}

impl Default for Options<'_> {
    /// Unknown fields match nothing; 64 MiB; no explanation.
    fn default() -> Self {
        Options {
            unknown_fields: UnknownFields::MatchNothing,
            memory_bytes_max: 64 << 20,
            clock: None,
            stop: None,
            partial: false,
            access: None,
            workers: None,
        }
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("unknown_fields", &self.unknown_fields)
            .field("memory_bytes_max", &self.memory_bytes_max)
            .field("clock", &self.clock.is_some())
            .field("stop", &self.stop.is_some())
            .field("partial", &self.partial)
            .field("access", &self.access)
            .field("workers", &self.workers.is_some())
            .finish()
    }
}

impl Options<'_> {
    /// # Errors
    /// `Stopped` if the query is to stop.
    pub fn check_stop(&self) -> Result<()> {
        match self.stop {
            Some(stop) if stop() => Err(Error::Stopped),
            _ => Ok(()),
        }
    }
}

/// How a field of a filter, an order or an aggregate is treated that no document has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownFields {
    /// It has no values, as in a document without it.
    #[default]
    MatchNothing,
    /// The query is an error, of kind [`UnknownField`](crate::ErrorKind::UnknownField).
    Refuse,
}
