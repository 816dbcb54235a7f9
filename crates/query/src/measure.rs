//! [`Aggregate`]: a measure of the documents that match, or ([`Grouping`]) of each group of them.

use crate::{Comparison, Expression, Filter, Function, GroupOrder, Having, Path, Value};
use quire_model::ordered::Direction;

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
    /// About how many different values: exact up to a few hundred, within some 2 % beyond
    /// (HyperLogLog, 16 KiB of memory).
    ApproximateDistinct(Path),
    /// The number that `percent` of the numbers are at or below: exact of up to 2,048 numbers,
    /// within 1 % of itself of more (DDSketch).
    Percentile {
        /// The field.
        path: Path,
        /// From 0 (the least) to 100 (the greatest); 50 is the median.
        percent: f64,
    },
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
    /// A function of the results of arithmetic.
    Of(Function, Expression),
    /// Measures of each group of documents.
    Group(Box<Grouping>),
}

/// How many fields documents can be grouped by.
pub const GROUP_FIELDS_MAX: usize = 16;

/// Measures of each group of documents that have equal values in some fields.
///
/// A document is in the group of its values. One without a value of a field, or with null alone,
/// has null there; one with several values is in the group of each, and in that of each combination
/// of the values of several fields.
///
/// ```
/// use quire_query::{Aggregate, Grouping, field, find_all};
///
/// let by_mark = Grouping::by(["mark", "year"])
///     .measure("cars", Aggregate::count())
///     .measure("mean", Aggregate::avg("price").among(field("sold").eq(false)))
///     .descending("cars")
///     .limit(10);
/// let query = find_all().aggregate("marks", Aggregate::group(by_mark));
/// # assert!(query.prepare().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grouping {
    /// The fields, one to [`GROUP_FIELDS_MAX`](crate::GROUP_FIELDS_MAX).
    pub by: Vec<Path>,
    /// What is computed of each group, by name.
    pub measures: Vec<(String, Aggregate)>,
    /// Groups that fail one of these are left out.
    pub having: Vec<Having>,
    /// The first order decides, then the second, …, then the values of the group, ascending.
    pub order: Vec<GroupOrder>,
    /// How many groups are returned at most; all if `None`.
    pub limit: Option<u64>,
}

impl Grouping {
    /// Groups by some fields.
    #[must_use]
    pub fn by<P: Into<Path>>(fields: impl IntoIterator<Item = P>) -> Grouping {
        Grouping {
            by: fields.into_iter().map(Into::into).collect(),
            ..Grouping::default()
        }
    }

    /// Adds a measure under a name.
    #[must_use]
    pub fn measure(mut self, name: impl Into<String>, measure: Aggregate) -> Grouping {
        self.measures.push((name.into(), measure));
        self
    }

    /// Keeps groups whose measure compares so with a value.
    #[must_use]
    pub fn having(
        mut self,
        measure: impl Into<String>,
        comparison: Comparison,
        value: impl Into<Value>,
    ) -> Grouping {
        self.having.push(Having {
            measure: measure.into(),
            comparison,
            value: value.into(),
        });
        self
    }

    /// Orders by a measure or a field, the least first.
    #[must_use]
    pub fn ascending(self, name: impl Into<String>) -> Grouping {
        self.ordered(name.into(), Direction::Ascending)
    }

    /// Orders by a measure or a field, the greatest first.
    #[must_use]
    pub fn descending(self, name: impl Into<String>) -> Grouping {
        self.ordered(name.into(), Direction::Descending)
    }

    fn ordered(mut self, name: String, direction: Direction) -> Grouping {
        self.order.push(GroupOrder { name, direction });
        self
    }

    /// Returns at most this many groups.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Grouping {
        self.limit = Some(limit);
        self
    }
}

impl Measure {
    /// The field whose values it is about; none for a count of documents, of an expression, and
    /// for groups.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Measure::Count | Measure::Of(..) | Measure::Group(_) => None,
            Measure::Min(path)
            | Measure::Max(path)
            | Measure::Sum(path)
            | Measure::Avg(path)
            | Measure::Distinct(path)
            | Measure::ApproximateDistinct(path)
            | Measure::Percentile { path, .. }
            | Measure::Terms { path, .. }
            | Measure::Histogram { path, .. } => Some(path),
        }
    }

    /// Shows each field whose values it depends on, but for those of groups; one may come several
    /// times.
    pub fn each_path<'a>(&'a self, visit: &mut dyn FnMut(&'a Path)) {
        match self {
            Measure::Of(_, expression) => expression.each_path(visit),
            _ => self.path().into_iter().for_each(visit),
        }
    }

    /// As [`path`](Self::path), to be changed.
    #[must_use]
    pub fn path_mut(&mut self) -> Option<&mut Path> {
        match self {
            Measure::Count | Measure::Of(..) | Measure::Group(_) => None,
            Measure::Min(path)
            | Measure::Max(path)
            | Measure::Sum(path)
            | Measure::Avg(path)
            | Measure::Distinct(path)
            | Measure::ApproximateDistinct(path)
            | Measure::Percentile { path, .. }
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

    /// About how many different values.
    pub fn approximate_distinct(path: impl Into<Path>) -> Aggregate {
        Measure::ApproximateDistinct(path.into()).into()
    }

    /// The number that `percent` of the numbers, 0 to 100, are at or below.
    pub fn percentile(path: impl Into<Path>, percent: f64) -> Aggregate {
        let path = path.into();
        Measure::Percentile { path, percent }.into()
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

    /// A function of the results of arithmetic.
    #[must_use]
    pub fn of(function: Function, expression: Expression) -> Aggregate {
        Measure::Of(function, expression).into()
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
