//! What is noted of partitions that others are merged into, and the position at which they begin.

use crate::partitions_before::{Before, Mark, Merge, thin};
use crate::{Error, Result};
use quire_model::Position;
use quire_seeded::{Bug, seeded};

/// How many records the old partitions may get while they are merged.
const ROOM: u64 = 1 << 30;

/// What new partitions had of the old ones at some of their positions.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// The position at which they begin: higher than all that the old ones have.
    base: Position,
    /// Of each new partition.
    marks: Vec<Vec<Mark>>,
}

impl Merged {
    /// Of `count` new partitions, of old ones that end at these positions.
    pub(super) fn new(count: usize, ends: impl Iterator<Item = Position>) -> Merged {
        let last = ends.max().unwrap_or_default();
        let room = match seeded(Bug::MergeWithoutRoom) {
            true => 0,
            false => ROOM,
        };
        Merged {
            base: Position(last.0.saturating_add(room)),
            marks: vec![Vec::new(); count],
        }
    }

    pub(super) fn base(&self) -> Position {
        self.base
    }

    /// Notes that a new partition has, at a position of its own, what the old ones had up to these.
    pub(super) fn mark(&mut self, number: usize, seen: &[Position], at: Position) {
        let marks = &mut self.marks[number];
        if marks.last().is_none_or(|last| last.at < at.0) {
            let seen = seen.iter().map(|seen| seen.0).collect();
            marks.push(Mark { seen, at: at.0 });
            thin(marks);
        }
    }

    /// # Errors
    /// `Invalid` if the old partitions, of which the last ends here, were written so much that
    /// their positions may be some of the new ones.
    pub(super) fn check_room(&self, last: Position) -> Result<()> {
        match last >= self.base && !seeded(Bug::MergeWithoutRoom) {
            true => Err(Error::Invalid(
                "more was written during the merge than it has room for: merge when less is \
                 written"
                    .into(),
            )),
            false => Ok(()),
        }
    }

    /// What the catalog says of it.
    pub(super) fn before(&self, partitions: usize) -> Before {
        Before::Merge(Merge {
            partitions: partitions as u32,
            base: self.base.0,
            marks: self.marks.clone(),
        })
    }
}
