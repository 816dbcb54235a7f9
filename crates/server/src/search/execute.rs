//! How a query is executed: its views, its bounds, its errors.

use std::time::Duration;

use quiredb::query::Options;

use crate::http::failure::Failure;

/// What finding the hits may hold, of the memory of all requests.
pub(crate) const SEARCH_BYTES_MAX: usize = 16 << 20;

/// When a query is to give up, and what then.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// The longest that it may take.
    pub(crate) timeout: Option<Duration>,
    /// What was found until then is the answer.
    pub(crate) partial: bool,
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
    Failure::engine(&error, None)
}
