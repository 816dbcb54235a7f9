//! Cursors: a position of each partition of a collection, up to which its changes were seen.

use quire_model::Position;

/// A cursor as one of `partitions` partitions. A cursor from before a split has fewer positions:
/// each then holds for all partitions that its own was split into. None if no split leads from the
/// one number to the other.
///
/// ```
/// use quiredb::{Position, expand_cursor};
///
/// let seen = [Position(7), Position(9)];
/// let expanded = [7, 7, 9, 9].map(Position);
/// assert_eq!(expand_cursor(&seen, 4), Some(expanded.to_vec()));
/// assert_eq!(expand_cursor(&seen, 3), None);
/// ```
pub fn expand_cursor(cursor: &[Position], partitions: usize) -> Option<Vec<Position>> {
    let times = partitions.checked_div(cursor.len())?;
    if times == 0 || times * cursor.len() != partitions {
        return None;
    }
    let expanded = cursor
        .iter()
        .flat_map(|one| std::iter::repeat_n(*one, times));
    Some(expanded.collect())
}

/// Whether each position of one cursor is at or before those of another one, in the partitions that
/// have keys of its own. They are of one collection, which may have been split or merged between.
///
/// ```
/// use quiredb::{Position, is_at_or_before};
///
/// let (before, after) = ([7, 9].map(Position), [7, 8, 9, 9].map(Position));
/// assert!(is_at_or_before(&before, &after));
/// assert!(!is_at_or_before(&after, &before));
/// ```
pub fn is_at_or_before(one: &[Position], other: &[Position]) -> bool {
    let (ones, others) = (one.len(), other.len());
    let is_before = |(at, position): (usize, &Position)| {
        // Partition `at` of n has the keys whose hashes are from at / n up to (at + 1) / n.
        let (first, end) = (at * others / ones, ((at + 1) * others).div_ceil(ones));
        let same = other.get(first..end).unwrap_or_default();
        same.iter().all(|other| position <= other)
    };
    (ones == 0) == (others == 0) && one.iter().enumerate().all(is_before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_compared_where_partitions_have_keys_in_common() {
        for (one, other, expected) in [
            (&[5, 7][..], &[5, 7][..], true),
            (&[5, 7], &[5, 6], false),
            (&[5, 7], &[5, 6, 7, 7], true),
            (&[5, 7], &[5, 4, 7, 7], false),
            (&[7, 8, 9, 9], &[9, 9], true),
            (&[7, 8, 9, 9], &[7, 9], false),
            (&[1, 2, 3], &[2, 3], true),
            (&[1, 3, 3], &[2, 3], false),
            (&[], &[], true),
            (&[], &[1], false),
            (&[1], &[], false),
        ] {
            let [one, other] = [one, other].map(|of| of.iter().map(|at| Position(*at)));
            let [one, other]: [Vec<Position>; 2] = [one.collect(), other.collect()];
            assert_eq!(is_at_or_before(&one, &other), expected, "{one:?} {other:?}");
        }
    }

    #[test]
    fn each_position_holds_for_what_its_partition_became() {
        let two = [Position(3), Position(5)];
        assert_eq!(expand_cursor(&two, 2), Some(two.to_vec()));
        let six = [3, 3, 3, 5, 5, 5].map(Position);
        assert_eq!(expand_cursor(&two, 6), Some(six.to_vec()));
        for partitions in [0, 1, 3, 5] {
            assert_eq!(expand_cursor(&two, partitions), None, "{partitions}");
        }
        assert_eq!(expand_cursor(&[], 4), None);
        assert_eq!(expand_cursor(&[], 0), None);
    }
}
