//! Reads `aggs`.

use quiredb::query::DateFormat;
use serde_json::Value as Json;
use std::collections::BTreeSet;

use super::body::Reading;
use super::bucket_kinds::bucket_kind;
use super::kind::{Aggregation, Kind};
use super::metric_kinds::metric_kind;
use super::pipeline_kinds::pipeline_kind;
use crate::http::failure::Outcome;
use crate::search::filter::{object, unsupported};

/// Aggregations are nested less deep than this.
const DEPTH_MAX: usize = 16;

/// The aggregations that are answered, without those of other aggregations.
pub(crate) const KINDS: [&str; 26] = [
    "adjacency_matrix",
    "avg",
    "cardinality",
    "composite",
    "date_histogram",
    "date_range",
    "extended_stats",
    "filter",
    "filters",
    "histogram",
    "ip_range",
    "max",
    "median_absolute_deviation",
    "min",
    "missing",
    "multi_terms",
    "percentile_ranks",
    "percentiles",
    "range",
    "rare_terms",
    "stats",
    "sum",
    "terms",
    "top_hits",
    "value_count",
    "weighted_avg",
];

/// The aggregations of other aggregations that are answered.
const PIPELINES: &str = "avg_bucket, bucket_sort, cumulative_sum, derivative, max_bucket, \
    min_bucket, moving_fn, stats_bucket and sum_bucket";

/// The aggregations of `aggs`.
///
/// # Errors
/// 400 for a kind or an option that is not known.
pub(crate) fn aggregations(aggs: &Json, reading: &Reading<'_>) -> Outcome<Vec<Aggregation>> {
    level(aggs, reading, None, 1)
}

/// Aggregations beside each other. `outer` is the kind that they are in.
fn level(
    aggs: &Json,
    reading: &Reading<'_>,
    outer: Option<&str>,
    depth: usize,
) -> Outcome<Vec<Aggregation>> {
    if depth > DEPTH_MAX {
        let what = format!("aggregations are nested more than {DEPTH_MAX} deep");
        return Err(unsupported(what));
    }
    let named = object(aggs, "aggs")?.iter();
    let all = named.map(|(name, agg)| aggregation(name, agg, reading, depth));
    let all: Vec<Aggregation> = all.collect::<Outcome<_>>()?;
    for one in &all {
        if let Kind::Pipeline(pipeline) = &one.kind
            && pipeline.what.is_within()
            && !outer.is_some_and(has_many_buckets)
        {
            let kind = pipeline.what.name();
            return Err(unsupported(format!(
                "{kind} aggregation [{}] must be declared inside of another aggregation, within \
                 one that has buckets in a row",
                one.name
            )));
        }
    }
    in_order(all)
}

fn has_many_buckets(kind: &str) -> bool {
    matches!(
        kind,
        "adjacency_matrix"
            | "composite"
            | "date_histogram"
            | "date_range"
            | "filters"
            | "histogram"
            | "ip_range"
            | "multi_terms"
            | "range"
            | "rare_terms"
            | "terms"
    )
}

/// Pipelines behind what they are about.
fn in_order(all: Vec<Aggregation>) -> Outcome<Vec<Aggregation>> {
    let names: BTreeSet<String> = all.iter().map(|one| one.name.clone()).collect();
    let (mut sorted, mut left) = (Vec::new(), all);
    let mut done = BTreeSet::new();
    while !left.is_empty() {
        let is_ready = |one: &Aggregation| match &one.kind {
            Kind::Pipeline(pipeline) => pipeline
                .needs()
                .iter()
                .all(|path| done.contains(name_in(&names, path))),
            _ => true,
        };
        let (ready, others): (Vec<_>, Vec<_>) = left.into_iter().partition(is_ready);
        if ready.is_empty() {
            let of = others.first().map_or("", |one| one.name.as_str());
            let needed = match others.first().map(|one| &one.kind) {
                Some(Kind::Pipeline(pipeline)) => {
                    let mut needs = pipeline.needs().into_iter();
                    needs.find(|path| !done.contains(name_in(&names, path)))
                }
                _ => None,
            };
            let needed = needed.map_or("", |path| name_in(&names, path));
            return Err(unsupported(match names.contains(needed) {
                true => format!("[buckets_path] of [{of}] leads back to it"),
                false => format!("[buckets_path] of [{of}]: there is no [{needed}] beside it"),
            }));
        }
        done.extend(ready.iter().map(|one| one.name.clone()));
        sorted.extend(ready);
        left = others;
    }
    Ok(sorted)
}

/// The name in a part of a path, which may go on with a number of what that says.
fn name_in<'a>(names: &BTreeSet<String>, path: &'a str) -> &'a str {
    let ends = path.match_indices(['.', '[']).map(|(at, _)| at);
    let parts = ends.filter_map(|at| path.get(..at));
    let known = std::iter::once(path)
        .chain(parts)
        .find(|part| names.contains(*part));
    known.unwrap_or(path)
}

fn aggregation(
    name: &str,
    agg: &Json,
    reading: &Reading<'_>,
    depth: usize,
) -> Outcome<Aggregation> {
    if name.contains(['[', ']', '>']) {
        return Err(unsupported(format!(
            "[{name}]: a name can't have [, ] or > in it"
        )));
    }
    let (mut kind, mut aggs, mut meta) = (None, None, None);
    for (member, value) in object(agg, name)? {
        match member.as_str() {
            "meta" => meta = Some(object(value, "meta")?.clone()),
            "aggs" | "aggregations" if aggs.is_none() => aggs = Some(value),
            "aggs" | "aggregations" => {
                return Err(unsupported(
                    "[aggs] and [aggregations] are the same: give one",
                ));
            }
            _ if kind.is_none() => kind = Some((member.as_str(), value)),
            other => {
                let what = format!("[{name}] has [{other}] beside another kind");
                return Err(unsupported(what));
            }
        }
    }
    let (kind, body) = kind.ok_or_else(|| unsupported(format!("[{name}] has no kind")))?;
    let inner = match aggs {
        Some(aggs) => level(aggs, reading, Some(kind), depth + 1)?,
        None => Vec::new(),
    };
    let (read, facet) = if let Some((read, facet)) = metric_kind(name, kind, body)? {
        refuse_inner(kind, &inner)?;
        (read, Some(facet))
    } else if let Some((read, mut facet)) = bucket_kind(kind, body, &inner, reading)? {
        facet.inner = Aggregation::facets(&inner);
        (read, Some(facet))
    } else if let Some(pipeline) = pipeline_kind(kind, body)? {
        refuse_inner(kind, &inner)?;
        (Kind::Pipeline(pipeline), None)
    } else {
        return Err(unsupported(format!(
            "aggregation [{kind}] is not supported: known are {}, {PIPELINES}",
            KINDS.join(", ")
        )));
    };
    Ok(Aggregation {
        name: name.to_owned(),
        kind: read,
        facet,
        inner,
        meta,
        shown: DateFormat::ISO,
    })
}

fn refuse_inner(kind: &str, inner: &[Aggregation]) -> Outcome<()> {
    match inner.first() {
        Some(first) => Err(unsupported(format!(
            "[{kind}] has no buckets: [aggs] in it, with [{}], is not possible",
            first.name
        ))),
        None => Ok(()),
    }
}
