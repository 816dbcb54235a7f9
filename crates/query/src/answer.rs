//! [`Answer`]: what a query gives, and what it may take.

use crate::{Error, Explain, Result, Value};
use std::time::Duration;

/// A clock: time since some fixed moment.
pub type Clock<'a> = &'a (dyn Fn() -> Duration + Sync);

/// Whether a query is to end: nobody waits for its answer any more.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// How a query is to be answered.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// What is done about a field that no document has.
    pub unknown_fields: UnknownFields,
    /// How much memory the query may hold, in bytes, beyond the sets of docids: what is sorted,
    /// counted by value, or given at once.
    pub memory_bytes_max: usize,
    /// If there is one, the answer explains itself; it tells how long each step took.
    pub clock: Option<Clock<'a>>,
    /// Asked before each shard, or before each batch of documents where there is no index: true
    /// ends the query with an error, of kind [`Stopped`](crate::ErrorKind::Stopped).
    pub stop: Option<Stop<'a>>,
}

impl Default for Options<'_> {
    /// Unknown fields match nothing; 64 MiB; no explanation.
    fn default() -> Self {
        Options {
            unknown_fields: UnknownFields::MatchNothing,
            memory_bytes_max: 64 << 20,
            clock: None,
            stop: None,
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
            .finish()
    }
}

impl Options<'_> {
    /// # Errors
    /// `Stopped` if the query is to end.
    pub fn check_stop(&self) -> Result<()> {
        match self.stop {
            Some(stop) if stop() => Err(Error::Stopped),
            _ => Ok(()),
        }
    }
}

/// What is done about a field of a filter, an order or an aggregate that no document has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownFields {
    /// It has no values, as in a document without it.
    #[default]
    MatchNothing,
    /// The query is an error, of kind [`UnknownField`](crate::ErrorKind::UnknownField).
    Refuse,
}

/// A document that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hit {
    /// The place of its shard among those asked.
    pub shard: u32,
    /// Its docid there.
    pub doc: u32,
}

/// What a query gives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The page of hits; empty if they were shown to a function instead.
    pub hits: Vec<Hit>,
    /// How many match, if that was asked.
    pub count: Option<u64>,
    /// What the aggregates say, as they were asked.
    pub aggregates: Vec<(String, Aggregated)>,
    /// How the answer was found, if that was asked.
    pub explain: Option<Box<Explain>>,
}

/// What an aggregate says.
#[derive(Debug, Clone, PartialEq)]
pub enum Aggregated {
    /// So many documents, or different values.
    Count(u64),
    /// The smallest or largest value; none if there is none.
    Value(Option<Value>),
    /// A sum, 0 of nothing, or a mean, none of nothing.
    Number(Option<f64>),
    /// Values by how many documents have them.
    Terms {
        /// The values that most have: most first, then by value.
        terms: Vec<(Value, u64)>,
        /// The counts of all other values, added up.
        others: u64,
    },
    /// Documents by interval: where it begins, ascending, and how many.
    Histogram(Vec<(f64, u64)>),
}
