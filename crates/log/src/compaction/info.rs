//! Description of a segment, for the policy that decides what to compact.

use crate::reading::segment::Segment;
use quire_model::Position;

/// A segment, as the policy of compaction sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentInfo {
    /// Its first position.
    pub base: Position,
    /// The position after its last one.
    pub next: Position,
    /// Records in it.
    pub records: u64,
    /// Bytes of those records alone.
    pub record_bytes: u64,
    /// Bytes of all records that compactions ever removed from these positions.
    pub removed_bytes: u64,
    /// Bytes on disk.
    pub file_bytes: u64,
    /// Whether it has a successor, and so may be compacted.
    pub sealed: bool,
}

impl SegmentInfo {
    pub(crate) fn new(segment: &Segment, sealed: bool) -> SegmentInfo {
        let index = segment.index().read();
        let compaction = index.compaction();
        SegmentInfo {
            base: segment.base(),
            next: index.next(),
            records: index.records(),
            record_bytes: index.record_bytes(),
            removed_bytes: compaction.map_or(0, |compacted| compacted.removed_bytes),
            file_bytes: segment.file_bytes(),
            sealed,
        }
    }

    /// The part after `first`, with which it begins.
    pub(crate) fn without(self, first: &SegmentInfo) -> SegmentInfo {
        SegmentInfo {
            base: first.next,
            records: self.records.saturating_sub(first.records),
            record_bytes: self.record_bytes.saturating_sub(first.record_bytes),
            file_bytes: self.file_bytes.saturating_sub(first.file_bytes),
            ..self
        }
    }
}
