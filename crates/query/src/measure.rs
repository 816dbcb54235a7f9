//! [`Aggregate`]: a measure of the documents that match.

use crate::{Filter, Grouping, Path};

/// A measure of all documents that match the query, or of those that match a filter of its own too.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// The measure.
    pub what: Measure,
    /// Only of documents that match this too.
    pub filter: Option<Filter>,
}

/// What an [`Aggregate`] computes. Nulls are ignored; of an array, each distinct value counts.
#[derive(Debug, Clone, PartialEq)]
pub enum Measure {
    /// How many documents.
    Count,
    /// The smallest value.
    Min(Path),
    /// The largest value.
    Max(Path),
    /// The sum of the numbers, exact but for one rounding at the end.
    Sum(Path),
    /// The mean of the numbers.
    Avg(Path),
    /// How many different values.
    Distinct(Path),
    /// The values that most documents have, and how many have each: most first, then by value.
    Terms {
        /// The field.
        path: Path,
        /// How many values are returned at most.
        limit: u64,
    },
    /// How many documents have a number in each interval `[n × interval, (n + 1) × interval)`,
    /// those that have any.
    Histogram {
        /// The field.
        path: Path,
        /// Width of an interval: finite, above 0.
        interval: f64,
    },
    /// Measures of each group of documents.
    Group(Box<Grouping>),
}

impl Measure {
    /// The field it is about; none for a count of documents, and for groups.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Measure::Count | Measure::Group(_) => None,
            Measure::Min(path)
            | Measure::Max(path)
            | Measure::Sum(path)
            | Measure::Avg(path)
            | Measure::Distinct(path)
            | Measure::Terms { path, .. }
            | Measure::Histogram { path, .. } => Some(path),
        }
    }
}

impl From<Measure> for Aggregate {
    fn from(what: Measure) -> Aggregate {
        Aggregate { what, filter: None }
    }
}

impl Aggregate {
    /// How many documents.
    #[must_use]
    pub fn count() -> Aggregate {
        Measure::Count.into()
    }

    /// The smallest value.
    pub fn min(path: impl Into<Path>) -> Aggregate {
        Measure::Min(path.into()).into()
    }

    /// The largest value.
    pub fn max(path: impl Into<Path>) -> Aggregate {
        Measure::Max(path.into()).into()
    }

    /// The sum of the numbers.
    pub fn sum(path: impl Into<Path>) -> Aggregate {
        Measure::Sum(path.into()).into()
    }

    /// The mean of the numbers.
    pub fn avg(path: impl Into<Path>) -> Aggregate {
        Measure::Avg(path.into()).into()
    }

    /// How many different values.
    pub fn distinct(path: impl Into<Path>) -> Aggregate {
        Measure::Distinct(path.into()).into()
    }

    /// The `limit` values that most documents have.
    pub fn terms(path: impl Into<Path>, limit: u64) -> Aggregate {
        let path = path.into();
        Measure::Terms { path, limit }.into()
    }

    /// Counts by interval.
    pub fn histogram(path: impl Into<Path>, interval: f64) -> Aggregate {
        let path = path.into();
        Measure::Histogram { path, interval }.into()
    }

    /// Measures of each group.
    #[must_use]
    pub fn group(grouping: Grouping) -> Aggregate {
        Measure::Group(Box::new(grouping)).into()
    }

    /// Only of documents that match `filter` too.
    #[must_use]
    pub fn among(mut self, filter: Filter) -> Aggregate {
        self.filter = Some(filter);
        self
    }
}
