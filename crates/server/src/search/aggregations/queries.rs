//! The queries of which an aggregation makes buckets.

use quiredb::query::Filter;
use serde_json::Value as Json;

use crate::http::failure::Outcome;
use crate::search::filter::filter;

/// Queries of one aggregation.
pub(super) const QUERIES_MAX: usize = 1024;

/// A query whose values are those that it was written with: [`adapt`](super::adapt) converts them.
pub(super) fn written_out(query: &Json) -> Outcome<Filter> {
    filter(query)
}
