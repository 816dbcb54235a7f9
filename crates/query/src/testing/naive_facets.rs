//! What facets say, by definition.

use super::naive_filter::{accepts, values};
use crate::dates::millis_of;
use crate::facets::{MetricState, compare_numbers, interval_start, is_within, number_at};
use crate::meter::Meter;
use crate::{
    Bucket, BucketKey, BucketOrderBy, Buckets, Cast, Facet, FacetKind, Faceted, Hit, Metric,
    Missing, Order, OrderedAs, Path, Source, Value,
};
use quire_model::Document;
use quire_model::ordered::Direction;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

type Documents<'d> = [(Hit, &'d Document)];

/// What a facet says of documents.
pub(super) fn faceted(facet: &Facet, documents: &Documents<'_>) -> Faceted {
    match &facet.kind {
        FacetKind::Metric {
            metric,
            missing,
            cast,
        } => measured(metric, (missing.as_ref(), cast.as_ref()), documents),
        FacetKind::Hits { order, skip, limit } => {
            let mut documents = documents.to_vec();
            documents.sort_by(|(_, one), (_, other)| compare_by(order, one, other));
            let hits = documents.iter().map(|(hit, _)| *hit);
            Faceted::Hits {
                count: documents.len() as u64,
                hits: hits.skip(*skip as usize).take(*limit as usize).collect(),
            }
        }
        FacetKind::Filters(filters) => {
            let buckets = filters.iter().map(|filter| {
                let matching = documents.iter().copied();
                let matching = matching.filter(|(_, document)| accepts(filter, document));
                bucket(facet, Vec::new(), &matching.collect::<Vec<_>>())
            });
            Faceted::Buckets {
                buckets: buckets.collect(),
                others: 0,
                unread: 0,
            }
        }
        FacetKind::Buckets(by) => of_buckets(facet, by, documents),
    }
}

fn bucket(facet: &Facet, key: Vec<Value>, documents: &Documents<'_>) -> Bucket {
    let inner = facet.inner.iter();
    Bucket {
        key,
        count: documents.len() as u64,
        inner: inner.map(|(_, facet)| faceted(facet, documents)).collect(),
    }
}

/// The values of a document but null.
fn there(path: &Path, document: &Document) -> BTreeSet<Value> {
    let mut all = values(path, document);
    all.remove(&Value::null());
    all
}

/// What sketches and sums say is tested where they are.
fn measured(
    metric: &Metric,
    (missing, cast): (Option<&Value>, Option<&Cast>),
    documents: &Documents<'_>,
) -> Faceted {
    let mut state = MetricState::new(metric);
    let mut meter = Meter::new(usize::MAX);
    for (_, document) in documents {
        let Some(path) = metric.path() else {
            state.add_document();
            continue;
        };
        let mut all = there(path, document);
        if all.is_empty() {
            all.extend(missing.cloned());
        }
        for value in all.into_iter().filter_map(|value| said(cast, value)) {
            let added = state.add(value.term(), &mut meter);
            assert!(added.is_ok(), "the meter has no limit");
        }
    }
    state.finish(metric)
}

/// How documents compare by orders.
pub(super) fn compare_by(orders: &[Order], one: &Document, other: &Document) -> Ordering {
    let orders = orders.iter().map(|order| {
        let compared = |document: &Document| {
            let values = values(&order.path, document).into_iter();
            let mut all: BTreeSet<_> = values.filter_map(|value| compared(order, value)).collect();
            if all.is_empty() {
                all.extend(order.missing.clone());
            }
            all
        };
        let (one, other) = (compared(one), compared(other));
        let missing = match order.missing_first {
            true => other.is_empty().cmp(&one.is_empty()),
            false => one.is_empty().cmp(&other.is_empty()),
        };
        missing.then_with(|| match order.direction {
            Direction::Ascending => one.first().cmp(&other.first()),
            Direction::Descending => other.last().cmp(&one.last()),
        })
    });
    orders.fold(Ordering::Equal, Ordering::then)
}

/// What a value counts as in an order.
fn compared(order: &Order, value: Value) -> Option<Value> {
    match &order.by {
        OrderedAs::Value => Some(value),
        OrderedAs::NotNull => (value != Value::null()).then_some(value),
        OrderedAs::Cast(cast) => said(Some(cast), value),
    }
}

