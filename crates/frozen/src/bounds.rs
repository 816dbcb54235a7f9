//! Whether a test can accept a value between two bounds.

use quire_query::{TermBounds, Test};
use std::ops::Bound;

/// Whether no value from `least` to `greatest` is within bounds.
#[inline]
pub(crate) fn is_outside(bounds: TermBounds<'_>, least: &[u8], greatest: &[u8]) -> bool {
    let (lower, upper) = bounds;
    let above = match lower {
        Bound::Included(lower) | Bound::Excluded(lower) => lower > greatest,
        Bound::Unbounded => false,
    };
    above
        || match upper {
            Bound::Included(upper) => upper < least,
            Bound::Excluded(upper) => upper <= least,
            Bound::Unbounded => false,
        }
}

/// Whether a test may accept a value from `least` to `greatest`.
#[inline]
pub(crate) fn may_match(test: &Test, least: &[u8], greatest: &[u8]) -> bool {
    match test {
        Test::In(values) => {
            let from = values.partition_point(|value| value.term() < least);
            values
                .get(from)
                .is_some_and(|value| value.term() <= greatest)
        }
        _ => !is_outside(test.bounds(), least, greatest),
    }
}
