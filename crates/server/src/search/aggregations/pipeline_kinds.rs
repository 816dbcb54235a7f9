//! The aggregations of what others say.

use serde_json::Value as Json;

use super::body::Body;
use super::kind::{Gaps, Pipeline, PipelineKind};
use super::moving::{Moving, MovingFunction};
use super::terms::{SIZE_MAX, direction_of};
use crate::http::failure::Outcome;
use crate::search::filter::{object, only_entry};
use quire_model::ordered::Direction;

/// A pipeline; none if the kind is another.
pub(super) fn pipeline_kind(kind: &str, body: &Json) -> Outcome<Option<Pipeline>> {
    let what = match kind {
        "cumulative_sum" => PipelineKind::CumulativeSum,
        "derivative" => PipelineKind::Derivative,
        "avg_bucket" => PipelineKind::Avg,
        "max_bucket" => PipelineKind::Max,
        "min_bucket" => PipelineKind::Min,
        "sum_bucket" => PipelineKind::Sum,
        "stats_bucket" => PipelineKind::Stats,
        "moving_fn" => return moving_fn(body).map(Some),
        "bucket_sort" => return bucket_sort(body).map(Some),
        _ => return Ok(None),
    };
    let body = Body::of(kind, body, &["buckets_path", "gap_policy"])?;
    Ok(Some(Pipeline {
        what,
        path: path(&body)?,
        gaps: gaps(&body)?,
    }))
}

fn moving_fn(body: &Json) -> Outcome<Pipeline> {
    let names = ["buckets_path", "gap_policy", "window", "shift", "script"];
    let body = Body::of("moving_fn", body, &names)?;
    let window = body.get("window").and_then(Json::as_u64);
    let window = window
        .filter(|window| *window > 0)
        .ok_or_else(|| body.refused("[window] must be a positive, non-zero integer."))?;
    let script = match body.get("script") {
        Some(Json::Object(members)) => members.get("source").and_then(Json::as_str),
        Some(script) => script.as_str(),
        None => None,
    };
    let function = script.and_then(MovingFunction::of_script).ok_or_else(|| {
        body.refused(
            "[script] must be a call of [MovingFunctions]: [ewma(values, alpha)], or \
             [linearWeightedAvg], [max], [min], [sum] or [unweightedAvg] of [values]",
        )
    })?;
    let shift = match body.get("shift") {
        None => 0,
        Some(shift) => shift
            .as_i64()
            .ok_or_else(|| body.refused("[shift] must be a whole number"))?,
    };
    Ok(Pipeline {
        what: PipelineKind::MovingFunction(Moving {
            function,
            window: usize::try_from(window).unwrap_or(usize::MAX),
            shift,
        }),
        path: path(&body)?,
        gaps: gaps(&body)?,
    })
}

fn path(body: &Body<'_>) -> Outcome<Vec<String>> {
    let path = body.text("buckets_path")?;
    let path = path.ok_or_else(|| body.refused("it needs a [buckets_path]"))?;
    Ok(names(path))
}

fn names(path: &str) -> Vec<String> {
    path.split('>').map(|name| name.trim().to_owned()).collect()
}

fn gaps(body: &Body<'_>) -> Outcome<Gaps> {
    match body.text("gap_policy")? {
        None | Some("skip") => Ok(Gaps::Skipped),
        Some("insert_zeros") => Ok(Gaps::Zeros),
        Some(other) => Err(body.refused(&format!(
            "[gap_policy] must be [skip] or [insert_zeros], not [{other}]"
        ))),
    }
}

fn bucket_sort(body: &Json) -> Outcome<Pipeline> {
    let body = Body::of("bucket_sort", body, &["sort", "from", "size", "gap_policy"])?;
    let sorts = match body.get("sort") {
        None => Vec::new(),
        Some(Json::Array(sorts)) => sorts.iter().collect(),
        Some(one) => vec![one],
    };
    let mut by = Vec::new();
    for sort in sorts {
        if let Some(path) = sort.as_str() {
            by.push((names(path), false));
            continue;
        }
        let (path, how) = only_entry(object(sort, "sort")?, "sort")?;
        let direction = match how {
            Json::Object(members) => Body::of("sort", how, &["order"])
                .map(|_| members.get("order").cloned().unwrap_or("asc".into()))?,
            direction => direction.clone(),
        };
        by.push((
            names(path),
            direction_of(&direction)? == Direction::Descending,
        ));
    }
    let size = match body.get("size") {
        None => None,
        Some(_) => Some(body.whole("size", 0, 1..=SIZE_MAX)? as usize),
    };
    let from = body.whole("from", 0, 0..=SIZE_MAX)? as usize;
    let path = Vec::new();
    Ok(Pipeline {
        what: PipelineKind::BucketSort { by, from, size },
        path,
        gaps: gaps(&body)?,
    })
}
