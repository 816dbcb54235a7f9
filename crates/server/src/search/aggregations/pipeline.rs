//! What pipelines say: aggregations of what others say.

use quiredb::query::Stats;
use std::cmp::Ordering;

use super::key_text::key_text;
use super::kind::{Aggregation, Gaps, Kind, Pipeline, PipelineKind};
use super::paths::{number_of, statistic};
use super::said::{Said, SaidBucket};
use super::type_names::terms_type;
use crate::http::failure::{Failure, Outcome};
use crate::search::filter::unsupported;

fn refused(path: &[String]) -> Failure {
    let path = path.join(">");
    unsupported(format!(
        "[buckets_path] [{path}] names no number of a bucket"
    ))
}

/// What a pipeline says of the buckets of an aggregation beside it. `said` is what those say that
/// were computed before.
pub(super) fn beside(pipeline: &Pipeline, all: &[Aggregation], said: &[Said]) -> Outcome<Said> {
    let failed = || refused(&pipeline.path);
    let (first, rest) = pipeline.path.split_first().ok_or_else(failed)?;
    // A dot may stand for the first `>`.
    let (name, part) = number_of(all, first);
    let part = (!part.is_empty()).then(|| part.to_owned());
    let rest: Vec<String> = part.into_iter().chain(rest.iter().cloned()).collect();
    let place = all.iter().position(|one| one.name == name);
    let place = place.ok_or_else(failed)?;
    let (Some(one), Some(Said::Buckets { buckets, .. })) = (all.get(place), said.get(place)) else {
        return Err(failed());
    };
    let mut numbers = Vec::new();
    for (at, bucket) in buckets.iter().enumerate() {
        let number = number_in(&one.inner, bucket, &rest, pipeline.gaps)?;
        numbers.extend(number.map(|number| (number, at)));
    }
    let count = numbers.len();
    let all = numbers.iter().map(|(number, _)| *number);
    let sum: f64 = all.clone().sum();
    let least = all.clone().min_by(f64::total_cmp);
    let greatest = all.clone().max_by(f64::total_cmp);
    let avg = (count > 0).then(|| sum / count as f64);
    let extreme = |extreme: Option<f64>| {
        let of = numbers
            .iter()
            .filter(|(number, _)| Some(*number) == extreme);
        let keys = of.filter_map(|(_, at)| Some(key_text(one, buckets.get(*at)?, *at)));
        Said::Extreme(extreme, keys.collect())
    };
    Ok(match pipeline.what {
        PipelineKind::Avg => Said::Number(avg),
        PipelineKind::Sum => Said::Number(Some(sum)),
        PipelineKind::Max => extreme(greatest),
        PipelineKind::Min => extreme(least),
        PipelineKind::Stats => Said::Stats(Stats {
            count: count as u64,
            min: least,
            max: greatest,
            sum,
            avg,
            sum_of_squares: 0.0,
        }),
        _ => Said::Nothing,
    })
}

/// Adds to each bucket what the pipeline at `place` in them says, or orders and cuts them.
pub(super) fn within(
    pipeline: &Pipeline,
    place: usize,
    inner: &[Aggregation],
    buckets: &mut Vec<SaidBucket>,
) -> Outcome<()> {
    if let PipelineKind::BucketSort { by, from, size } = &pipeline.what {
        let sorted = sorted(by, inner, std::mem::take(buckets), pipeline.gaps)?;
        let shown = sorted.into_iter().skip(*from);
        *buckets = shown.take(size.unwrap_or(usize::MAX)).collect();
        return Ok(());
    }
    if let PipelineKind::MovingFunction(moving) = &pipeline.what {
        let numbers = buckets
            .iter()
            .map(|bucket| number_in(inner, bucket, &pipeline.path, pipeline.gaps));
        let numbers = numbers.collect::<Outcome<Vec<_>>>()?;
        let said = moving.of(&numbers).into_iter().zip(&numbers);
        for (bucket, (said, number)) in buckets.iter_mut().zip(said) {
            if let (Some(slot), Some(_)) = (bucket.inner.get_mut(place), number) {
                *slot = Said::Number(said);
            }
        }
        return Ok(());
    }
    let (mut sum, mut before) = (0.0, None);
    for (at, bucket) in buckets.iter_mut().enumerate() {
        let number = number_in(inner, bucket, &pipeline.path, pipeline.gaps)?;
        let said = match pipeline.what {
            PipelineKind::CumulativeSum => {
                sum += number.unwrap_or(0.0);
                Said::Number(Some(sum))
            }
            _ if at == 0 => Said::Nothing,
            _ => Said::Number(number.zip(before).map(|(number, before)| number - before)),
        };
        before = number;
        if let Some(slot) = bucket.inner.get_mut(place) {
            *slot = said;
        }
    }
    Ok(())
}