/// What a value says.
fn said(cast: Option<&Cast>, value: Value) -> Option<Value> {
    let text = value.as_str().map(|text| text.into_owned());
    match cast {
        None => Some(value),
        Some(Cast::Number) => match text {
            Some(text) => Value::from_numeral(&text),
            None => value.as_f64().is_some().then_some(value),
        },
        Some(Cast::Text) if value == Value::null() => None,
        Some(Cast::Text) => Some(Value::from(
            text.unwrap_or_else(|| value.to_string().to_ascii_lowercase()),
        )),
        Some(Cast::Boolean) => match text {
            Some(text) => text.parse::<bool>().ok().map(Value::from),
            None => {
                let mut booleans = [false, true].map(Value::from).into_iter();
                booleans.find(|it| *it == value)
            }
        },
        Some(Cast::Flag) => {
            let flag = said(Some(&Cast::Boolean), value)?;
            Some(Value::from(i64::from(flag == Value::from(true))))
        }
        Some(cast) => unreachable!("{cast} is tested on its own"),
    }
}

fn of_buckets(facet: &Facet, by: &Buckets, documents: &Documents<'_>) -> Faceted {
    let mut unread = 0;
    let mut of_keys: BTreeMap<Vec<Value>, Vec<(Hit, &Document)>> = BTreeMap::new();
    for (hit, document) in documents {
        let mut keys = vec![Vec::new()];
        for source in &by.by {
            let parts = parts(source, document, &mut unread);
            let longer = keys.iter().flat_map(|key| {
                let extend = |part: &Value| [key.as_slice(), std::slice::from_ref(part)].concat();
                parts.iter().map(extend).collect::<Vec<_>>()
            });
            keys = longer.collect();
            if keys.is_empty() {
                break;
            }
        }
        for key in keys {
            of_keys.entry(key).or_default().push((*hit, *document));
        }
    }
    let compare_keys = |one: &[Value], other: &[Value]| {
        let parts = by.by.iter().zip(one.iter().zip(other));
        let orders = parts.map(|(source, (one, other))| match source.direction {
            Direction::Ascending => one.cmp(other),
            Direction::Descending => other.cmp(one),
        });
        orders.fold(Ordering::Equal, Ordering::then)
    };
    let of_keys = of_keys.into_iter().filter(|(key, documents)| {
        let is_after = |after: &Vec<Value>| compare_keys(key, after) == Ordering::Greater;
        documents.len() as u64 >= by.documents_min && by.after.as_ref().is_none_or(is_after)
    });
    let buckets = of_keys.map(|(key, documents)| bucket(facet, key, &documents));
    let mut buckets: Vec<Bucket> = buckets.collect();
    buckets.sort_by(|one, other| {
        let orders = by.order.iter().map(|order| {
            let ascending = match &order.by {
                BucketOrderBy::Count => one.count.cmp(&other.count),
                BucketOrderBy::Key => compare_keys(&one.key, &other.key),
                BucketOrderBy::Inner { path, statistic } => {
                    let number = |of: &Bucket| number_at(facet, &of.inner, path, *statistic);
                    return compare_numbers(number(one), number(other), order.direction);
                }
            };
            match order.direction {
                Direction::Ascending => ascending,
                Direction::Descending => ascending.reverse(),
            }
        });
        let ordered = orders.fold(Ordering::Equal, Ordering::then);
        ordered.then_with(|| compare_keys(&one.key, &other.key))
    });
    let limit = by.limit.map_or(buckets.len(), |limit| limit as usize);
    let past = buckets.split_off(limit.min(buckets.len()));
    Faceted::Buckets {
        buckets,
        others: past.iter().map(|bucket| bucket.count).sum(),
        unread,
    }
}

/// The keys of a document by one source.
fn parts(source: &Source, document: &Document, unread: &mut u64) -> BTreeSet<Value> {
    let mut all = there(&source.path, document);
    if all.is_empty() {
        match &source.missing {
            Missing::LeftOut => {}
            Missing::Null => return BTreeSet::from([Value::null()]),
            Missing::As(value) => {
                all.insert(value.clone());
            }
        }
    }
    let mut parts = BTreeSet::new();
    for value in all
        .into_iter()
        .filter_map(|value| said(source.cast.as_ref(), value))
    {
        match &source.key {
            BucketKey::Value(wanted) => {
                parts.extend(wanted.accepts(value.term()).then_some(value));
            }
            BucketKey::Interval { width, offset } => {
                let start = value
                    .as_f64()
                    .map(|number| interval_start(number, *width, *offset));
                parts.extend(start.filter(|start| start.is_finite()).map(Value::from));
            }
            BucketKey::Date(rounding) => {
                let start = millis_of(&value.get()).and_then(|millis| rounding.start(millis));
                *unread += u64::from(start.is_none());
                parts.extend(start.map(Value::from));
            }
            BucketKey::DateRanges(ranges) => match millis_of(&value.get()) {
                None => *unread += 1,
                Some(millis) => {
                    let within = (0_i64..).zip(ranges);
                    let within = within.filter(|(_, range)| is_within(millis, **range));
                    parts.extend(within.map(|(place, _)| Value::from(place)));
                }
            },
        }
    }
    parts
}
