//! Pages in the order of dates, without reading every date.
//!
//! Dates of one field may be written in many ways, so their texts are not in the order of time.
//! But the first hits in the order of texts, which indexes find, are as many dates as the page
//! needs. No hit of the page comes after the last of these by time.

use quire_model::ordered::Direction;
use quiredb::query::{Answer, Cast, Filter, Order, OrderedAs, Query};
use quiredb::{Found, View};
use std::ops::Bound;

use super::execute::failed;
use crate::http::failure::Outcome;

/// The longest page whose dates are read first.
const PAGE_MAX: u64 = 1_000;

/// Whether the first order of a query is one of dates, those without one last.
pub(crate) fn is_by_time(query: &Query) -> bool {
    let first = query.order.first();
    first.is_some_and(|first| {
        let is_last = !first.missing_first && first.missing.is_none();
        first.by == OrderedAs::Cast(Cast::Date) && is_last
    })
}

/// What every hit of the page of a query matches, if its first order is one of dates and there are
/// as many as the page needs.
pub(crate) fn page_bound(
    views: &[View],
    query: &Query,
    run: impl Fn(Query) -> Outcome<Answer>,
) -> Outcome<Option<Filter>> {
    let Some(first) = query.order.first() else {
        return Ok(None);
    };
    let wanted = query.skip.saturating_add(query.limit.unwrap_or(u64::MAX));
    if !is_by_time(query) || !(1..=PAGE_MAX).contains(&wanted) {
        return Ok(None);
    }
    let by_text = Order {
        by: OrderedAs::NotNull,
        ..first.clone()
    };
    let hits = run(Query {
        order: vec![by_text],
        skip: 0,
        limit: Some(wanted),
        count: false,
        facets: Vec::new(),
        ..query.clone()
    })?;
    if (hits.hits.len() as u64) < wanted {
        return Ok(None);
    }
    let mut last = None;
    // One document at a time is in memory.
    for hit in hits.hits.chunks(1) {
        let found = View::documents_of(views, hit).map_err(failed)?;
        let Some(date) = found
            .first()
            .and_then(|Found { document, .. }| first.value_of(document))
        else {
            return Ok(None);
        };
        last = Some(match (last, first.direction) {
            (None, _) => date,
            (Some(last), Direction::Ascending) => date.max(last),
            (Some(last), Direction::Descending) => date.min(last),
        });
    }
    Ok(last.map(|last| {
        let (lower, upper) = match first.direction {
            Direction::Ascending => (Bound::Unbounded, Bound::Included(last)),
            Direction::Descending => (Bound::Included(last), Bound::Unbounded),
        };
        Filter::Cast(Cast::Date, first.path.clone(), lower, upper)
    }))
}