fn sorted(
    by: &[(Vec<String>, bool)],
    inner: &[Aggregation],
    buckets: Vec<SaidBucket>,
    gaps: Gaps,
) -> Outcome<Vec<SaidBucket>> {
    let mut keyed = Vec::with_capacity(buckets.len());
    for (at, bucket) in buckets.into_iter().enumerate() {
        let mut numbers = Vec::with_capacity(by.len());
        for (path, _) in by {
            numbers.push(match path.as_slice() {
                [key] if key == "_key" => Some(at as f64),
                path => number_in(inner, &bucket, path, gaps)?,
            });
        }
        // A bucket without a number to be ordered by is a gap.
        if by.is_empty() || numbers.iter().any(Option::is_some) {
            keyed.push((numbers, bucket));
        }
    }
    keyed.sort_by(|(one, _), (other, _)| {
        let numbers = by.iter().zip(one.iter().zip(other));
        let orders = numbers.map(|((_, descending), (one, other))| match (one, other) {
            (Some(one), Some(other)) if *descending => other.total_cmp(one),
            (Some(one), Some(other)) => one.total_cmp(other),
            _ => other.is_some().cmp(&one.is_some()),
        });
        orders.fold(Ordering::Equal, Ordering::then)
    });
    Ok(keyed.into_iter().map(|(_, bucket)| bucket).collect())
}

/// The number that a path leads to in a bucket; none if there is none.
fn number_in(
    inner: &[Aggregation],
    bucket: &SaidBucket,
    path: &[String],
    gaps: Gaps,
) -> Outcome<Option<f64>> {
    let found = match path {
        [count] if count == "_count" => return Ok(Some(bucket.count as f64)),
        [] => return Err(refused(path)),
        [last] => match last_number(inner, &bucket.inner, last) {
            Some(found) => found,
            None => return Err(no_number(inner, bucket, last)),
        },
        [name, rest @ ..] => {
            let place = inner.iter().position(|one| one.name == *name);
            let place = place.ok_or_else(|| refused(path))?;
            match (inner.get(place), bucket.inner.get(place)) {
                (Some(one), Some(Said::Buckets { buckets, .. }))
                    if matches!(one.kind, Kind::Single(_)) =>
                {
                    match buckets.first() {
                        Some(first) => return number_in(&one.inner, first, rest, gaps),
                        None => None,
                    }
                }
                (Some(one), Some(Said::Buckets { .. })) => {
                    return Err(not_a_number("Object[]", &one.name));
                }
                _ => return Err(refused(path)),
            }
        }
    };
    // What is said of no documents is a gap, whatever it is.
    let found = found.filter(|number| number.is_finite() && bucket.count > 0);
    Ok(match gaps {
        Gaps::Zeros => Some(found.unwrap_or(0.0)),
        Gaps::Skipped => found,
    })
}

/// Why a name is that of no number.
fn no_number(inner: &[Aggregation], bucket: &SaidBucket, text: &str) -> Failure {
    let (name, part) = number_of(inner, text);
    let place = inner.iter().position(|one| one.name == name);
    let found = place.and_then(|place| Some((inner.get(place)?, bucket.inner.get(place)?)));
    match found {
        Some((one, said @ Said::Buckets { .. })) => {
            let class = match terms_type(&one.kind, said) {
                "lterms" => "LongTerms",
                "ulterms" => "UnsignedLongTerms",
                "dterms" => "DoubleTerms",
                "sterms" => "StringTerms",
                _ => "Object[]",
            };
            not_a_number(class, &one.name)
        }
        Some((one, _)) if part.is_empty() => unsupported(format!(
            "buckets_path must reference either a number value or a single value numeric metric \
             aggregation, but [{}] contains multiple values. Please specify which to use.",
            one.name
        )),
        _ => refused(&[text.to_owned()]),
    }
}

fn not_a_number(class: &str, name: &str) -> Failure {
    unsupported(format!(
        "buckets_path must reference either a number value or a single value numeric metric \
         aggregation, got: [{class}] at aggregation [{name}]"
    ))
}

/// The number of an aggregation of a bucket; none if the name is none.
fn last_number(inner: &[Aggregation], said: &[Said], text: &str) -> Option<Option<f64>> {
    let (name, part) = number_of(inner, text);
    let place = inner.iter().position(|one| one.name == name)?;
    let one = inner.get(place)?;
    match (said.get(place)?, &one.kind) {
        (Said::Number(number) | Said::Extreme(number, _), _) => Some(*number),
        (Said::Nothing, Kind::Pipeline(_)) => Some(None),
        (Said::Faceted(faceted), _) => Some(faceted.number(statistic(one, part)?)),
        (Said::Buckets { buckets, .. }, Kind::Single(_)) => {
            Some(buckets.first().map(|bucket| bucket.count as f64))
        }
        _ => None,
    }
}
