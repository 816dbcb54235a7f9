//! The keys of buckets as text.

use quiredb::query::Value;

use super::kind::{Aggregation, Kind};
use super::said::SaidBucket;

/// The key of a bucket as text; its place is `at`.
pub(super) fn key_text(one: &Aggregation, bucket: &SaidBucket, at: usize) -> String {
    let key = bucket.key.first();
    match &one.kind {
        Kind::DateHistogram(histogram) => {
            let millis = key.and_then(Value::as_date_millis).unwrap_or_default();
            histogram.dates.format.write(millis, &histogram.dates.zone)
        }
        Kind::Histogram(_) => key
            .and_then(Value::as_f64)
            .map_or_else(String::new, |start| format!("{start:?}")),
        Kind::Range(ranges) | Kind::DateRange(ranges, _) => ranges
            .ranges
            .get(at)
            .map_or_else(String::new, |range| range.key.clone()),
        Kind::Filters(Some(names)) => names.get(at).cloned().unwrap_or_default(),
        _ => {
            let text = |value: &Value| match value.as_str() {
                Some(text) => text.into_owned(),
                None => value.to_string().to_ascii_lowercase(),
            };
            bucket.key.iter().map(text).collect::<Vec<_>>().join("|")
        }
    }
}
