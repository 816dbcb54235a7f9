//! [`Before`]: how many partitions a collection had before each split and each merge, so that
//! positions of then are still good.
//!
//! # Invariants
//! 1. A position of an old partition that was split is good in all that it became.
//! 2. A position in a partition that others were merged into is at or after the merge's `base`, and
//!    each position of these was before it. So positions say by their size from before which merges
//!    they are, if a collection had as many partitions more than once.
//! 3. A mark says that a merged partition had, at `at`, all that the old ones had up to `seen`. So
//!    a reader of the old ones goes on from the last mark none of whose positions is after its own:
//!    it may see changes once more, and misses none.

use crate::cursor::expand_cursor;
use crate::{Error, Result};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use serde::{Deserialize, Serialize};

/// With more marks than this, some are left out.
const MARKS_MAX: usize = 64;

/// The most numbers in the marks of all merges of a collection: the catalog has them.
const NUMBERS_MAX: usize = 200_000;

/// What was before a split or a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Before {
    /// How many partitions there were before a split.
    Split(u32),
    /// What there was before a merge.
    Merge(Merge),
}

/// What there was before a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Merge {
    /// How many partitions there were.
    pub partitions: u32,
    /// The position at which the new partitions begin.
    pub base: u64,
    /// Of each new partition, ascending.
    pub marks: Vec<Vec<Mark>>,
}

/// What a partition had that others are merged into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// Up to which position of each of the old partitions.
    pub seen: Vec<u64>,
    /// Its own position then.
    pub at: u64,
}

impl Before {
    /// How many partitions there were.
    pub fn partitions(&self) -> u32 {
        match self {
            Before::Split(partitions) => *partitions,
            Before::Merge(merge) => merge.partitions,
        }
    }

    fn base(&self) -> Option<Position> {
        match self {
            Before::Split(_) => None,
            Before::Merge(merge) => Some(Position(merge.base)),
        }
    }

    /// Whether this number of partitions can have come after it.
    fn leads_to(&self, after: u32) -> bool {
        let before = self.partitions();
        match self {
            _ if before == 0 || after == 0 => false,
            Before::Split(_) => after > before && after.is_multiple_of(before),
            Before::Merge(merge) => {
                let each = (before / after) as usize;
                let is_mark_of = |mark: &Mark| mark.seen.len() == each && mark.at >= merge.base;
                before > after
                    && before.is_multiple_of(after)
                    && merge.marks.len() == after as usize
                    && merge.marks.iter().flatten().all(is_mark_of)
            }
        }
    }
}

/// Whether a collection of `partitions` can have had these before.
pub(crate) fn is_history(before: &[Before], partitions: u32) -> bool {
    let after = before.iter().skip(1).map(Before::partitions);
    let mut steps = before.iter().zip(after.chain([partitions]));
    steps.all(|(before, after)| before.leads_to(after))
}

/// Leaves marks out: each of those left is at most twice as far from the end as the next one, or
/// was beside it. So a reader that goes on at one sees not more than about twice the changes that
/// it has not seen.
pub(crate) fn thin(marks: &mut Vec<Mark>) {
    if marks.len() <= MARKS_MAX {
        return;
    }
    let end = marks.last().map_or(0, |last| last.at);
    let mut older = std::mem::take(marks).into_iter().rev().peekable();
    let mut distance = 0;
    while let Some(mut mark) = older.next() {
        while let Some(farther) = older.next_if(|farther| end - farther.at <= 2 * distance) {
            mark = farther;
        }
        distance = end - mark.at;
        marks.push(mark);
    }
    marks.reverse();
}

/// Leaves out the marks of merges that are long ago, if there are very many. Readers with positions
/// from before them go on from the beginning.
pub(crate) fn forget_old_marks(before: &mut [Before]) {
    let mut numbers = 0;
    for step in before.iter_mut().rev() {
        let Before::Merge(merge) = step else { continue };
        let each = |mark: &Mark| mark.seen.len() + 1;
        numbers += merge.marks.iter().flatten().map(each).sum::<usize>();
        if numbers > NUMBERS_MAX {
            merge.marks.iter_mut().for_each(Vec::clear);
        }
    }
}

