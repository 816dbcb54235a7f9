//! `aggs` of a search: the aggregations, and their answers in OpenSearch's shape.
//!
//! An aggregation is about all documents that match. Nested aggregations, unknown kinds and unknown
//! options are refused by name.

use quire_model::ordered::OrderedValue;
use quiredb::query::{Aggregate, Aggregated, Value};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use super::filter::{check_field, known, object, only_entry, text, unsupported};
use crate::http::failure::{Failure, Outcome};

/// Buckets of an answer at most, as in OpenSearch.
const BUCKETS_MAX: u64 = 65_535;

/// The kinds that are known.
const KINDS: [&str; 7] = [
    "avg",
    "cardinality",
    "histogram",
    "max",
    "min",
    "sum",
    "terms",
];

/// One requested aggregation.
#[derive(Debug)]
pub(crate) struct Aggregation {
    pub(crate) name: String,
    pub(crate) aggregate: Aggregate,
    /// The kind that was asked for.
    kind: &'static str,
    shape: Shape,
}

/// How an answer is written.
#[derive(Debug)]
enum Shape {
    Metric,
    Terms,
    Histogram {
        interval: f64,
        /// Whether empty intervals between others are shown.
        with_empty: bool,
    },
}

/// The aggregations of `aggs`.
pub(crate) fn aggregations(aggs: &Json) -> Outcome<Vec<Aggregation>> {
    let named = object(aggs, "aggs")?.iter();
    named.map(|(name, agg)| aggregation(name, agg)).collect()
}

fn aggregation(name: &str, agg: &Json) -> Outcome<Aggregation> {
    let (kind, body) = only_entry(object(agg, name)?, name)?;
    let body = object(body, kind)?;
    let options: &[&str] = match kind {
        "avg" | "max" | "min" | "sum" => &["field"],
        "cardinality" => &["field", "precision_threshold"],
        "histogram" => &["field", "interval", "min_doc_count", "keyed"],
        "terms" => &["field", "size", "shard_size", "min_doc_count", "order"],
        other => {
            return Err(unsupported(format!(
                "aggregation [{other}] is not supported: known are avg, cardinality, histogram, \
                 max, min, sum and terms"
            )));
        }
    };
    known(body, kind, options)?;
    let field = text(body.get("field"), &format!("[{kind}] needs a [field]"))?;
    check_field(field)?;
    let mut shape = Shape::Metric;
    let aggregate = match kind {
        "avg" => Aggregate::avg(field),
        "max" => Aggregate::max(field),
        "min" => Aggregate::min(field),
        "sum" => Aggregate::sum(field),
        "cardinality" => Aggregate::distinct(field),
        "histogram" => {
            let interval = body.get("interval").and_then(Json::as_f64);
            let interval = interval.filter(|interval| interval.is_finite() && *interval > 0.0);
            let interval = interval
                .ok_or_else(|| unsupported("[histogram] needs an [interval] greater than 0"))?;
            only(body, "histogram", "keyed", &[json!(false)])?;
            shape = Shape::Histogram {
                interval,
                with_empty: whole(body, "min_doc_count", 0, 0..=1)? == 0,
            };
            Aggregate::histogram(field, interval)
        }
        _ => {
            let size = whole(body, "size", 10, 1..=BUCKETS_MAX)?;
            whole(body, "min_doc_count", 1, 1..=1)?;
            let most_first = json!({"_count": "desc"});
            let then_by_key = json!([most_first, {"_key": "asc"}]);
            only(body, "terms", "order", &[most_first, then_by_key])?;
            shape = Shape::Terms;
            Aggregate::terms(field, size)
        }
    };
    Ok(Aggregation {
        name: name.to_owned(),
        aggregate,
        kind: KINDS
            .into_iter()
            .find(|known| *known == kind)
            .unwrap_or("terms"),
        shape,
    })
}

/// An option that is a whole number, within bounds.
fn whole(
    body: &Map<String, Json>,
    name: &str,
    default: u64,
    within: RangeInclusive<u64>,
) -> Outcome<u64> {
    let given = body.get(name).map(Json::as_u64);
    match given
        .unwrap_or(Some(default))
        .filter(|n| within.contains(n))
    {
        Some(number) => Ok(number),
        None => Err(unsupported(format!(
            "[{name}] must be from {} to {}",
            within.start(),
            within.end()
        ))),
    }
}

/// Refuses an option unless it is absent or has one of these values.
fn only(body: &Map<String, Json>, kind: &str, name: &str, values: &[Json]) -> Outcome<()> {
    match body.get(name) {
        Some(value) if !values.contains(value) => Err(unsupported(format!(
            "[{kind}] does not support [{name}] [{value}]"
        ))),
        _ => Ok(()),
    }
}

