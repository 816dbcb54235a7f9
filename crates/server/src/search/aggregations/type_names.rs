//! The types of answers, which are before their names where a client wants them.

use quire_model::ordered::OrderedValue;
use quiredb::FieldKind;
use quiredb::query::Value;

use super::kind::{Aggregation, Kind, PipelineKind};
use super::said::{Said, SaidBucket};

/// The type of an answer by which clients read it.
pub(super) fn type_of(one: &Aggregation, said: &Said) -> &'static str {
    match &one.kind {
        Kind::Terms(_) => terms_type(&one.kind, said),
        Kind::MultiTerms(_) => "multi_terms",
        Kind::Adjacency(_) => "adjacency_matrix",
        Kind::Histogram(_) => "histogram",
        Kind::DateHistogram(_) => "date_histogram",
        Kind::Range(_) => "range",
        Kind::DateRange(..) => "date_range",
        Kind::IpRange(_) => "ip_range",
        Kind::Single(name) | Kind::Metric(name) => name,
        Kind::Filters(_) => "filters",
        Kind::Composite(_) => "composite",
        Kind::Hits(_) => "top_hits",
        Kind::Stats => "stats",
        Kind::ExtendedStats(_) => "extended_stats",
        Kind::Percentiles(shape) => shape.name,
        Kind::Pipeline(pipeline) => match pipeline.what {
            PipelineKind::Derivative => "derivative",
            PipelineKind::Max | PipelineKind::Min => "bucket_metric_value",
            PipelineKind::Stats => "stats_bucket",
            _ => "simple_value",
        },
    }
}

/// Of strings, whole numbers, or numbers: by the type of the field, or else by its values.
pub(super) fn terms_type(kind: &Kind, said: &Said) -> &'static str {
    let (Kind::Terms(shape), Said::Buckets { buckets, .. }) = (kind, said) else {
        return "";
    };
    let of_field = shape.field.map(|field| match field {
        FieldKind::UnsignedLong => "ulterms",
        FieldKind::Boolean => "lterms",
        field if field.is_date() || field.is_whole() => "lterms",
        field if field.is_number() => "dterms",
        _ => "sterms",
    });
    let name = of_field.unwrap_or_else(|| type_of_values(buckets));
    match (name, shape.documents_max) {
        (name, None) => name,
        ("lterms", Some(_)) => "lrareterms",
        (_, Some(_)) => "srareterms",
    }
}

fn type_of_values(buckets: &[SaidBucket]) -> &'static str {
    let mut found = "";
    for bucket in buckets {
        let one = match bucket.key.first().map(Value::get) {
            Some(OrderedValue::Float(_)) => "dterms",
            Some(OrderedValue::Int(_) | OrderedValue::UInt(_) | OrderedValue::Bool(_)) => "lterms",
            _ => "sterms",
        };
        found = match (found, one) {
            ("", one) => one,
            ("lterms" | "dterms", "sterms") | ("sterms", _) => "sterms",
            ("dterms", _) | (_, "dterms") => "dterms",
            (_, one) => one,
        };
    }
    if found.is_empty() { "sterms" } else { found }
}