/// What a reader has that begins with position 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zero {
    /// All changes: it is as the position at which merged partitions begin.
    Begin,
    /// Those changes that the log still has: it stays 0.
    Stays,
}

/// Positions of the partitions of now, or of a time before splits and merges, as one of each of the
/// `partitions` of now. That of an old partition that was split holds for all that it has become;
/// of those that were merged together, it is where the new one had no more than was seen of each.
///
/// # Errors
/// `Invalid` if there never was this number of partitions.
pub(crate) fn spread(
    seen: &[Position],
    partitions: usize,
    before: &[Before],
    zero: Zero,
) -> Result<Vec<Position>> {
    let newest = seen.iter().max().copied().unwrap_or_default();
    // After the last merge that led to positions as high as these, they can't be of before it.
    let is_before = |step: &Before| step.base().is_some_and(|base| base <= newest);
    let first = before.iter().rposition(is_before).map_or(0, |at| at + 1);
    let steps = before.get(first..).unwrap_or_default();
    let was = |step: &Before| step.partitions() as usize == seen.len();
    let from = match steps.iter().position(was) {
        Some(from) => from,
        None if partitions == seen.len() => steps.len(),
        None => {
            let what = format!("{} positions for {partitions} partitions", seen.len());
            return Err(Error::Invalid(what));
        }
    };
    let mut seen = seen.to_vec();
    let mut after = steps
        .iter()
        .skip(from + 1)
        .map(|step| step.partitions() as usize);
    for step in steps.iter().skip(from) {
        let after = after.next().unwrap_or(partitions);
        seen = match step {
            Before::Split(_) => expand_cursor(&seen, after).unwrap_or_default(),
            Before::Merge(merge) => merged(&seen, merge, zero),
        };
    }
    // Positions of now from before there is anything.
    let begin = before
        .iter()
        .rev()
        .find_map(Before::base)
        .unwrap_or_default();
    let stays = |one: &Position| zero == Zero::Stays && *one == Position(0);
    let begun = |one| if stays(&one) { one } else { one.max(begin) };
    Ok(seen.into_iter().map(begun).collect())
}

