//! The least and the greatest value of a field in collections, by the search indexes of their
//! partitions.

use crate::Result;
use crate::view::View;
use quire_query::{End, Filter, KnownEnd, Path, Prepared, find};
use quire_search::IndexedView;

const UNKNOWN: [KnownEnd; 2] = [KnownEnd::Unknown, KnownEnd::Unknown];

impl View {
    /// The least and the greatest value that is not null which documents of these views have in a
    /// field, where search indexes tell at once. They do unless a partition has no index of the
    /// field, a document has more values there than are indexed, or a long text, or many values
    /// have gone from the end of the field.
    ///
    /// # Errors
    /// As of [`query`](View::query).
    pub fn known_ends(views: &[View], path: &Path) -> Result<[KnownEnd; 2]> {
        let query = find(Filter::Exists(path.clone())).prepare()?;
        let mut ends = [KnownEnd::NoValue, KnownEnd::NoValue];
        for part in View::parts_of(views) {
            let Some(view) = part.indexed() else {
                return Ok(UNKNOWN);
            };
            let [least, most] = ends;
            let [own_least, own_most] = ends_of(view, path, &query)?;
            ends = [
                least.of_both(own_least, End::Smallest),
                most.of_both(own_most, End::Largest),
            ];
        }
        Ok(ends)
    }
}

fn ends_of(view: &dyn IndexedView, path: &Path, query: &Prepared) -> Result<[KnownEnd; 2]> {
    let shard = view.search(query, None);
    let Some(shard) = shard.map_err(quire_collection::Error::from)? else {
        return Ok(UNKNOWN);
    };
    match shard.known_ends(path) {
        // It is built anew in the background.
        Err(_) if view.index_is_damaged(&shard) => Ok(UNKNOWN),
        ends => Ok(ends?),
    }
}
