//! `terms` with `min_doc_count` 0: the values of documents that do not match have a bucket too.
//!
//! They are counted by a query of their own, of all documents that the request may see.

use std::collections::{BTreeMap, BTreeSet};

use quire_model::ordered::Direction;
use quiredb::query::{
    Answer, Bucket, BucketOrderBy, Buckets, Facet, FacetKind, Faceted, Filter, Query, Value, find,
};

use super::kind::{Aggregation, Kind};
use crate::http::failure::Outcome;
use crate::search::filter::unsupported;

/// Refuses such an aggregation within another, and one in an order that the values of other
/// documents have no place in.
///
/// # Errors
/// 400.
pub(super) fn check(all: &[Aggregation], is_outermost: bool) -> Outcome<()> {
    for one in all {
        check(&one.inner, false)?;
        if !has_empty(one) {
            continue;
        }
        if !is_outermost {
            return Err(unsupported(format!(
                "[min_doc_count] of [{}] is 0, which it can be of an aggregation that is in no \
                 other",
                one.name
            )));
        }
        if buckets(one.facet.as_ref()).is_none_or(|buckets| order(buckets).is_none()) {
            return Err(unsupported(format!(
                "[min_doc_count] of [{}] is 0, which it can be in the [order] of [_key], or of \
                 [_count] descending",
                one.name
            )));
        }
    }
    Ok(())
}

/// Whether the values of other documents have a bucket.
fn has_empty(one: &Aggregation) -> bool {
    matches!(&one.kind, Kind::Terms(shape) if shape.has_empty)
}

fn buckets(facet: Option<&Facet>) -> Option<&Buckets> {
    match &facet?.kind {
        FacetKind::Buckets(buckets) => Some(buckets),
        _ => None,
    }
}

/// By what buckets are ordered.
#[derive(Clone, Copy)]
enum Order {
    /// The most documents first, then by key.
    Count,
    Key,
}

fn order(buckets: &Buckets) -> Option<Order> {
    let mut orders = buckets.order.iter();
    let (first, second) = (orders.next(), orders.next());
    match (first.map(|it| (&it.by, it.direction)), second) {
        (None, _) => Some(Order::Key),
        (Some((BucketOrderBy::Key, _)), _) => Some(Order::Key),
        (Some((BucketOrderBy::Count, Direction::Descending)), None) => Some(Order::Count),
        (Some((BucketOrderBy::Count, Direction::Descending)), Some(second))
            if second.by == BucketOrderBy::Key && second.direction == Direction::Ascending =>
        {
            Some(Order::Count)
        }
        _ => None,
    }
}

/// Adds to an answer of a query the buckets of values that no matching document has. `visible` are
/// the documents that the request may see.
///
/// # Errors
/// As `run`.
pub(crate) fn add_empty(
    all: &[Aggregation],
    query: &Query,
    answer: &mut Answer,
    visible: &Filter,
    run: impl Fn(Query) -> Outcome<Answer>,
) -> Outcome<()> {
    for one in all.iter().filter(|one| has_empty(one)) {
        let named = |(name, _): &&(String, Facet)| *name == one.name;
        let facet = query.facets.iter().find(named).map(|(_, facet)| facet);
        let (Some(facet), Some(wanted)) = (facet, buckets(facet)) else {
            continue;
        };
        let Some(order) = order(wanted) else {
            continue;
        };
        let mut said = answer.facets.iter_mut();
        let Some((_, Faceted::Buckets { buckets: found, .. })) =
            said.find(|(name, _)| *name == one.name)
        else {
            continue;
        };
        let limit = wanted.limit.unwrap_or(u64::MAX);
        let is_full = found.len() as u64 >= limit;
        if is_full && matches!(order, Order::Count) {
            continue;
        }
        let mut of_all = wanted.clone();
        of_all.documents_min = 1;
        if matches!(order, Order::Count) {
            of_all.order = Vec::new();
        }
        let of_all = Query {
            facets: vec![(one.name.clone(), Facet::buckets(of_all))],
            limit: Some(0),
            ..find(visible.clone())
        };
        let mut of_all = run(of_all)?.facets.into_iter();
        if let Some((_, Faceted::Buckets { buckets: keys, .. })) = of_all.next() {
            *found = merged(facet, std::mem::take(found), keys, limit, order);
        }
    }
    Ok(())
}

/// The first of the buckets that were found and of those of other keys. There are as many keys as
/// buckets are wanted, or all.
fn merged(
    facet: &Facet,
    found: Vec<Bucket>,
    keys: Vec<Bucket>,
    limit: u64,
    order: Order,
) -> Vec<Bucket> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut all = Vec::new();
    match order {
        Order::Count => {
            let known: BTreeSet<&[Value]> = found.iter().map(|bucket| &bucket.key[..]).collect();
            let is_new = |bucket: &Bucket| !known.contains(&bucket.key[..]);
            let others: Vec<Bucket> = keys
                .into_iter()
                .filter(is_new)
                .map(|bucket| facet.empty_bucket(bucket.key))
                .collect();
            all.extend(found);
            all.extend(others);
        }
        Order::Key => {
            let mut by_key: BTreeMap<Vec<Value>, Bucket> = found
                .into_iter()
                .map(|bucket| (bucket.key.clone(), bucket))
                .collect();
            for bucket in keys {
                let found = by_key.remove(&bucket.key);
                all.push(found.unwrap_or_else(|| facet.empty_bucket(bucket.key)));
            }
        }
    }
    all.truncate(limit);
    all
}
