//! The first hits of a shard in an order, found among the documents that come first in it.
//!
//! Where many documents match and few are needed, testing the first documents of the order's field
//! is enough: as many as are expected to hold a few times the needed hits. If they hold fewer hits
//! than needed, the whole shard is evaluated, so a wrong expectation costs time alone, never a
//! wrong answer. The documents tested are never more than a fraction of the shard.

use crate::evaluate::Evaluator;
use crate::explain::Trace;
use crate::plan::Step;
use crate::{Order, Result, WantedFirst};
use quire_index::DocSet;

/// The first documents are expected to hold the needed hits this many times over.
const SLACK: f64 = 2.2;

/// Documents that match, with the first `hits_max` of the shard among them, and how many were
/// tested. None if the whole shard has to be evaluated.
pub(crate) fn first_matches(
    evaluator: &Evaluator<'_, '_>,
    step: &Step<'_>,
    order: &Order,
    hits_max: u64,
    trace: Option<&mut Trace>,
) -> Result<Option<(DocSet, u64)>> {
    let docs = evaluator.docs as f64;
    let needed = docs * SLACK * hits_max as f64 / step.estimate.expected as f64;
    // Also false where no hit is expected: `needed` is then infinite or not a number.
    let part = evaluator.shard.first_part(order) as f64;
    let is_worth_it = needed * part <= step.estimate.at_most as f64;
    if hits_max == 0 || !is_worth_it || !order.is_by_terms_in(evaluator.shard)? {
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
    let part = evaluator.shard.first_part(order) as f64;
    let is_worth_it = needed * part <= matching.len() as f64;
    if hits_max == 0 || !is_worth_it || !order.is_by_terms_in(evaluator.shard)? {
        return Ok(None);
    }
    let wanted = WantedFirst {
        docs: matching,
        hits_min: hits_max,
        tested_max: needed.ceil() as u64,
    };
    evaluator.shard.first_of(order, wanted)
}
