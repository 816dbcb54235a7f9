//! [`Facet`]: what is computed of the documents of a bucket, or of all that match.

use super::{Metric, Rounding, TextFilter};
use crate::{Cast, Filter, Order, Path, Value};
use quire_model::ordered::Direction;
use std::fmt;

/// How many facets a query may have, those in others included.
pub(crate) const FACETS_MAX: usize = 256;

/// How deep facets may be nested.
pub(crate) const FACET_DEPTH_MAX: usize = 16;

/// What is computed of the documents that match, or of those of a bucket of another facet.
///
/// ```
/// use quire_query::{Buckets, Facet, FacetKind, Measure, Metric, Source, find_all};
///
/// let mean = Facet::metric(Metric::Measure(Measure::Avg("price".into())));
/// let marks = Facet::buckets(Buckets::by([Source::values("mark")])).with("mean", mean);
/// let query = find_all().facet("marks", marks);
/// # assert!(query.prepare().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Facet {
    /// What is computed.
    pub kind: FacetKind,
    /// What is computed of each bucket, by name; of buckets alone.
    pub inner: Vec<(String, Facet)>,
}

/// What a [`Facet`] computes.
#[derive(Debug, Clone, PartialEq)]
pub enum FacetKind {
    /// A bucket for each key that a document has.
    Buckets(Buckets),
    /// A bucket for each filter, in this order, empty ones too.
    Filters(Vec<Filter>),
    /// A measure.
    Metric {
        /// What is measured.
        metric: Metric,
        /// The value of a document that has none.
        missing: Option<Value>,
        /// Values are measured as what they say; those that say nothing of this kind are left out.
        cast: Option<Cast>,
    },
    /// The documents that come first in an order.
    Hits {
        /// By shard and docid, if it is empty.
        order: Vec<Order>,
        /// How many are left out.
        skip: u64,
        /// How many there are at most.
        limit: u64,
    },
}

/// Buckets by the values of documents. A document with several keys is in the bucket of each; one
/// with several sources is in that of each combination of their keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Buckets {
    /// What the key is made of, in order; one at least.
    pub by: Vec<Source>,
    /// The first order decides, then the second, …, then the key.
    pub order: Vec<BucketOrder>,
    /// How many buckets are returned at most; all if `None`.
    pub limit: Option<u64>,
    /// Buckets of fewer documents are left out.
    pub documents_min: u64,
    /// Only buckets whose keys come after this one.
    pub after: Option<Vec<Value>>,
}

/// A part of the key of a bucket.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The field.
    pub path: Path,
    /// Keys are of what values say; those that say nothing of this kind have none.
    pub cast: Option<Cast>,
    /// What the key is of a value.
    pub key: BucketKey,
    /// What the key is of a document without a value.
    pub missing: Missing,
    /// The order of keys.
    pub direction: Direction,
}

/// What the key is of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum BucketKey {
    /// The value.
    Value(TextFilter),
    /// Where the interval `[n × width + offset, (n + 1) × width + offset)` with a number begins.
    Interval {
        /// Finite, above 0.
        width: f64,
        /// Finite.
        offset: f64,
    },
    /// Where the interval with a date begins, in milliseconds since 1970 UTC.
    Date(Rounding),
    /// The indexes of the ranges with a date: from the first millisecond, to before the second.
    DateRanges(Vec<(Option<i64>, Option<i64>)>),
}

/// What the key is of a document without a value, or with null alone.
#[derive(Debug, Clone, PartialEq)]
pub enum Missing {
    /// It has none.
    LeftOut,
    /// It has null.
    Null,
    /// That of this value.
    As(Value),
}

/// What buckets are ordered by.
#[derive(Debug, Clone, PartialEq)]
pub struct BucketOrder {
    /// What.
    pub by: BucketOrderBy,
    /// Which way. Buckets without a value come last either way.
    pub direction: Direction,
}

/// What buckets are ordered by.
#[derive(Debug, Clone, PartialEq)]
pub enum BucketOrderBy {
    /// How many documents they have.
    Count,
    /// The key.
    Key,
    /// What a facet in them says.
    Inner {
        /// The names that lead to it: each but the last names filters, the first of which is gone
        /// into.
        path: Vec<String>,
        /// Which number of it.
        statistic: super::Statistic,
    },
}

impl Facet {
    /// Buckets by values.
    #[must_use]
    pub fn buckets(buckets: Buckets) -> Facet {
        FacetKind::Buckets(buckets).into()
    }

    /// A measure.
    #[must_use]
    pub fn metric(metric: Metric) -> Facet {
        let (missing, cast) = (None, None);
        FacetKind::Metric {
            metric,
            missing,
            cast,
        }
        .into()
    }

    /// Computes a facet of each bucket too.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, inner: Facet) -> Facet {
        self.inner.push((name.into(), inner));
        self
    }

    /// Calls `visit` with each field that it or a facet in it is about, but those of filters.
    ///
    /// # Errors
    /// The first of `visit`.
    pub fn each_path_mut<E>(
        &mut self,
        visit: &mut dyn FnMut(&mut Path) -> Result<(), E>,
    ) -> Result<(), E> {
        match &mut self.kind {
            FacetKind::Buckets(buckets) => {
                let mut sources = buckets.by.iter_mut();
                sources.try_for_each(|source| visit(&mut source.path))?;
            }
            FacetKind::Filters(_) => {}
            FacetKind::Metric { metric, .. } => {
                metric.path_mut().map_or(Ok(()), &mut *visit)?;
                metric.weight_mut().map_or(Ok(()), &mut *visit)?;
            }
            FacetKind::Hits { order, .. } => {
                let mut orders = order.iter_mut();
                orders.try_for_each(|order| visit(&mut order.path))?;
            }
        }
        let mut inner = self.inner.iter_mut();
        inner.try_for_each(|(_, facet)| facet.each_path_mut(visit))
    }
}

impl From<FacetKind> for Facet {
    fn from(kind: FacetKind) -> Facet {
        let inner = Vec::new();
        Facet { kind, inner }
    }
}

impl Buckets {
    /// Buckets by the keys of some sources, in the order of keys.
    #[must_use]
    pub fn by(sources: impl IntoIterator<Item = Source>) -> Buckets {
        Buckets {
            by: sources.into_iter().collect(),
            order: Vec::new(),
            limit: None,
            documents_min: 1,
            after: None,
        }
    }
}

impl Source {
    /// Keys of the values of a field.
    pub fn new(path: impl Into<Path>, key: BucketKey) -> Source {
        Source {
            path: path.into(),
            cast: None,
            key,
            missing: Missing::LeftOut,
            direction: Direction::Ascending,
        }
    }

    /// The values of a field.
    pub fn values(path: impl Into<Path>) -> Source {
        Source::new(path, BucketKey::Value(TextFilter::default()))
    }
}

impl fmt::Display for FacetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FacetKind::Buckets(_) => "buckets",
            FacetKind::Filters(_) => "filters",
            FacetKind::Metric { .. } => "a metric",
            FacetKind::Hits { .. } => "hits",
        })
    }
}
