//! The first hits of a shard in an order, found among the documents that come first in it.
//!
//! Where many documents match and few are wanted, a few times as many as are wanted are expected
//! among the first documents of the order's field: these alone are tested. If fewer hits than
//! wanted are among them, all documents are asked after all, so what is expected decides about time
//! alone. The test of a part of the documents is never more than a fraction of the whole.

use crate::evaluate::Evaluator;
use crate::explain::Trace;
use crate::plan::{Kind, Step};
use crate::{Order, Result};
use quire_index::DocSet;

/// So many times as many hits as are wanted are to be expected among the first documents.
const SLACK: f64 = 2.2;

/// The first documents are tested if they are at most one in so many of those that would have to
/// be.
const PART: f64 = 3.0;

/// Documents that match, the first `hits_max` of the shard among them, and how many were tested for
/// that; none if all that match are to be found instead.
pub(crate) fn first_matches(
    evaluator: &Evaluator<'_, '_>,
    step: &Step<'_>,
    order: &Order,
    hits_max: u64,
    trace: Option<&mut Trace>,
) -> Result<Option<(DocSet, u64)>> {
    let docs = evaluator.docs as f64;
    let needed = docs * SLACK * hits_max as f64 / expected(step, docs);
    // Not so either where nothing is expected.
    let is_worth_it = needed * PART <= step.estimate.at_most as f64;
    if hits_max == 0 || !is_worth_it {
        return Ok(None);
    }
    let Some(mut first) = evaluator.shard.first(order, needed.ceil() as u64)? else {
        return Ok(None);
    };
    let tested = first.len();
    evaluator.retain(step, &mut first, trace)?;
    Ok((first.len() >= hits_max).then_some((first, tested)))
}

/// Those of `matching`, documents of the shard that match, that come first in an order: `hits_max`
/// at least. None if they are not to be had for a fraction of reading the values of all.
pub(crate) fn first_among(
    evaluator: &Evaluator<'_, '_>,
    order: &Order,
    hits_max: u64,
    matching: &DocSet,
) -> Result<Option<DocSet>> {
    let share = matching.len() as f64 / evaluator.docs as f64;
    let needed = SLACK * hits_max as f64 / share;
    let is_worth_it = needed * PART <= matching.len() as f64;
    if hits_max == 0 || !is_worth_it {
        return Ok(None);
    }
    let first = evaluator.shard.first(order, needed.ceil() as u64)?;
    let first = first.map(|first| &first & matching);
    Ok(first.filter(|first| first.len() >= hits_max))
}

/// About how many documents match, if the parts of a filter have nothing to do with each other.
fn expected(step: &Step<'_>, docs: f64) -> f64 {
    let (at_least, at_most) = (step.estimate.at_least as f64, step.estimate.at_most as f64);
    let expected = match &step.kind {
        Kind::All | Kind::None | Kind::Leaf(_) => f64::midpoint(at_least, at_most),
        Kind::Not(one) => docs - expected(one, docs),
        Kind::And(steps) => {
            let parts = steps.iter().map(|step| expected(step, docs) / docs);
            docs * parts.product::<f64>()
        }
        Kind::Or(steps) => {
            let others = steps.iter().map(|step| 1.0 - expected(step, docs) / docs);
            docs * (1.0 - others.product::<f64>())
        }
    };
    expected.max(at_least).min(at_most)
}
