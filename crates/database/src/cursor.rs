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

#[cfg(test)]
mod tests {
    use super::*;

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
