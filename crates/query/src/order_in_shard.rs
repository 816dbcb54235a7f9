//! Whether ordinals of a shard order its documents as an order does.

use crate::{Leaf, Order, OrderedAs, Result, Shard, TermRange, Test};
use std::ops::Bound;

impl Order {
    /// Whether the documents of a shard are in this order by the terms of their values, those
    /// without one last.
    pub(crate) fn is_by_terms_in(&self, shard: &dyn Shard) -> Result<bool> {
        if self.missing_first || self.missing.is_some() {
            return Ok(false);
        }
        if self.by == OrderedAs::Value {
            return Ok(true);
        }
        let (info, kept) = match (shard.field(&self.path)?, self.by.kept()) {
            (None, _) => return Ok(true),
            (_, None) => return Ok(false),
            (Some(info), Some(kept)) => (info, kept),
        };
        let (start, end) = ([kept.start], [kept.end]);
        let (lower, upper) = match &info.range {
            Some((least, most)) => (least.as_ref() < &start[..], most.as_ref() >= &end[..]),
            None => (true, true),
        };
        let others = [
            (lower, Bound::Unbounded, Bound::Excluded(start.into())),
            (upper, Bound::Included(end.into()), Bound::Unbounded),
        ];
        for (_, lower, upper) in others.into_iter().filter(|(may_be, ..)| *may_be) {
            if !info.filterable {
                return Ok(false);
            }
            let leaf = Leaf {
                path: self.path.clone(),
                test: Test::Range(TermRange { lower, upper }),
            };
            if shard.estimate(&leaf)?.at_most > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
