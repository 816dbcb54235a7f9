//! How a query is executed: its views, its bounds, its errors.

use std::time::Duration;

use axum::http::StatusCode;
use quiredb::query::Options;

use crate::http::failure::Failure;

/// What finding the hits may hold, of the memory of all requests.
pub(crate) const SEARCH_BYTES_MAX: usize = 16 << 20;

/// The most buckets of the aggregations of an answer, unless a setting says otherwise; as in
/// OpenSearch.
pub(crate) const BUCKETS_MAX: u64 = 65_535;

/// When a query is to give up, and what then; and what it may hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The longest that it may take.
    pub(crate) timeout: Option<Duration>,
    /// What was found until then is the answer.
    pub(crate) partial: bool,
    /// What finding the hits may hold.
    pub(crate) memory_bytes: usize,
}

/// The bounds of a query; `stop` is true once the caller no longer waits.
pub(crate) fn options<'a>(stop: &'a (dyn Fn() -> bool + Sync)) -> Options<'a> {
    Options {
        memory_bytes_max: SEARCH_BYTES_MAX,
        stop: Some(stop),
        ..Options::default()
    }
}

/// A query that failed.
pub(crate) fn failed(error: quiredb::Error) -> Failure {
    match &error {
        quiredb::Error::Query(quiredb::query::Error::TooLarge { .. }) => Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "content_too_long_exception",
            format!("{error}; of a search it is [memory] of [quire] in the body"),
        ),
        _ => Failure::engine(&error, None),
    }
}
