//! [`Aggregated`]: the result of an aggregate.

use crate::{Path, Value};

/// The result of an aggregate.
#[derive(Debug, Clone, PartialEq)]
pub enum Aggregated {
    /// The number of documents, or of distinct values.
    Count(u64),
    /// The smallest or largest value; none if there is none.
    Value(Option<Value>),
    /// A sum, 0 of nothing, or a mean, none of nothing.
    Number(Option<f64>),
    /// Values by how many documents have them.
    Terms {
        /// The most frequent values: most frequent first, then by value.
        terms: Vec<(Value, u64)>,
        /// The counts of all other values, added up.
        others: u64,
    },
    /// Documents by interval: where it begins, ascending, and how many.
    Histogram(Vec<(f64, u64)>),
    /// Measures by group.
    Groups {
        /// The fields that the groups were made by.
        by: Vec<Path>,
        /// The names of the measures.
        names: Vec<String>,
        /// The groups that are wanted, in order.
        groups: Vec<Group>,
        /// How many groups there are, with those past the limit.
        all: u64,
    },
}

/// One group of documents, and what was measured of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its value of each field; null where its documents have none.
    pub values: Vec<Value>,
    /// What each measure says.
    pub measures: Vec<Aggregated>,
}
