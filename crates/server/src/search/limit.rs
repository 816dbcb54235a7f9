//! What a search is about: the documents that an alias shows, and values of their types.

use quiredb::query::{Filter, Query};

use super::filter::WholeTexts;
use crate::collections::coerce::Mappings;
use crate::http::failure::Outcome;

/// Limits a query to the documents that match `filter` too, and converts its values to the types of
/// the collections.
///
/// # Errors
/// 400 for a value that can't be one of its field, and for a text that would be analyzed.
pub(crate) fn limit_to(
    query: &mut Query,
    texts: &WholeTexts,
    filter: Filter,
    mappings: &Mappings,
) -> Outcome<()> {
    texts.check(|field| mappings.is_whole(field))?;
    let own = std::mem::replace(&mut query.filter, Filter::All);
    query.filter = match (own, filter) {
        (own, Filter::All) => own,
        (Filter::All, filter) => filter,
        (own, filter) => own.and(filter),
    };
    mappings.convert_query(query)
}