impl Aggregation {
    /// The name in the answer; with its kind before it where the caller wants that.
    pub(crate) fn answer_name(&self, aggregated: &Aggregated, typed: bool) -> String {
        if !typed {
            return self.name.clone();
        }
        let kind = match aggregated {
            Aggregated::Terms { terms, .. } => {
                let of = |(value, _): &(Value, u64)| match value.get() {
                    OrderedValue::String(_) => "sterms",
                    OrderedValue::Float(_) => "dterms",
                    _ => "lterms",
                };
                let kinds: BTreeSet<&str> = terms.iter().map(of).collect();
                let mut kinds = kinds.into_iter();
                match (kinds.next(), kinds.next()) {
                    (Some(only), None) => only,
                    (Some("dterms"), Some("lterms")) => "dterms",
                    _ => "sterms",
                }
            }
            _ => self.kind,
        };
        format!("{kind}#{}", self.name)
    }

    /// Appends the answer.
    ///
    /// # Errors
    /// 400 for more buckets than an answer may have.
    pub(crate) fn write(&self, aggregated: &Aggregated, out: &mut Vec<u8>) -> Outcome<()> {
        match (aggregated, &self.shape) {
            (Aggregated::Count(count), _) => push(&json!({"value": count}), out),
            (Aggregated::Number(number), _) => push(&json!({"value": number}), out),
            (Aggregated::Value(value), _) => {
                out.extend_from_slice(b"{\"value\":");
                match value.as_ref().map(|value| (value, value.as_f64())) {
                    Some((_, Some(number))) => push(&json!(number), out),
                    Some((value, None)) => value.write_json(out),
                    None => out.extend_from_slice(b"null"),
                }
                out.push(b'}');
            }
            (Aggregated::Terms { terms, others }, _) => write_terms(terms, *others, out),
            (
                Aggregated::Histogram(buckets),
                Shape::Histogram {
                    interval,
                    with_empty,
                },
            ) => write_histogram(buckets, *interval, *with_empty, out)?,
            // No aggregation of a request has these.
            (Aggregated::Histogram(_), Shape::Metric | Shape::Terms)
            | (Aggregated::Groups { .. }, _) => {}
        }
        Ok(())
    }
}

fn push(value: &Json, out: &mut Vec<u8>) {
    out.extend_from_slice(value.to_string().as_bytes());
}

fn write_terms(terms: &[(Value, u64)], others: u64, out: &mut Vec<u8>) {
    let head = format!(
        "{{\"doc_count_error_upper_bound\":0,\"sum_other_doc_count\":{others},\"buckets\":["
    );
    out.extend_from_slice(head.as_bytes());
    for (at, (value, count)) in terms.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"{\"key\":" } else { b",{\"key\":" });
        // A boolean's key is a number, with its name beside it.
        match value.get() {
            OrderedValue::Bool(value) => {
                let key = format!("{},\"key_as_string\":\"{value}\"", u8::from(value));
                out.extend_from_slice(key.as_bytes());
            }
            _ => value.write_json(out),
        }
        out.extend_from_slice(format!(",\"doc_count\":{count}}}").as_bytes());
    }
    out.extend_from_slice(b"]}");
}

fn write_histogram(
    buckets: &[(f64, u64)],
    interval: f64,
    with_empty: bool,
    out: &mut Vec<u8>,
) -> Outcome<()> {
    let first = buckets.first().map_or(0.0, |(from, _)| *from);
    let place = |from: f64| ((from - first) / interval).round();
    let shown = match buckets.last() {
        Some((last, _)) if with_empty => place(*last) + 1.0,
        _ => buckets.len() as f64,
    };
    if shown > BUCKETS_MAX as f64 {
        return Err(too_many_buckets(shown));
    }
    out.extend_from_slice(b"{\"buckets\":[");
    let mut buckets = buckets.iter().peekable();
    for at in 0..shown as u64 {
        let is_next = |bucket: &&(f64, u64)| !with_empty || place(bucket.0) == at as f64;
        let bucket = buckets.next_if(is_next);
        let (from, count) = bucket.map_or_else(
            || (first + at as f64 * interval, 0),
            |(from, count)| (*from, *count),
        );
        if at > 0 {
            out.push(b',');
        }
        push(&json!({"key": from, "doc_count": count}), out);
    }
    out.extend_from_slice(b"]}");
    Ok(())
}

fn too_many_buckets(buckets: f64) -> Failure {
    unsupported(format!(
        "a histogram would have {buckets} buckets, more than {BUCKETS_MAX}: set a larger \
         [interval], or [min_doc_count] 1, which leaves out the empty ones"
    ))
}
