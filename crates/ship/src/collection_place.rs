//! The place of readers of a collection: which collection it is, and how many partitions it had.
//!
//! # Invariants
//! 1. A cursor has as many partitions as the place that is stored with it says. Partitions at its
//!    end that were not read yet may be missing, so its length does not say that number.
//! 2. A split makes a multiple of the partitions: partition `p` becomes the `times` partitions from
//!    `p * times` on. A position of `p` then holds for each of these.
//! 3. Of a cursor from before a merge the collection says where it goes on.

use crate::change::Cursor;
use crate::error::{Error, Result};
use serde_json::{Value, json};

/// The most partitions of a collection.
const PARTITIONS_MAX: usize = 1024;

/// The place of readers of a collection: a cursor says nothing of another one.
pub(crate) fn place(identity: &str, partitions: usize) -> Value {
    json!({ "collection": identity, "partitions": partitions })
}

/// Refuses a place of another collection.
///
/// # Errors
/// If it is of another one.
pub(crate) fn check(place: Option<&Value>, identity: &str) -> Result<()> {
    match place.and_then(|place| place["collection"].as_str()) {
        Some(stored) if stored != identity => Err(Error::Source(
            "the stored position is of another collection: it was made anew, or its alias stands \
             for another one now. Remove the sinks' documents and the stored positions, to begin \
             anew"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

/// A cursor that was stored with a place, as one of the `partitions` that there are now.
///
/// Places of older programs have no number of partitions. The cursor may be of any number then that
/// is not less than its length, and the result is before all that it may mean: some changes may
/// come once more, and none is left out.
///
/// # Errors
/// If the collection can't have had as many partitions; what `spread` returned, which has the
/// collection make a cursor of now of another one.
pub(crate) fn resumed(
    cursor: Cursor,
    place: Option<&Value>,
    partitions: usize,
    spread: &dyn Fn(&Cursor) -> Result<Option<Cursor>>,
) -> Result<Cursor> {
    let length = cursor.positions().len();
    if length == 0 {
        // Partitions that others were merged into do not begin with the first position.
        let begin = spread(&Cursor::new(vec![0; partitions]))?;
        let begin = begin.filter(|begin| begin.positions().iter().any(|one| *one > 0));
        return Ok(begin.unwrap_or(cursor));
    }
    let stored = place.and_then(|place| place["partitions"].as_u64());
    let had = stored.and_then(|stored| usize::try_from(stored).ok());
    if let Some(had) = had.filter(|had| (length.max(1)..=PARTITIONS_MAX).contains(had))
        && !partitions.is_multiple_of(had)
        && let Some(spread) = spread(&cursor.spread(had, 1))?
    {
        return Ok(spread);
    }
    let may_be = |count: &usize| {
        partitions.is_multiple_of(*count)
            && *count >= length
            && stored.is_none_or(|stored| stored == *count as u64)
    };
    let meanings = (1..=partitions).filter(may_be).map(|count| {
        if count == partitions {
            return cursor.clone();
        }
        cursor.spread(count, partitions / count)
    });
    let earliest = meanings.reduce(|one, other| one.earliest(&other));
    earliest.ok_or_else(|| {
        let count = stored.unwrap_or(length as u64);
        Error::Source(format!(
            "the stored position is of {count} partitions, and the collection has {partitions}: it \
             was made anew or restored from an older backup. Remove the sinks' documents and the \
             stored positions, to begin anew"
        ))
    })
}

/// The error of a cursor that the collection can't have given.
pub(crate) fn past_the_end(partition: usize) -> Error {
    Error::Source(format!(
        "the stored position is past the end of partition {partition}: the collection was made \
         anew or restored from an older backup. Remove the sinks' documents and the stored \
         positions, to begin anew"
    ))
}

/// The error of a cursor that the reader never gave.
pub(crate) fn too_many_partitions() -> Error {
    Error::Source("the position has more partitions than the collection".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a collection says of a cursor that is of none of its merges.
    fn never_merged(_cursor: &Cursor) -> Result<Option<Cursor>> {
        Ok(None)
    }

    #[test]
    fn a_collection_says_where_a_reader_goes_on_after_a_merge() {
        let spread = |cursor: &Cursor| {
            Ok(match cursor.to_string().as_str() {
                "7,3,0,0" => Some(Cursor::new(vec![1003, 1000])),
                "0,0" => Some(Cursor::new(vec![1000, 1000])),
                other => panic!("{other}"),
            })
        };
        let begin = resumed(Cursor::default(), None, 2, &spread);
        assert_eq!(begin.unwrap(), Cursor::new(vec![1000, 1000]));
        let place = json!({"collection": "c", "partitions": 4});
        let found = resumed(Cursor::new(vec![7, 3]), Some(&place), 2, &spread);
        assert_eq!(found.unwrap(), Cursor::new(vec![1003, 1000]));
    }

    #[test]
    fn a_stored_cursor_holds_for_all_partitions_that_its_own_became() {
        let cases: [(&str, Option<u64>, usize, Option<&str>); 15] = [
            // As many as before.
            ("", Some(2), 2, Some("")),
            ("7", Some(2), 2, Some("7")),
            ("7,3", Some(2), 2, Some("7,3")),
            // More.
            ("", Some(2), 6, Some("")),
            ("7,3", Some(2), 4, Some("7,7,3,3")),
            ("7", Some(2), 6, Some("7,7,7,0,0,0")),
            ("7", Some(1), 3, Some("7,7,7")),
            // What a collection can't have had.
            ("7,3,5", Some(2), 4, None),
            ("7,3", Some(3), 4, None),
            ("7,3", Some(4), 2, None),
            ("7", Some(0), 4, None),
            ("7,3,5", None, 2, None),
            // A place of an older program: one number is possible, or several.
            ("7,3,5", None, 3, Some("7,3,5")),
            ("7,3,5", None, 4, Some("7,3,5")),
            ("7,3", None, 4, Some("7,3")),
        ];
        for (cursor, stored, partitions, expected) in cases {
            let stored = stored.map(|count| json!({"collection": "c", "partitions": count}));
            let cursor = Cursor::parse(cursor).unwrap();
            let found = resumed(cursor.clone(), stored.as_ref(), partitions, &never_merged);
            let text = found.as_ref().map(ToString::to_string).ok();
            assert_eq!(
                text.as_deref(),
                expected,
                "{cursor} of {stored:?} for {partitions}: {found:?}"
            );
        }
        // Of 1: 7 7 7 7. Of 2: 7 7 0 0. Of 4: 7 0 0 0.
        let place = json!({"collection": "c"});
        let resumed = |cursor, place, partitions| resumed(cursor, place, partitions, &never_merged);
        let earliest = resumed(Cursor::new(vec![7]), Some(&place), 4).unwrap();
        assert_eq!(earliest, Cursor::new(vec![7]));
        // Of 2: 3 3 7 7. Of 4: 3 7 0 0.
        let earliest = resumed(Cursor::new(vec![3, 7]), Some(&place), 4).unwrap();
        assert_eq!(earliest, Cursor::new(vec![3, 3]));
    }

    #[test]
    fn what_is_resumed_is_stored_as_it_is_read() {
        let resumed = |cursor, place, partitions| resumed(cursor, place, partitions, &never_merged);
        let before = place("c", 2);
        let once = resumed(Cursor::new(vec![5]), Some(&before), 4).unwrap();
        let now = place("c", 4);
        assert_eq!(resumed(once.clone(), Some(&now), 4).unwrap(), once);
        let twice = resumed(once, Some(&now), 8).unwrap();
        let direct = resumed(Cursor::new(vec![5]), Some(&before), 8).unwrap();
        assert_eq!(twice, direct);
    }
}
