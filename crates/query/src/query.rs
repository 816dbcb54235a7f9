//! [`Query`]: a filter, an order, a page and aggregates.

use crate::{Aggregate, Facet, Filter, Order, Path};

/// A query: which documents, in which order, how many of them, and aggregates of all that match.
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
    /// If there is one, hits come in a random order that this seed decides: with a limit they are
    /// a uniform sample. There is no other order then.
    pub shuffle: Option<u64>,
    /// How many hits are skipped.
    pub skip: u64,
    /// How many hits are returned at most; all if `None`.
    pub limit: Option<u64>,
    /// Whether all that match are counted, whatever the limit.
    pub count: bool,
    /// Which fields of a hit are returned; all if `None`.
    pub fields: Option<Vec<Path>>,
    /// Aggregates of all that match, by name.
    pub aggregates: Vec<(String, Aggregate)>,
    /// Buckets and measures of all that match, by name.
    pub facets: Vec<(String, Facet)>,
}

/// The documents that match.
#[must_use]
pub fn find(filter: Filter) -> Query {
    Query {
        filter,
        order: Vec::new(),
        shuffle: None,
        skip: 0,
        limit: None,
        count: false,
        fields: None,
        aggregates: Vec::new(),
        facets: Vec::new(),
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

    /// Returns hits in a random order that `seed` decides.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Query {
        self.shuffle = Some(seed);
        self
    }

    /// Skips this many hits.
    #[must_use]
    pub fn skip(mut self, skip: u64) -> Query {
        self.skip = skip;
        self
    }

    /// Returns at most this many hits.
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

    /// Returns only these fields of each hit.
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

    /// Adds a facet under a name.
    #[must_use]
    pub fn facet(mut self, name: impl Into<String>, facet: Facet) -> Query {
        self.facets.push((name.into(), facet));
        self
    }

    /// Whether hits come in another order than that of shards and docids.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        !self.order.is_empty() || self.shuffle.is_some()
    }

    /// Whether it has aggregates or facets, which are about all documents that match.
    #[must_use]
    pub fn is_aggregated(&self) -> bool {
        !self.aggregates.is_empty() || !self.facets.is_empty()
    }
}
