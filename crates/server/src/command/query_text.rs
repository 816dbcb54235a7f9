//! A query as text, as the options of `quire query` give it and `_quire/query` takes it.

use quiredb::query::{Aggregate, Error, Filter, Order, Path, Query, find};
use serde::{Deserialize, Serialize};

/// The default limit.
const LIMIT: u64 = 10;

/// The count of values of a facet.
const FACET_VALUES: u64 = 10;

/// A query as text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueryText {
    /// The condition that documents must fulfil; all documents without one.
    #[serde(rename = "where")]
    pub filter: Option<String>,
    /// The fields to sort by.
    pub order: Option<String>,
    /// Documents that match in a random order, which this seed decides: with a limit a sample.
    pub shuffle: Option<u64>,
    /// Documents to skip.
    pub skip: u64,
    /// Documents in the answer; 10 by default, none where only counts are wanted.
    pub limit: Option<u64>,
    /// All documents that match.
    pub all: bool,
    /// The fields of each document that are wanted; all by default.
    pub fields: Option<Vec<String>>,
    /// Whether those that match are counted.
    pub count: bool,
    /// Fields of which the most frequent values are counted.
    pub facet: Vec<String>,
    /// Aggregates, as `avg(price)`.
    pub aggregate: Vec<String>,
    /// The memory that it may take, in bytes, where another limit than the usual one is wanted.
    pub memory: Option<u64>,
    /// The longest that the query may take, in seconds.
    pub timeout: Option<f64>,
    /// What was found until then is the answer.
    pub partial: bool,
    /// Whether the answer says how it was found.
    pub explain: bool,
    /// A field that no document has is an error.
    pub strict: bool,
}

/// Why a text is no query.
#[derive(Debug, thiserror::Error)]
#[error("{part}: {source}")]
pub struct QueryTextError {
    /// The part of the text.
    pub part: &'static str,
    /// What is wrong with it.
    pub source: Error,
}

impl QueryText {
    /// The query that it says.
    ///
    /// # Errors
    /// With the part that says none.
    pub fn query(&self) -> Result<Query, QueryTextError> {
        let in_part = |part| move |source| QueryTextError { part, source };
        let filter = match &self.filter {
            Some(text) => Filter::parse(text).map_err(in_part("where"))?,
            None => Filter::All,
        };
        let mut query = find(filter).skip(self.skip);
        if let Some(text) = &self.order {
            query.order = Order::parse_list(text).map_err(in_part("order"))?;
        }
        query.shuffle = self.shuffle;
        query.count = self.count;
        let fields = self.fields.as_ref();
        query.fields = fields.map(|fields| fields.iter().map(|field| Path::new(field)).collect());
        for field in &self.facet {
            query = query.aggregate(field, Aggregate::terms(Path::new(field), FACET_VALUES));
        }
        for text in &self.aggregate {
            let aggregate = Aggregate::parse(text).map_err(in_part("aggregate"))?;
            query = query.aggregate(text, aggregate);
        }
        let is_about_all = self.count || !query.aggregates.is_empty();
        query.limit = match (self.all, self.limit) {
            (true, _) => None,
            (false, Some(limit)) => Some(limit),
            (false, None) if is_about_all => Some(0),
            (false, None) => Some(LIMIT),
        };
        Ok(query)
    }
}
