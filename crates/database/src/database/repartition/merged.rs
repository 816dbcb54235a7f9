//! [`Merged`]: how far a new partition is that others are merged into.

use crate::Result;
use crate::partitions_before::{Mark, thin};
use quire_collection::Partition;
use quire_model::Position;

/// See the module.
pub(super) struct Merged {
    /// What it has of each old partition.
    seen: Vec<Position>,
    /// What it had of them at some of its positions.
    marks: Vec<Mark>,
}

impl Merged {
    /// Of one that has nothing of this number of old partitions.
    pub(super) fn new(olds: usize) -> Merged {
        Merged {
            seen: vec![Position(0); olds],
            marks: Vec::new(),
        }
    }

    /// Has it take over some of what the old ones have. Returns how many positions are left.
    pub(super) fn gather(&mut self, new: &Partition, olds: &[Partition]) -> Result<u64> {
        let left = new.gather(olds, &mut self.seen)?;
        let at = new.position().0;
        if self.marks.last().is_none_or(|last| last.at < at) {
            let seen = self.seen.iter().map(|seen| seen.0).collect();
            self.marks.push(Mark { seen, at });
            thin(&mut self.marks);
        }
        Ok(left)
    }

    pub(super) fn marks(&self) -> &[Mark] {
        &self.marks
    }
}
