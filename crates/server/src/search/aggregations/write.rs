//! The answers of aggregations, as OpenSearch writes them.

use jiff::tz::TimeZone;
use quire_model::ordered::OrderedValue;
use quiredb::View;
use quiredb::query::{Aggregated, Cast, Faceted, Hit, Stats, Value};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

use super::key_text::{key_text, text};
use super::kind::{
    Aggregation, CompositeSource, DateShape, HitsShape, Kind, Range, Ranges, TermsShape,
};
use super::said::{Said, SaidBucket};
use super::type_names::type_of;
use crate::http::answer::write_string;
use crate::http::failure::Outcome;
use crate::search::filter::unsupported;
use crate::search::hit_writer::HitWriter;

/// Bytes that the hits of all buckets may have.
const HITS_BYTES_MAX: usize = 8 << 20;

/// What writing needs beside what aggregations say.
pub(crate) struct Answers<'a> {
    /// Names have their kinds before them.
    pub(crate) typed: bool,
    pub(crate) views: &'a [View],
}

/// Appends what aggregations beside each other say, as members of an object.
///
/// # Errors
/// 400 if the hits of buckets are too long; damage.
pub(crate) fn write(
    all: &[Aggregation],
    said: &[Said],
    how: &Answers<'_>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let mut is_first = true;
    for (one, said) in all.iter().zip(said) {
        if matches!(said, Said::Nothing) {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        match how.typed {
            true => write_string(&format!("{}#{}", type_of(one, said), one.name), out),
            false => write_string(&one.name, out),
        }
        out.extend_from_slice(b":{");
        if let Some(meta) = &one.meta {
            push_member("meta", &json!(meta), out);
            out.push(b',');
        }
        write_one(one, said, how, out)?;
        out.push(b'}');
    }
    Ok(())
}

fn write_one(one: &Aggregation, said: &Said, how: &Answers<'_>, out: &mut Vec<u8>) -> Outcome<()> {
    match said {
        Said::Nothing => {}
        Said::Number(number) => push_member("value", &json!(number), out),
        Said::Extreme(number, keys) => {
            push_member("value", &json!(number), out);
            out.push(b',');
            push_member("keys", &json!(keys), out);
        }
        Said::Stats(stats) => push_members(&stats_members(stats), out),
        Said::Faceted(faceted) => write_metric(one, faceted, how, out)?,
        Said::Buckets { buckets, others } => match &one.kind {
            Kind::Single(_) => {
                if let Some(bucket) = buckets.first() {
                    write_rest(one, bucket, how, out)?;
                }
            }
            _ => write_buckets(one, buckets, *others, how, out)?,
        },
    }
    Ok(())
}

fn push_member(name: &str, value: &Json, out: &mut Vec<u8>) {
    write_string(name, out);
    out.push(b':');
    out.extend_from_slice(value.to_string().as_bytes());
}

fn push_members(members: &Map<String, Json>, out: &mut Vec<u8>) {
    for (at, (name, value)) in members.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        push_member(name, value, out);
    }
}

fn write_metric(
    one: &Aggregation,
    faceted: &Faceted,
    how: &Answers<'_>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    match (faceted, &one.kind) {
        (Faceted::Measured(Aggregated::Count(count)), _) => {
            push_member("value", &json!(count), out);
        }
        (Faceted::Measured(Aggregated::Number(number)), _) => {
            push_member("value", &json!(number), out);
        }
        (Faceted::Measured(Aggregated::Value(value)), _) => {
            write_value(value.as_ref(), one, out);
        }
        (Faceted::Stats(stats), Kind::ExtendedStats(sigma)) => {
            push_members(&extended_members(stats, *sigma), out);
        }
        (Faceted::Stats(stats), _) => push_members(&stats_members(stats), out),
        (Faceted::Percentiles(numbers), Kind::Percentiles(shape)) => {
            let named = shape.numbers.iter().zip(numbers);
            let values = match shape.keyed {
                true => {
                    let named =
                        named.map(|(percent, number)| (format!("{percent:?}"), json!(number)));
                    Json::Object(named.collect())
                }
                false => {
                    let named =
                        named.map(|(percent, number)| json!({"key": percent, "value": number}));
                    named.collect()
                }
            };
            push_member("values", &values, out);
        }
        (Faceted::Hits { count, hits }, Kind::Hits(shape)) => {
            write_hits(shape, *count, hits, how, out)?;
        }
        // No aggregation of a request has these.
        _ => {}
    }
    Ok(())
}