/// Positions of partitions that were merged, as one of each new one.
fn merged(seen: &[Position], merge: &Merge, zero: Zero) -> Vec<Position> {
    let each = (seen.len() / merge.marks.len().max(1)).max(1);
    let of_new = seen.chunks(each).zip(&merge.marks);
    let of_new = of_new.map(|(seen, marks)| {
        if zero == Zero::Stays && seen.contains(&Position(0)) {
            return Position(0);
        }
        let was_seen = |(mark, seen): (&u64, &Position)| *mark <= seen.0;
        let is_passed = |mark: &&Mark| {
            let mut both = mark.seen.iter().zip(seen);
            match seeded(Bug::MergedReaderAhead) {
                true => both.any(was_seen),
                false => both.all(was_seen),
            }
        };
        let mark = marks.iter().rev().find(is_passed);
        Position(mark.map_or(merge.base, |mark| mark.at))
    });
    of_new.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(seen: &[u64], at: u64) -> Mark {
        let seen = seen.to_vec();
        Mark { seen, at }
    }

    /// Two partitions, split into four; these were merged into two, and split again.
    fn history() -> Vec<Before> {
        vec![
            Before::Split(2),
            Before::Merge(Merge {
                partitions: 4,
                base: 1000,
                marks: vec![
                    vec![mark(&[3, 5], 1004), mark(&[9, 9], 1012)],
                    vec![mark(&[7, 0], 1003), mark(&[7, 8], 1009)],
                ],
            }),
            Before::Split(2),
        ]
    }

    fn found(seen: &[u64], before: &[Before], partitions: usize) -> Option<Vec<u64>> {
        let seen: Vec<Position> = seen.iter().copied().map(Position).collect();
        let found = spread(&seen, partitions, before, Zero::Begin).ok()?;
        Some(found.iter().map(|one| one.0).collect())
    }

    #[test]
    fn positions_of_before_are_good_wherever_they_are_from() {
        let before = history();
        assert!(is_history(&before, 4));
        for (seen, expected) in [
            // Of the two at first: 3 3 8 8 of four, 1000 and 1009 of two.
            (&[3, 8][..], Some(vec![1000, 1000, 1009, 1009])),
            (&[5, 7], Some(vec![1004, 1004, 1003, 1003])),
            (&[9, 9], Some(vec![1012, 1012, 1009, 1009])),
            // Of four.
            (&[3, 5, 6, 9], Some(vec![1004, 1004, 1000, 1000])),
            (&[9, 8, 7, 7], Some(vec![1004, 1004, 1003, 1003])),
            (&[0, 0, 0, 0], Some(vec![1000; 4])),
            // Of two, after the merge.
            (&[1000, 1003], Some(vec![1000, 1000, 1003, 1003])),
            (&[0, 1003], Some(vec![1000, 1000, 1003, 1003])),
            // Of now.
            (
                &[1000, 1001, 1050, 1003],
                Some(vec![1000, 1001, 1050, 1003]),
            ),
            (&[0, 1001, 0, 0], Some(vec![1000, 1001, 1000, 1000])),
            // Of none.
            (&[3], None),
            (&[3, 4, 5], None),
            (&[1000], None),
        ] {
            assert_eq!(found(seen, &before, 4), expected, "{seen:?}");
        }
        // As many as there never were before the merge begin at its beginning.
        assert_eq!(found(&[7], &before[1..2], 2), None);
        let merged = &before[1..2];
        assert_eq!(found(&[7, 8], merged, 2), Some(vec![1000, 1000]));
    }

    #[test]
    fn readers_of_what_the_log_still_has_go_on_at_0() {
        let before = history();
        for (seen, expected) in [
            (&[0, 0, 9, 9][..], [0, 0, 1009, 1009]),
            (&[9, 0, 0, 0], [0; 4]),
            (&[0, 9], [0, 0, 1009, 1009]),
            // Of now, of one that has seen nothing in some partitions.
            (&[0, 1001, 0, 0], [0, 1001, 0, 0]),
        ] {
            let seen: Vec<Position> = seen.iter().copied().map(Position).collect();
            let found = spread(&seen, 4, &before, Zero::Stays).unwrap();
            assert_eq!(found, expected.map(Position), "{seen:?}");
        }
    }

    #[test]
    fn what_no_splits_and_merges_lead_to_is_no_history() {
        let before = history();
        for partitions in [0, 1, 2, 3] {
            assert!(!is_history(&before, partitions), "{partitions}");
        }
        assert!(is_history(&before[..2], 2));
        assert!(!is_history(&before[..2], 1));
        assert!(!is_history(&[Before::Split(0)], 2));
        assert!(!is_history(&[Before::Split(3)], 4));
    }

    #[test]
    fn marks_of_old_merges_are_left_out_once_there_are_very_many() {
        let merge = |partitions: u32, base: u64| {
            let marks = vec![mark(&[base - 1, base - 1], base + 9); 64];
            Before::Merge(Merge {
                partitions,
                base,
                marks: vec![marks; partitions as usize / 2],
            })
        };
        // Each has 98,304 numbers.
        let mut before: Vec<Before> = (1..6)
            .flat_map(|round| [merge(1024, 1000 * round), Before::Split(512)])
            .collect();
        forget_old_marks(&mut before);
        assert!(is_history(&before, 1024));
        let has_marks = |step: &Before| match step {
            Before::Split(_) => None,
            Before::Merge(merge) => Some(merge.marks.iter().any(|of_one| !of_one.is_empty())),
        };
        let has_marks: Vec<bool> = before.iter().filter_map(has_marks).collect();
        assert_eq!(has_marks, [false, false, false, true, true]);
        let seen = vec![Position(5); 1024];
        let found = spread(&seen, 1024, &before, Zero::Begin).unwrap();
        assert_eq!(found, vec![Position(5000); 1024]);
    }

    #[test]
    fn marks_are_ever_farther_apart_and_the_first_stays() {
        let mut marks = Vec::new();
        for at in (0..1_000_000).step_by(7) {
            marks.push(mark(&[at], at));
            thin(&mut marks);
        }
        assert!(marks.len() <= MARKS_MAX);
        let end = marks.last().map(|last| last.at).unwrap();
        assert_eq!((marks[0].at, end), (0, 999_999));
        for pair in marks.windows(2) {
            let (older, newer) = (end - pair[0].at, end - pair[1].at);
            assert!(older <= 2 * newer + 7, "{older} {newer}");
        }
    }
}
