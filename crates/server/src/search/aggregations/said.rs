//! [`Said`]: what an aggregation says.

use quiredb::query::{Faceted, Stats, Value};

/// What an aggregation says.
#[derive(Debug)]
pub(crate) enum Said {
    Buckets {
        buckets: Vec<SaidBucket>,
        others: u64,
    },
    /// A metric, or hits.
    Faceted(Faceted),
    /// A pipeline's number.
    Number(Option<f64>),
    /// The greatest or the least of buckets, and their keys.
    Extreme(Option<f64>, Vec<String>),
    Stats(Stats),
    /// It is not in the answer.
    Nothing,
}

/// A bucket, and what each aggregation in it says.
#[derive(Debug)]
pub(crate) struct SaidBucket {
    pub(super) key: Vec<Value>,
    pub(super) count: u64,
    pub(super) inner: Vec<Said>,
}
