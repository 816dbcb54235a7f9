//! [`Query`]: what is asked.

use crate::scan::values;
use crate::{Filter, Path, Value};
use quire_model::ordered::Direction;
use quire_model::{Document, ObjectRef};

/// A question to documents: which, in which order, how many of them, and what is to be said about
/// all.
///
/// ```
/// use quire_query::{Aggregate, field, find};
///
/// let cars = find(field("mark").eq("audi").and(field("price").between(5_000, 20_000)))
///     .order_by(field("price").ascending())
///     .order_by(field("added").descending())
///     .skip(20)
///     .limit(10)
///     .with_count()
///     .select(["mark", "model", "price"])
///     .aggregate("dearest", Aggregate::max("price"))
///     .aggregate("models", Aggregate::terms("model", 5).among(field("sold").eq(false)));
/// assert_eq!(cars.limit, Some(10));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Which documents.
    pub filter: Filter,
    /// The first order decides, then the second, …, then shard and docid. See [`Order`].
    pub order: Vec<Order>,
    /// How many hits are passed over.
    pub skip: u64,
    /// How many hits are given at most; all if `None`.
    pub limit: Option<u64>,
    /// Whether all that match are counted, whatever the limit.
    pub count: bool,
    /// Which fields of a hit are given; all if `None`.
    pub fields: Option<Vec<Path>>,
    /// What is said about all that match, under names.
    pub aggregates: Vec<(String, Aggregate)>,
}

/// The documents that match.
#[must_use]
pub fn find(filter: Filter) -> Query {
    Query {
        filter,
        order: Vec::new(),
        skip: 0,
        limit: None,
        count: false,
        fields: None,
        aggregates: Vec::new(),
    }
}

/// All documents.
#[must_use]
pub fn find_all() -> Query {
    find(Filter::All)
}

impl Query {
    /// Adds an order, for those that are equal by the orders before.
    #[must_use]
    pub fn order_by(mut self, order: Order) -> Query {
        self.order.push(order);
        self
    }

    /// Passes over this many hits.
    #[must_use]
    pub fn skip(mut self, skip: u64) -> Query {
        self.skip = skip;
        self
    }

    /// Gives at most this many hits.
    #[must_use]
    pub fn limit(mut self, limit: u64) -> Query {
        self.limit = Some(limit);
        self
    }

    /// Counts all that match.
    #[must_use]
    pub fn with_count(mut self) -> Query {
        self.count = true;
        self
    }

    /// Gives these fields of each hit alone.
    #[must_use]
    pub fn select<P: Into<Path>>(mut self, fields: impl IntoIterator<Item = P>) -> Query {
        self.fields = Some(fields.into_iter().map(Into::into).collect());
        self
    }

    /// Adds an aggregate under a name.
    #[must_use]
    pub fn aggregate(mut self, name: impl Into<String>, aggregate: Aggregate) -> Query {
        self.aggregates.push((name.into(), aggregate));
        self
    }
}

/// By which field hits are ordered: ascending by the smallest of a document's values, descending by
/// the largest. Documents without a value come last either way. Null is a value, the smallest.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    /// The field.
    pub path: Path,
    /// Which way.
    pub direction: Direction,
}

impl Order {
    /// The value that a document is ordered by.
    #[must_use]
    pub fn value_of(&self, document: &Document) -> Option<Value> {
        self.value_in(document.root(), &mut Vec::new())
    }

    /// The same; `scratch` is room for a term.
    pub(crate) fn value_in(&self, root: ObjectRef<'_>, scratch: &mut Vec<u8>) -> Option<Value> {
        let mut values = values(&self.path, root, scratch);
        match self.direction {
            Direction::Ascending => values.drain(..).next(),
            Direction::Descending => values.pop(),
        }
    }
}

/// Something said about all documents that match, or those among them that a filter of its own
/// picks.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    /// What.
    pub what: Measure,
    /// Only of documents that match this too.
    pub filter: Option<Filter>,
}

/// What an [`Aggregate`] says. Nulls are passed over; of an array, each different value counts.
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
    /// The sum of the numbers by how many there are.
    Avg(Path),
    /// How many different values.
    Distinct(Path),
    /// The values that most documents have, and how many have each: most first, then by value.
    Terms {
        /// The field.
        path: Path,
        /// How many values are given at most.
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
}

impl Measure {
    /// The field it is about.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Measure::Count => None,
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

    /// Only of documents that match `filter` too.
    #[must_use]
    pub fn among(mut self, filter: Filter) -> Aggregate {
        self.filter = Some(filter);
        self
    }
}