/// The least or the greatest value: a number, that of a date or of a boolean, or what it is.
fn write_value(value: Option<&Value>, one: &Aggregation, out: &mut Vec<u8>) {
    let Some(value) = value else {
        return push_member("value", &Json::Null, out);
    };
    if let OrderedValue::Bool(flag) = value.get() {
        push_member("value", &json!(f64::from(u8::from(flag))), out);
        out.push(b',');
        return push_member("value_as_string", &json!(flag.to_string()), out);
    }
    let millis = value.as_date_millis();
    match (
        value.as_f64(),
        millis.filter(|_| one.is_of_dates() || value.as_f64().is_none()),
    ) {
        (_, Some(millis)) => {
            push_member("value", &json!(millis as f64), out);
            out.push(b',');
            let text = one.shown.write(millis, &TimeZone::UTC);
            push_member("value_as_string", &json!(text), out);
        }
        (Some(number), None) => push_member("value", &json!(number), out),
        (None, None) => {
            out.extend_from_slice(b"\"value\":");
            value.write_json(out);
        }
    }
}

fn stats_members(stats: &Stats) -> Map<String, Json> {
    let members = [
        ("count", json!(stats.count)),
        ("min", json!(stats.min)),
        ("max", json!(stats.max)),
        ("avg", json!(stats.avg)),
        ("sum", json!(stats.sum)),
    ];
    members
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect()
}

fn extended_members(stats: &Stats, sigma: f64) -> Map<String, Json> {
    let mut members = stats_members(stats);
    let (all, sample) = (stats.variance(false), stats.variance(true));
    let (of_all, of_sample) = (all.map(f64::sqrt), sample.map(f64::sqrt));
    let bound = |deviation: Option<f64>, sign: f64| {
        let ends = stats.avg.zip(deviation);
        ends.map(|(avg, deviation)| avg + sign * sigma * deviation)
    };
    // A single value is no sample.
    let sampled = |value: Option<f64>| match value {
        None if stats.count > 0 => json!("NaN"),
        value => json!(value),
    };
    let squares = (stats.count > 0).then_some(stats.sum_of_squares);
    let more = [
        ("sum_of_squares", json!(squares)),
        ("variance", json!(all)),
        ("variance_population", json!(all)),
        ("variance_sampling", sampled(sample)),
        ("std_deviation", json!(of_all)),
        ("std_deviation_population", json!(of_all)),
        ("std_deviation_sampling", sampled(of_sample)),
        (
            "std_deviation_bounds",
            json!({
                "upper": bound(of_all, 1.0), "lower": bound(of_all, -1.0),
                "upper_population": bound(of_all, 1.0), "lower_population": bound(of_all, -1.0),
                "upper_sampling": sampled(bound(of_sample, 1.0)),
                "lower_sampling": sampled(bound(of_sample, -1.0)),
            }),
        ),
    ];
    members.extend(more.map(|(name, value)| (name.to_owned(), value)));
    members
}

fn write_hits(
    shape: &HitsShape,
    count: u64,
    hits: &[Hit],
    how: &Answers<'_>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let writer = HitWriter {
        source: shape.source.clone(),
        fields: Arc::default(),
        with_id: true,
        orders: shape.orders.clone(),
        sort_shown: Arc::default(),
        inner: Arc::default(),
        with_version: shape.with_version,
        with_seq_no: shape.with_seq_no,
        by_place: false,
    };
    let score = match hits.is_empty() || !shape.orders.is_empty() {
        true => "null",
        false => "1.0",
    };
    let head = format!(
        "\"hits\":{{\"total\":{{\"value\":{count},\"relation\":\"eq\"}},\"max_score\":{score},\
         \"hits\":["
    );
    out.extend_from_slice(head.as_bytes());
    let bytes_max = HITS_BYTES_MAX.saturating_sub(out.len()) as u64;
    let (written, _) = writer.write_places(how.views, hits, bytes_max, true, out)?;
    if written < hits.len() || out.len() > HITS_BYTES_MAX {
        return Err(unsupported(format!(
            "the documents of [top_hits] are more than {HITS_BYTES_MAX} bytes: set a smaller \
             [size], or fewer fields in [_source]"
        )));
    }
    out.extend_from_slice(b"]}");
    Ok(())
}

fn write_buckets(
    one: &Aggregation,
    buckets: &[SaidBucket],
    others: u64,
    how: &Answers<'_>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let keyed = match &one.kind {
        Kind::Histogram(histogram) => histogram.shape.keyed,
        Kind::DateHistogram(histogram) => histogram.shape.keyed,
        Kind::Range(ranges) | Kind::DateRange(ranges, _) => ranges.keyed,
        Kind::IpRange(ranges) => ranges.keyed,
        Kind::Filters(names) => names.is_some(),
        _ => false,
    };
    match &one.kind {
        Kind::Terms(TermsShape {
            documents_max: None,
            ..
        })
        | Kind::MultiTerms(_) => {
            let head =
                format!("\"doc_count_error_upper_bound\":0,\"sum_other_doc_count\":{others},");
            out.extend_from_slice(head.as_bytes());
        }
        Kind::Composite(sources) => {
            if let Some(last) = buckets.last() {
                out.extend_from_slice(b"\"after_key\":");
                write_composite_key(sources, last, out);
                out.push(b',');
            }
        }
        _ => {}
    }
    out.extend_from_slice(if keyed {
        b"\"buckets\":{"
    } else {
        b"\"buckets\":["
    });
    for (at, bucket) in buckets.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        if keyed {
            write_string(&key_text(one, bucket, at), out);
            out.push(b':');
        }
        out.push(b'{');
        let before = out.len();
        write_key(one, bucket, at, out);
        if out.len() > before {
            out.push(b',');
        }
        write_rest(one, bucket, how, out)?;
        out.push(b'}');
    }
    out.push(if keyed { b'}' } else { b']' });
    Ok(())
}

