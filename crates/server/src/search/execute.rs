//! How a query is executed: its views, its bounds, its errors.

use quiredb::query::Options;
use quiredb::{Collection, View};

use crate::http::failure::{Failure, Outcome};

/// What finding the hits may hold, of the memory of all requests.
pub(crate) const SEARCH_BYTES_MAX: usize = 16 << 20;

/// The bounds of a query; `stop` is true once the caller no longer waits.
pub(crate) fn options<'a>(stop: &'a (dyn Fn() -> bool + Sync)) -> Options<'a> {
    Options {
        memory_bytes_max: SEARCH_BYTES_MAX,
        stop: Some(stop),
        ..Options::default()
    }
}

/// A view of each collection.
pub(crate) fn views(collections: &[Collection]) -> Outcome<Vec<View>> {
    let views = collections.iter().map(|collection| {
        let view = collection.view();
        view.map_err(|error| Failure::engine(&error, Some(collection.name())))
    });
    views.collect()
}

/// A query that failed.
pub(crate) fn failed(error: quiredb::Error) -> Failure {
    Failure::engine(&error, None)
}
