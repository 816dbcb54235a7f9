//! What aggregations say: that of their facets, with the buckets that are empty, and of pipelines.

use quiredb::query::{Bucket, Faceted};

use super::filled::filled;
use super::kind::{Aggregation, Kind};
use super::pipeline::{beside, within};
use super::said::{Said, SaidBucket};
use crate::http::failure::{Failure, Outcome};
use crate::search::filter::unsupported;

/// What aggregations beside each other say. `faceted` has what those say that have a facet.
///
/// # Errors
/// 400 if there are more buckets than an answer may have, or a path of a pipeline leads nowhere.
pub(crate) fn complete(
    all: &[Aggregation],
    faceted: Vec<Faceted>,
    buckets_max: u64,
) -> Outcome<Vec<Said>> {
    let mut left = Left {
        buckets: buckets_max,
        of: buckets_max,
    };
    level(all, faceted, &mut left)
}

/// How many buckets an answer may still have, and may have at all.
struct Left {
    buckets: u64,
    of: u64,
}

// Recursion ends with the aggregations, which are not nested deep.
fn level(all: &[Aggregation], faceted: Vec<Faceted>, left: &mut Left) -> Outcome<Vec<Said>> {
    let mut faceted = faceted.into_iter();
    let mut said: Vec<Said> = Vec::with_capacity(all.len());
    for one in all {
        let of_facet = match one.facet {
            Some(_) => faceted.next(),
            None => None,
        };
        let next = match (&one.kind, of_facet) {
            (Kind::Pipeline(pipeline), _) if pipeline.what.is_within() => Said::Nothing,
            (Kind::Pipeline(pipeline), _) => beside(pipeline, all, &said)?,
            (
                _,
                Some(Faceted::Buckets {
                    buckets, others, ..
                }),
            ) => {
                let buckets = of_buckets(one, buckets, left)?;
                Said::Buckets { buckets, others }
            }
            (_, Some(faceted)) => Said::Faceted(faceted),
            (_, None) => Said::Nothing,
        };
        said.push(next);
    }
    Ok(said)
}

fn of_buckets(
    one: &Aggregation,
    buckets: Vec<Bucket>,
    left: &mut Left,
) -> Outcome<Vec<SaidBucket>> {
    let buckets = filled(one, buckets, left.buckets)?;
    let after = left.buckets.checked_sub(buckets.len() as u64);
    left.buckets = after.ok_or_else(|| too_many(left.of))?;
    let mut said = Vec::with_capacity(buckets.len());
    for bucket in buckets {
        said.push(SaidBucket {
            key: bucket.key,
            count: bucket.count,
            inner: level(&one.inner, bucket.inner, left)?,
        });
    }
    for (place, inner) in one.inner.iter().enumerate() {
        if let Kind::Pipeline(pipeline) = &inner.kind
            && pipeline.what.is_within()
        {
            within(pipeline, place, &one.inner, &mut said)?;
        }
    }
    Ok(said)
}

fn too_many(buckets_max: u64) -> Failure {
    unsupported(format!(
        "the answer would have more than {buckets_max} buckets: set a smaller [size] or a larger \
         interval, page with [composite], or raise the setting [search.max_buckets] of the cluster"
    ))
}
