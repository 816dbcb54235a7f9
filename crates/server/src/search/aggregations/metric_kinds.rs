//! The aggregations that measure the documents of a bucket.

use quiredb::query::{Facet, FacetKind, Measure, Metric};
use serde_json::{Value as Json, json};

use super::body::Body;
use super::kind::{HitsShape, Kind};
use super::percentiles::{median_deviation, percentiles, percents_below};
use super::weighted::weighted_avg;
use crate::documents::source::{Source, SourceBody};
use crate::http::failure::Outcome;
use crate::search::filter::unsupported;
use crate::search::sort::orders;

/// Hits of a bucket, by default and at the most.
const HITS_DEFAULT: u64 = 3;
const HITS_MAX: u64 = 100;

/// A metric; none if the kind is another.
pub(super) fn metric_kind(name: &str, kind: &str, body: &Json) -> Outcome<Option<(Kind, Facet)>> {
    let simple = ["field", "missing"];
    let (shape, metric, body) = match kind {
        "top_hits" => return top_hits(body).map(Some),
        "percentiles" => return percentiles(body).map(Some),
        "percentile_ranks" => return percents_below(body).map(Some),
        "median_absolute_deviation" => return median_deviation(name, body).map(Some),
        "weighted_avg" => return weighted_avg(body).map(Some),
        "avg" | "max" | "min" | "sum" | "value_count" => {
            let body = Body::of(kind, body, &simple)?;
            let path = body.field()?;
            let (name, metric) = match kind {
                "avg" => ("avg", Metric::Measure(Measure::Avg(path))),
                "max" => ("max", Metric::Measure(Measure::Max(path))),
                "min" => ("min", Metric::Measure(Measure::Min(path))),
                "sum" => ("sum", Metric::Measure(Measure::Sum(path))),
                _ => ("value_count", Metric::Values(path)),
            };
            (Kind::Metric(name), metric, body)
        }
        "cardinality" => {
            let body = Body::of(kind, body, &["field", "missing", "precision_threshold"])?;
            let path = body.field()?;
            if let Some(threshold) = body.number("precision_threshold")?
                && threshold < 0.0
            {
                return Err(body.refused(&format!(
                    "[precisionThreshold] must be greater than or equal to 0. Found \
                     [{threshold}] in [{name}]"
                )));
            }
            // Exact, unless the caller says that it need not be.
            let measure = match body.whole("precision_threshold", u64::MAX, 0..=u64::MAX)? {
                u64::MAX => Measure::Distinct(path),
                _ => Measure::ApproximateDistinct(path),
            };
            (Kind::Metric("cardinality"), Metric::Measure(measure), body)
        }
        "stats" => {
            let body = Body::of(kind, body, &simple)?;
            (Kind::Stats, Metric::Stats(body.field()?), body)
        }
        "extended_stats" => {
            let body = Body::of(kind, body, &["field", "missing", "sigma"])?;
            let sigma = body.number("sigma")?.unwrap_or(2.0);
            if sigma < 0.0 {
                return Err(body.refused(&format!(
                    "[sigma] must be greater than or equal to 0. Found [{sigma:?}] in [{name}]"
                )));
            }
            (
                Kind::ExtendedStats(sigma),
                Metric::Stats(body.field()?),
                body,
            )
        }
        _ => return Ok(None),
    };
    let missing = body.missing()?;
    Ok(Some((
        shape,
        FacetKind::Metric {
            metric,
            missing,
            cast: None,
        }
        .into(),
    )))
}

/// The aggregation that a metric is of.
pub(crate) fn name_of(metric: &Metric) -> &'static str {
    match metric {
        Metric::Measure(Measure::Min(_)) => "min",
        Metric::Measure(Measure::Max(_)) => "max",
        Metric::Measure(Measure::Sum(_)) => "sum",
        Metric::Measure(Measure::Avg(_)) => "avg",
        Metric::Measure(_) => "cardinality",
        Metric::Values(_) => "value_count",
        Metric::Stats(_) => "stats",
        Metric::Percentiles(..) => "percentiles",
        Metric::PercentsBelow(..) => "percentile_ranks",
        Metric::MedianDeviation(_) => "median_absolute_deviation",
        Metric::WeightedAvg { .. } => "weighted_avg",
    }
}

fn top_hits(body: &Json) -> Outcome<(Kind, Facet)> {
    let names = [
        "size",
        "from",
        "sort",
        "_source",
        "version",
        "seq_no_primary_term",
        "track_scores",
        "explain",
    ];
    let body = Body::of("top_hits", body, &names)?;
    body.only("track_scores", &json!(false))?;
    body.only("explain", &json!(false))?;
    let source = match body.get("_source") {
        None => json!(true),
        Some(source) => source.clone(),
    };
    let source: Source = serde_json::from_value::<SourceBody>(source)
        .map_err(|_| {
            unsupported("[_source] must be a boolean, patterns, or [includes] and [excludes]")
        })?
        .source()?;
    let orders = match body.get("sort") {
        Some(sort) => orders(sort, false)?,
        None => Vec::new(),
    };
    let facet = FacetKind::Hits {
        order: orders.clone(),
        skip: body.whole("from", 0, 0..=HITS_MAX)?,
        limit: body.whole("size", HITS_DEFAULT, 0..=HITS_MAX)?,
    };
    let shape = HitsShape {
        orders,
        source,
        with_version: body.flag("version")?,
        with_seq_no: body.flag("seq_no_primary_term")?,
    };
    Ok((Kind::Hits(shape), facet.into()))
}
