//! [`Answer`]: what a query gives, and what it may take.

use crate::{Explain, Value};

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
