//! The buckets that an answer has beside those of documents: empty intervals, and empty ranges.

use quiredb::query::{Bucket, Facet, Value};

use super::kind::{Aggregation, BucketsOrder, DateHistogram, Histogram, HistogramShape, Kind};
use crate::http::failure::{Failure, Outcome};
use crate::search::filter::unsupported;

/// The buckets that are shown, in order.
///
/// # Errors
/// 400 for more than `buckets_max`.
pub(super) fn filled(
    one: &Aggregation,
    buckets: Vec<Bucket>,
    buckets_max: u64,
) -> Outcome<Vec<Bucket>> {
    let Some(facet) = &one.facet else {
        return Ok(buckets);
    };
    match &one.kind {
        Kind::Terms(shape) => {
            let mut buckets = buckets;
            let documents_max = shape.documents_max.unwrap_or(u64::MAX);
            buckets.retain(|bucket| bucket.count <= documents_max);
            Ok(buckets)
        }
        Kind::Adjacency(names) => {
            let named = names.iter().zip(buckets).map(|(name, bucket)| Bucket {
                key: vec![Value::from(name.as_str())],
                ..bucket
            });
            Ok(named.filter(|bucket| bucket.count > 0).collect())
        }
        Kind::Histogram(histogram) => {
            let mut buckets = buckets;
            let hard = histogram.hard;
            buckets.retain(|bucket| match bucket.key.first().and_then(Value::as_f64) {
                // Without the offset, as in OpenSearch.
                Some(start) => {
                    let start = start - histogram.offset;
                    hard.min.is_none_or(|min| start >= min)
                        && hard.max.is_none_or(|max| start <= max)
                }
                None => true,
            });
            let buckets = intervals(histogram, facet, buckets, buckets_max)?;
            Ok(ordered(&histogram.shape, buckets))
        }
        Kind::DateHistogram(histogram) => {
            let mut buckets = buckets;
            let hard = histogram.hard;
            buckets.retain(
                |bucket| match bucket.key.first().and_then(Value::as_date_millis) {
                    // A moment is before the end of its bounds, as in OpenSearch.
                    Some(start) => {
                        hard.min.is_none_or(|min| start >= min)
                            && hard.max.is_none_or(|max| start < max)
                    }
                    None => true,
                },
            );
            let buckets = date_intervals(histogram, facet, buckets, buckets_max)?;
            Ok(ordered(&histogram.shape, buckets))
        }
        Kind::DateRange(ranges, _) => {
            let mut buckets = buckets.into_iter().peekable();
            let places = 0..ranges.ranges.len() as u64;
            let all = places.map(|place| {
                let key = vec![Value::from(place)];
                let found = buckets.next_if(|bucket| bucket.key == key);
                found.unwrap_or_else(|| facet.empty_bucket(key))
            });
            Ok(all.collect())
        }
        _ => Ok(buckets),
    }
}

fn intervals(
    histogram: &Histogram,
    facet: &Facet,
    buckets: Vec<Bucket>,
    buckets_max: u64,
) -> Outcome<Vec<Bucket>> {
    if histogram.shape.documents_min > 0 {
        return Ok(buckets);
    }
    let (interval, offset) = (histogram.interval, histogram.offset);
    let place = |start: f64| ((start - offset) / interval).round();
    let start_of = |bucket: &Bucket| bucket.key.first().and_then(Value::as_f64);
    let mut ends = buckets
        .first()
        .and_then(start_of)
        .map(place)
        .zip(buckets.last().and_then(start_of).map(place));
    if let Some((min, max)) = histogram.bounds {
        let of = |number: f64| ((number - offset) / interval).floor();
        let (first, last) = ends.unwrap_or((of(min), of(max)));
        ends = Some((first.min(of(min)), last.max(of(max))));
    }
    let Some((first, last)) = ends else {
        return Ok(buckets);
    };
    let count = last - first + 1.0;
    if count > buckets_max as f64 {
        return Err(too_many(count));
    }
    let mut buckets = buckets.into_iter().peekable();
    let all = (0..count as u64).map(|at| {
        let at = first + at as f64;
        let is_this = |bucket: &Bucket| start_of(bucket).map(place) == Some(at);
        let found = buckets.next_if(is_this);
        found.unwrap_or_else(|| facet.empty_bucket(vec![Value::from(at * interval + offset)]))
    });
    Ok(all.collect())
}

fn date_intervals(
    histogram: &DateHistogram,
    facet: &Facet,
    buckets: Vec<Bucket>,
    buckets_max: u64,
) -> Outcome<Vec<Bucket>> {
    if histogram.shape.documents_min > 0 {
        return Ok(buckets);
    }
    let rounding = &histogram.rounding;
    let start_of = |bucket: &Bucket| bucket.key.first().and_then(Value::as_date_millis);
    let mut ends = buckets
        .first()
        .and_then(start_of)
        .zip(buckets.last().and_then(start_of));
    if let Some((min, max)) = histogram.bounds {
        let bounds = rounding.start(min).zip(rounding.start(max));
        ends = match (ends, bounds) {
            (Some((first, last)), Some((min, max))) => Some((first.min(min), last.max(max))),
            (ends, bounds) => ends.or(bounds),
        };
    }
    let Some((first, last)) = ends else {
        return Ok(buckets);
    };
    let (mut all, mut buckets) = (Vec::new(), buckets.into_iter().peekable());
    let mut next = Some(first);
    while let Some(start) = next.filter(|start| *start <= last) {
        if all.len() as u64 >= buckets_max {
            return Err(too_many(buckets_max as f64 + 1.0));
        }
        // One of documents never is left out, whatever clocks were set to.
        match buckets.next_if(|bucket| start_of(bucket).is_some_and(|of| of <= start)) {
            Some(bucket) => {
                let is_this = start_of(&bucket) == Some(start);
                all.push(bucket);
                next = if is_this {
                    rounding.next(start)
                } else {
                    Some(start)
                };
            }
            None => {
                all.push(facet.empty_bucket(vec![Value::from(start)]));
                next = rounding.next(start);
            }
        }
    }
    all.extend(buckets);
    Ok(all)
}

fn ordered(shape: &HistogramShape, mut buckets: Vec<Bucket>) -> Vec<Bucket> {
    match shape.order {
        None => {}
        Some(BucketsOrder::KeyDescending) => buckets.reverse(),
        Some(BucketsOrder::CountAscending) => buckets.sort_by_key(|bucket| bucket.count),
        Some(BucketsOrder::CountDescending) => {
            buckets.sort_by_key(|bucket| std::cmp::Reverse(bucket.count));
        }
    }
    buckets
}

fn too_many(buckets: f64) -> Failure {
    unsupported(format!(
        "a histogram would have {buckets} buckets or more, too many: set a larger interval, or \
         [min_doc_count] 1, which leaves out the empty ones"
    ))
}