/// Appends the number of documents, and what aggregations in the bucket say.
fn write_rest(
    one: &Aggregation,
    bucket: &SaidBucket,
    how: &Answers<'_>,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    out.extend_from_slice(format!("\"doc_count\":{}", bucket.count).as_bytes());
    if bucket
        .inner
        .iter()
        .any(|said| !matches!(said, Said::Nothing))
    {
        out.push(b',');
        write(&one.inner, &bucket.inner, how, out)?;
    }
    Ok(())
}

/// Appends the members that say what is in the bucket. Its place is `at`.
fn write_key(one: &Aggregation, bucket: &SaidBucket, at: usize, out: &mut Vec<u8>) {
    let key = bucket.key.first();
    match &one.kind {
        Kind::Terms(shape) => {
            let dates = shape.dates.as_ref();
            if let Some((dates, millis)) = dates.zip(key.and_then(Value::as_date_millis)) {
                return write_date_key(dates, millis, out);
            }
            out.extend_from_slice(b"\"key\":");
            match key.map(Value::get) {
                // A boolean's key is a number, with its name beside it.
                Some(OrderedValue::Bool(value)) => {
                    let text = format!("{},\"key_as_string\":\"{value}\"", u8::from(value));
                    out.extend_from_slice(text.as_bytes());
                }
                _ => write_json(key, out),
            }
        }
        Kind::MultiTerms(dates) => {
            out.extend_from_slice(b"\"key\":[");
            for (at, (value, dates)) in bucket.key.iter().zip(dates).enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                match dates {
                    Some(_) => write_string(&text(value, dates.as_ref()), out),
                    None => value.write_json(out),
                }
            }
            out.extend_from_slice(b"],");
            push_member("key_as_string", &json!(key_text(one, bucket, at)), out);
        }
        Kind::Adjacency(_) => {
            out.extend_from_slice(b"\"key\":");
            write_json(key, out);
        }
        Kind::Histogram(_) => {
            push_member("key", &json!(key.and_then(Value::as_f64)), out);
        }
        Kind::DateHistogram(histogram) => {
            let millis = key.and_then(Value::as_date_millis).unwrap_or_default();
            write_date_key(&histogram.dates, millis, out);
        }
        Kind::Range(ranges) => write_range(ranges, at, out, |members, name, end| {
            members.insert(name.into(), json!(end));
        }),
        Kind::DateRange(ranges, dates) => write_range(ranges, at, out, |members, name, end| {
            members.insert(name.into(), json!(end));
            let text = dates.format.write(end as i64, &dates.zone);
            members.insert(format!("{name}_as_string"), json!(text));
        }),
        Kind::IpRange(ranges) => write_range(ranges, at, out, |members, name, end| {
            members.insert(name.into(), json!(Cast::show_address(end)));
        }),
        Kind::Composite(sources) => {
            out.extend_from_slice(b"\"key\":");
            write_composite_key(sources, bucket, out);
        }
        _ => {}
    }
}

fn write_date_key(dates: &DateShape, millis: i64, out: &mut Vec<u8>) {
    let text = dates.format.write(millis, &dates.zone);
    push_member("key_as_string", &json!(text), out);
    out.push(b',');
    push_member("key", &json!(millis), out);
}

fn write_json(value: Option<&Value>, out: &mut Vec<u8>) {
    match value {
        Some(value) => value.write_json(out),
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends the members of a range; `insert` adds those of an end, which has a name.
fn write_range<End: Copy>(
    ranges: &Ranges<End>,
    at: usize,
    out: &mut Vec<u8>,
    insert: impl Fn(&mut Map<String, Json>, &str, End),
) {
    let Some(Range { key, from, to }) = ranges.ranges.get(at) else {
        return;
    };
    let mut members = Map::new();
    if !ranges.keyed {
        members.insert("key".into(), json!(key));
    }
    for (name, end) in [("from", from), ("to", to)] {
        if let Some(end) = end {
            insert(&mut members, name, *end);
        }
    }
    push_members(&members, out);
}

fn write_composite_key(sources: &[CompositeSource], bucket: &SaidBucket, out: &mut Vec<u8>) {
    out.push(b'{');
    for (at, (source, value)) in sources.iter().zip(&bucket.key).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_string(&source.name, out);
        out.push(b':');
        match (&source.dates, value.as_date_millis()) {
            (Some(dates), Some(millis)) => {
                write_string(&dates.format.write(millis, &dates.zone), out);
            }
            _ => value.write_json(out),
        }
    }
    out.push(b'}');
}
