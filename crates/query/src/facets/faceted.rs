//! [`Faceted`]: what a facet says.

use super::statistic::Statistic;
use crate::Value;
use crate::aggregated::Aggregated;
use crate::hit::Hit;

/// What a [`Facet`](crate::Facet) says.
#[derive(Debug, Clone, PartialEq)]
pub enum Faceted {
    /// Buckets, in order.
    Buckets {
        /// Those that are wanted.
        buckets: Vec<Bucket>,
        /// Documents of all buckets that are past the limit.
        others: u64,
        /// Values that have no key: of a facet by date, those that are no date.
        unread: u64,
    },
    /// What one measure says.
    Measured(Aggregated),
    /// Statistics of numbers.
    Stats(Box<Stats>),
    /// The number that each of some percents of all numbers are at or below, or how many percent
    /// are below each of some numbers.
    Percentiles(Vec<Option<f64>>),
    /// How many documents, and those that come first.
    Hits {
        /// All of them.
        count: u64,
        /// Those of the page.
        hits: Vec<Hit>,
    },
}

/// Documents with one key.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    /// Its parts; none of a filter.
    pub key: Vec<Value>,
    /// How many documents.
    pub count: u64,
    /// What each facet in it says.
    pub inner: Vec<Faceted>,
}

/// Statistics of numbers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stats {
    /// How many numbers.
    pub count: u64,
    /// The least; none of none, as in the others.
    pub min: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
    /// Their sum, exact but for one rounding.
    pub sum: f64,
    /// Their mean.
    pub avg: Option<f64>,
    /// The sum of their squares.
    pub sum_of_squares: f64,
}

impl Stats {
    /// The variance of all numbers, or that of a sample.
    #[must_use]
    pub fn variance(&self, of_sample: bool) -> Option<f64> {
        let count = self.count as f64;
        let squares = self.sum_of_squares - self.sum * self.sum / count;
        match of_sample {
            _ if self.count == 0 => None,
            true if self.count == 1 => None,
            true => Some(squares.max(0.0) / (count - 1.0)),
            false => Some(squares.max(0.0) / count),
        }
    }
}

impl Faceted {
    /// One number of what it says; none if it has no such one.
    #[must_use]
    pub fn number(&self, statistic: Statistic) -> Option<f64> {
        match (self, statistic) {
            (Faceted::Measured(measured), Statistic::Value) => match measured {
                Aggregated::Count(count) => Some(*count as f64),
                Aggregated::Number(number) => *number,
                Aggregated::Value(value) => value.as_ref()?.as_f64(),
                _ => None,
            },
            (Faceted::Percentiles(numbers), Statistic::Percentile(place)) => {
                numbers.get(place).copied().flatten()
            }
            (Faceted::Stats(stats), statistic) => match statistic {
                Statistic::Count => Some(stats.count as f64),
                Statistic::Min => stats.min,
                Statistic::Max => stats.max,
                Statistic::Sum => Some(stats.sum),
                Statistic::Avg => stats.avg,
                Statistic::SumOfSquares => Some(stats.sum_of_squares),
                Statistic::Variance => stats.variance(false),
                Statistic::Deviation => stats.variance(false).map(f64::sqrt),
                Statistic::Value | Statistic::Percentile(_) => None,
            },
            // Of one bucket.
            (Faceted::Buckets { buckets, .. }, Statistic::Count) => {
                Some(buckets.first()?.count as f64)
            }
            _ => None,
        }
    }

    /// Calls `visit` with each hit.
    pub(crate) fn each_hit_mut(&mut self, visit: &mut dyn FnMut(&mut Hit)) {
        match self {
            Faceted::Hits { hits, .. } => hits.iter_mut().for_each(visit),
            Faceted::Buckets { buckets, .. } => {
                for inner in buckets.iter_mut().flat_map(|bucket| &mut bucket.inner) {
                    inner.each_hit_mut(visit);
                }
            }
            _ => {}
        }
    }

    /// How many values had no key, here and in all buckets.
    #[must_use]
    pub fn unread(&self) -> u64 {
        match self {
            Faceted::Buckets {
                buckets, unread, ..
            } => {
                let inner = buckets.iter().flat_map(|bucket| &bucket.inner);
                inner.map(Faceted::unread).sum::<u64>() + unread
            }
            _ => 0,
        }
    }
}
