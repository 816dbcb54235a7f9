//! The documents of a shard that can still be among the first hits.
//!
//! Once as many hits are kept as a query needs, a shard is searched only for documents that do
//! not come after the worst of them. There are few of these, or none: a query over many shards
//! costs a look into each, and a plan where there is something to test.

use crate::sort::{TopHits, first_term};
use crate::{Leaf, Order, Result, Shard, TermRange, Test};
use quire_index::DocSet;
use quire_model::ordered::Direction;
use std::ops::Bound;

/// Documents are looked for by the order's field if they are at most one in this number of all.
const PART: u64 = 4;

/// What is left of a shard.
pub(crate) enum Early {
    /// It is not known, or nearly all.
    All,
    /// These.
    Docs(DocSet),
}

/// The documents of a shard whose first value does not come after that of the worst kept hit.
pub(crate) fn early(shard: &dyn Shard, order: &Order, top: &TopHits) -> Result<Early> {
    let Some((worst, _)) = top.worst() else {
        return Ok(Early::All);
    };
    if !order.is_by_terms_in(shard)? {
        return Ok(Early::All);
    }
    let is_filterable = |shard: &dyn Shard| {
        let info = shard.field(&order.path)?;
        Ok::<_, crate::Error>(info.is_some_and(|info| info.filterable))
    };
    let (Some(term), true) = (first_term(worst, order.direction), is_filterable(shard)?) else {
        return Ok(Early::All);
    };
    // A document with several values is ordered by the best of them.
    let (lower, upper) = match order.direction {
        Direction::Ascending => (Bound::Unbounded, Bound::Included(term.into())),
        Direction::Descending => (Bound::Included(term.into()), Bound::Unbounded),
    };
    let leaf = Leaf {
        path: order.path.clone(),
        test: Test::Range(TermRange { lower, upper }),
    };
    let estimate = shard.estimate(&leaf)?;
    if estimate.at_most == 0 {
        return Ok(Early::Docs(DocSet::empty()));
    }
    match estimate.at_most.saturating_mul(PART) <= shard.doc_count()? {
        true => Ok(Early::Docs(shard.matches(&leaf, estimate.found)?)),
        false => Ok(Early::All),
    }
}
