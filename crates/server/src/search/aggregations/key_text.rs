//! The keys of buckets as text.

use quiredb::query::Value;

use super::kind::{Aggregation, DateShape, Kind, TermsShape};
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
        Kind::Range(ranges) | Kind::DateRange(ranges, _) => ranges.key(at),
        Kind::IpRange(ranges) => ranges.key(at),
        Kind::Filters(Some(names)) => names.get(at).cloned().unwrap_or_default(),
        Kind::MultiTerms(dates) => {
            let parts = bucket.key.iter().zip(dates);
            let texts = parts.map(|(value, dates)| text(value, dates.as_ref()));
            texts.collect::<Vec<_>>().join("|")
        }
        Kind::Terms(TermsShape { dates, .. }) => {
            key.map_or_else(String::new, |key| text(key, dates.as_ref()))
        }
        _ => {
            let parts = bucket.key.iter().map(|value| text(value, None));
            parts.collect::<Vec<_>>().join("|")
        }
    }
}

/// A value as text; `dates` says how, if it is a date.
pub(super) fn text(value: &Value, dates: Option<&DateShape>) -> String {
    if let (Some(dates), Some(millis)) = (dates, value.as_date_millis()) {
        return dates.format.write(millis, &dates.zone);
    }
    match value.as_str() {
        Some(text) => text.into_owned(),
        None => value.to_string().to_ascii_lowercase(),
    }
}
