//! How much of each log segment is no longer needed, known without reading it.
//!
//! A record that supersedes another says which one and how long it was, so applying it adds that
//! length to the segment that the other is in. The sums only grow: what compaction has removed from
//! a segment's positions, the segment itself says, so a segment holds as many dead bytes as were
//! superseded there less those removed. Nothing has to change together, and a crash between a
//! compaction and the next manifest leaves no sum wrong.
//!
//! # Invariants
//! 1. The sums kept with a position (in the manifest, at its `applied`) are those of all records up
//!    to it, and of no other. Replay adds those after it.
//! 2. A sum belongs to the positions from its base up to the next base. Compaction only ever joins
//!    segments, so the sums of several are those of the one that they became.
//! 3. Where a sum can't be known (records of an older version did not say; a crash had the end of a
//!    segment carried over into another) it is marked as not counted, and still grows; counting the
//!    segment once settles what it began with.

use quire_log::SegmentInfo;
use quire_model::Position;
use std::collections::BTreeMap;

/// Memtables are not flushed for fewer superseded bytes than this.
const SUPERSEDED_BYTES_MIN: u64 = 16 << 20;

/// What was superseded among the positions of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SupersededBytes {
    /// Bytes of records.
    pub(crate) bytes: u64,
    /// Whether that is all of them.
    pub(crate) counted: bool,
}

/// Superseded bytes by the base of the segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Space {
    segments: BTreeMap<Position, SupersededBytes>,
}

impl Space {
    /// The sums that a manifest holds.
    pub(crate) fn new(segments: impl IntoIterator<Item = (Position, SupersededBytes)>) -> Space {
        Space {
            segments: segments.into_iter().collect(),
        }
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (Position, SupersededBytes)> + '_ {
        self.segments.iter().map(|(base, sum)| (*base, *sum))
    }

    /// Marks what is not counted, now that the log is open: segments up to `applied` that had no
    /// sum of their own, and what comes before each, for a crash may have cut them off from that.
    pub(crate) fn open(&mut self, segments: &[SegmentInfo], applied: Position) {
        let mut unknown = Vec::new();
        for (at, segment) in segments.iter().enumerate() {
            if segment.base <= applied && !self.segments.contains_key(&segment.base) {
                unknown.extend(at.checked_sub(1).and_then(|at| segments.get(at)));
                unknown.push(segment);
            }
        }
        for segment in unknown {
            self.forget(segment);
        }
    }

    /// Takes note that the record at `position` superseded another, and that it is not known which.
    pub(crate) fn lose_count(&mut self, segments: &[SegmentInfo], position: Position) {
        for segment in segments.iter().filter(|segment| segment.base <= position) {
            self.forget(segment);
        }
    }

    fn forget(&mut self, segment: &SegmentInfo) {
        let sum = self.of(segment.base, segment.next);
        let counted = false;
        self.set(
            segment.base,
            segment.next,
            SupersededBytes { counted, ..sum },
        );
    }

    /// Takes note that a record of `bytes` was superseded in the segment that begins at `base`.
    pub(crate) fn add(&mut self, base: Position, bytes: u64) {
        let none = SupersededBytes {
            bytes: 0,
            counted: true,
        };
        let sum = self.segments.entry(base).or_insert(none);
        sum.bytes = sum.bytes.saturating_add(bytes);
    }

    /// What was superseded among the positions from `base` up to `next`.
    pub(crate) fn of(&self, base: Position, next: Position) -> SupersededBytes {
        let none = SupersededBytes {
            bytes: 0,
            counted: true,
        };
        // The newest segment may be empty.
        let sums = self.segments.range(base..next.max(base.next()));
        sums.fold(none, |all, (_, sum)| SupersededBytes {
            bytes: all.bytes.saturating_add(sum.bytes),
            counted: all.counted && sum.counted,
        })
    }

    /// Bytes of records in `segment` that are known to be obsolete.
    pub(crate) fn dead_bytes(&self, segment: &SegmentInfo) -> u64 {
        let superseded = self.of(segment.base, segment.next);
        superseded.bytes.saturating_sub(segment.removed_bytes)
    }

    /// Replaces the sums from `base` up to `next` by one.
    pub(crate) fn set(&mut self, base: Position, next: Position, sum: SupersededBytes) {
        self.segments.retain(|at, _| *at < base || *at >= next);
        self.segments.insert(base, sum);
    }

    /// The sums of `segments` as they are now, as the manifest of `applied` keeps them.
    pub(crate) fn cut(&mut self, segments: &[SegmentInfo], applied: Position) -> Space {
        let kept: Vec<_> = segments
            .iter()
            .filter(|segment| segment.base <= applied)
            .map(|segment| (segment.base, self.of(segment.base, segment.next)))
            .collect();
        *self = Space::new(kept);
        self.clone()
    }

    /// Takes note that of what was superseded when the sums were those of `then`, from `base` up to
    /// `next`, it has turned out that there were `bytes`.
    pub(crate) fn settle(
        &mut self,
        then: SupersededBytes,
        base: Position,
        next: Position,
        bytes: u64,
    ) {
        let since = self.of(base, next).bytes.saturating_sub(then.bytes);
        let sum = SupersededBytes {
            bytes: bytes.saturating_add(since),
            counted: true,
        };
        self.set(base, next, sum);
    }
}

/// At how many superseded bytes memtables are flushed, so that these can be reclaimed: at a tenth
/// of what is live.
pub(crate) fn superseded_bytes_max(
    log_live_percent: u32,
    space: &Space,
    segments: &[SegmentInfo],
) -> u64 {
    if log_live_percent == 0 {
        return u64::MAX;
    }
    let live = |segment: &SegmentInfo| {
        let dead_bytes = space.dead_bytes(segment);
        segment.record_bytes.saturating_sub(dead_bytes)
    };
    let live: u64 = segments.iter().map(live).sum();
    (live / 10).max(SUPERSEDED_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(bytes: u64, counted: bool) -> SupersededBytes {
        SupersededBytes { bytes, counted }
    }

    #[test]
    fn sums_of_joined_segments_add_up_and_settling_keeps_what_came_since() {
        let at = Position;
        let mut space = Space::new([(at(1), sum(10, true)), (at(50), sum(5, false))]);
        space.add(at(50), 7);
        space.add(at(90), 1);
        assert_eq!(space.of(at(1), at(90)), sum(22, false));
        let then = space.of(at(1), at(90));
        space.add(at(1), 3);
        space.settle(then, at(1), at(90), 40);
        assert_eq!(space.of(at(1), at(90)), sum(43, true));
        assert_eq!(space.of(at(90), at(90)), sum(1, true));
    }
}
