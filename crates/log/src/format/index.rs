//! Block index: where each block of records lies in its segment, in 8 bytes a block.
//!
//! # Invariants
//! 1. Entries ascend strictly in position and in offset. The first block lies at the end of the
//!    segment header, or of the dictionary after it. In a segment as it was written, its first
//!    position is the base of the segment.
//! 2. Blocks lie one after another: a block ends where the next begins, the last at `end`.
//! 3. In a compacted segment there may be gaps before, between and after blocks. A position below
//!    `next` without a record had one that compaction removed.

use crate::format::block::BLOCK_HEADER_BYTES;
use crate::format::header::HEADER_BYTES;
use crate::format::records::{COUNT_BYTES, TABLE_ENTRY_BYTES};
use quire_model::Position;

/// Where a block lies, and which positions it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockRange {
    /// Position of its first record.
    pub(crate) first: Position,
    /// The position after its last record. If a gap follows, it is at most the end of that gap.
    pub(crate) next: Position,
    /// Offset of its header in the segment.
    pub(crate) offset: u64,
    /// Bytes of header and payload.
    pub(crate) length: usize,
}

impl BlockRange {
    /// Offset of the byte after it.
    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(self.length as u64)
    }
}

/// A block, relative to its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockEntry {
    /// Position of its first record, less the segment's base.
    pub(crate) first: u32,
    /// Offset of its header.
    pub(crate) offset: u32,
}

/// The blocks of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockIndex {
    base: Position,
    /// Where the first block is or will be.
    start: u32,
    entries: Vec<BlockEntry>,
    end: u32,
    next: Position,
    raw_bytes: u64,
    compacted: Option<CompactionTotals>,
}

/// The totals of a compacted segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CompactionTotals {
    /// Records that are left.
    pub(crate) records: u64,
    /// Bytes of all records that compactions ever removed from these positions.
    pub(crate) removed_bytes: u64,
}

impl BlockIndex {
    /// The index of a segment without blocks. The first one will lie at `start`: after the segment
    /// header and its dictionary, if it has one.
    pub(crate) fn new(base: Position, start: u64) -> BlockIndex {
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        BlockIndex {
            base,
            start,
            entries: Vec::new(),
            end: start,
            next: base,
            raw_bytes: 0,
            compacted: None,
        }
    }

    /// The index of a compacted segment without blocks.
    /// [`finish_compacted`](Self::finish_compacted) completes it.
    pub(crate) fn compacted(base: Position, start: u64) -> BlockIndex {
        BlockIndex {
            compacted: Some(CompactionTotals::default()),
            ..BlockIndex::new(base, start)
        }
    }

    /// An index from its parts; `None` if they break an invariant.
    pub(crate) fn from_parts(
        base: Position,
        entries: Vec<BlockEntry>,
        end: u64,
        next: Position,
        raw_bytes: u64,
        compacted: Option<CompactionTotals>,
    ) -> Option<BlockIndex> {
        let end = u32::try_from(end).ok()?;
        let positions = u32::try_from(next.0.checked_sub(base.0)?).ok()?;
        let start = entries.first().map_or(end, |first| first.offset);
        let header = HEADER_BYTES as u32;
        if start != header && start <= header + BLOCK_HEADER_BYTES as u32 {
            return None;
        }
        let mut expected = BlockEntry {
            first: 0,
            offset: start,
        };
        for (index, entry) in entries.iter().enumerate() {
            let holds = match index {
                0 if compacted.is_some() => entry.offset == expected.offset,
                0 => *entry == expected,
                _ => entry.first >= expected.first && entry.offset >= expected.offset,
            };
            if !holds {
                return None;
            }
            let offset = entry.offset.checked_add(BLOCK_HEADER_BYTES as u32)?;
            expected = BlockEntry {
                first: entry.first.checked_add(1)?,
                offset,
            };
        }
        let whole = if entries.is_empty() {
            (positions == 0 || compacted.is_some()) && end == expected.offset
        } else {
            positions >= expected.first && end >= expected.offset
        };
        whole.then_some(BlockIndex {
            base,
            start,
            entries,
            end,
            next,
            raw_bytes,
            compacted,
        })
    }

    /// Adds the block that lies at `end` and holds the positions from `next`. Returns false, and
    /// changes nothing, if the segment would outgrow its 32-bit offsets or positions.
    pub(crate) fn push(&mut self, records: u32, length: u64, raw_bytes: u64) -> bool {
        self.push_at(self.next, records, records, length, raw_bytes)
    }

    /// Adds the block that lies at `end` and holds `records` of the `positions` positions from
    /// `first` on. Returns false, and changes nothing, if `first` is before `next`, or as
    /// [`push`](Self::push) does.
    pub(crate) fn push_at(
        &mut self,
        first: Position,
        records: u32,
        positions: u32,
        length: u64,
        raw_bytes: u64,
    ) -> bool {
        let relative = first.0.saturating_sub(self.base.0);
        let (Ok(first_relative), Ok(end)) = (
            u32::try_from(relative),
            u32::try_from(u64::from(self.end) + length),
        ) else {
            return false;
        };
        if relative + u64::from(positions) > u64::from(u32::MAX) || first < self.next {
            return false;
        }
        debug_assert!(
            self.entries
                .last()
                .is_none_or(|last| last.offset < self.end),
            "offsets of blocks ascend"
        );
        self.entries.push(BlockEntry {
            first: first_relative,
            offset: self.end,
        });
        self.end = end;
        self.next = Position(first.0 + u64::from(positions));
        self.raw_bytes += raw_bytes;
        if let Some(compacted) = &mut self.compacted {
            compacted.records += u64::from(records);
        }
        true
    }

    /// Sets where the first block will lie, of an index without blocks.
    pub(crate) fn begin_at(&mut self, start: u64) {
        debug_assert!(self.entries.is_empty(), "the first block is not placed yet");
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        (self.start, self.end) = (start, start);
    }

    /// Sets the position after the last one of a compacted segment, and the number of bytes of all
    /// records that were ever removed from it.
    pub(crate) fn finish_compacted(&mut self, next: Position, removed_bytes: u64) {
        self.next = self.next.max(next);
        if let Some(compacted) = &mut self.compacted {
            compacted.removed_bytes = removed_bytes;
        }
    }

    /// Offset of the first block: the end of the segment header and its dictionary.
    pub(crate) fn start(&self) -> u64 {
        u64::from(self.start)
    }

    /// Offset of the byte after the last block.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.end)
    }

    /// The position after the last record; in a compacted segment, after its last position.
    pub(crate) fn next(&self) -> Position {
        self.next
    }

    /// The totals of a compacted segment.
    pub(crate) fn compaction(&self) -> Option<CompactionTotals> {
        self.compacted
    }

    /// The number of records.
    pub(crate) fn records(&self) -> u64 {
        self.compacted
            .map_or(self.next.0 - self.base.0, |compacted| compacted.records)
    }

    /// Bytes of the records alone.
    pub(crate) fn record_bytes(&self) -> u64 {
        let tables = 1 + u64::from(self.compacted.is_some());
        let overhead = self.records() * tables * TABLE_ENTRY_BYTES as u64
            + (self.entries.len() * COUNT_BYTES) as u64;
        self.raw_bytes.saturating_sub(overhead)
    }

    /// Raw payload bytes of all blocks.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    pub(crate) fn entries(&self) -> &[BlockEntry] {
        &self.entries
    }

    /// The block that holds `position`, or would hold it if compaction had not removed the record.
    pub(crate) fn find(&self, position: Position) -> Option<BlockRange> {
        self.range(self.entries_to(position)?.checked_sub(1)?)
    }

    /// The block that `find` returns, or the first one of the segment if that is none.
    pub(crate) fn find_or_first(&self, position: Position) -> Option<BlockRange> {
        self.range(self.entries_to(position)?.saturating_sub(1))
    }

    /// The number of blocks that begin at `position` or before it; `None` if `position` is past the
    /// segment or before it.
    fn entries_to(&self, position: Position) -> Option<usize> {
        if position >= self.next {
            return None;
        }
        let relative = u32::try_from(position.0.checked_sub(self.base.0)?).ok()?;
        Some(
            self.entries
                .partition_point(|entry| entry.first <= relative),
        )
    }

    /// The block that begins at `offset`.
    pub(crate) fn find_at(&self, offset: u64) -> Option<BlockRange> {
        let offset = u32::try_from(offset).ok()?;
        let at = self
            .entries
            .binary_search_by_key(&offset, |entry| entry.offset)
            .ok()?;
        self.range(at)
    }

    fn range(&self, at: usize) -> Option<BlockRange> {
        let entry = self.entries.get(at)?;
        let (next, end) = match self.entries.get(at + 1) {
            Some(following) => (
                Position(self.base.0 + u64::from(following.first)),
                following.offset,
            ),
            None => (self.next, self.end),
        };
        Some(BlockRange {
            first: Position(self.base.0 + u64::from(entry.first)),
            next,
            offset: u64::from(entry.offset),
            length: end.saturating_sub(entry.offset) as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_block_of_every_position_and_none_outside() {
        let mut index = BlockIndex::new(Position(100), HEADER_BYTES as u64);
        for records in [1, 5, 2] {
            assert!(index.push(records, 60 + u64::from(records), 10));
        }
        let ranges: Vec<_> = (100..108)
            .map(|at| {
                index
                    .find(Position(at))
                    .map(|range| (range.first.0, range.offset, range.length))
            })
            .collect();
        let (a, b, c) = (
            Some((100, 48, 61)),
            Some((101, 109, 65)),
            Some((106, 174, 62)),
        );
        assert_eq!(ranges, [a, b, b, b, b, b, c, c]);
        assert_eq!(index.find(Position(99)), None);
        assert_eq!(index.find(Position(108)), None);
        let parts = BlockIndex::from_parts(
            Position(100),
            index.entries().to_vec(),
            index.end(),
            index.next(),
            30,
            None,
        );
        assert_eq!(parts, Some(index));
    }

    #[test]
    fn a_compacted_segment_has_blocks_between_gaps_or_none_at_all() {
        let mut index = BlockIndex::compacted(Position(100), HEADER_BYTES as u64);
        assert!(index.push_at(Position(103), 2, 5, 60, 28));
        assert!(index.push_at(Position(120), 1, 1, 50, 22));
        assert!(!index.push_at(Position(120), 1, 1, 50, 22), "not ascending");
        index.finish_compacted(Position(130), 77);
        assert_eq!((index.next(), index.records()), (Position(130), 3));
        assert_eq!(index.record_bytes(), 50 - 2 * 4 - 3 * 8);
        let first = |range: Option<BlockRange>| range.map(|range| range.first.0);
        assert_eq!(first(index.find(Position(102))), None);
        assert_eq!(first(index.find_or_first(Position(102))), Some(103));
        assert_eq!(first(index.find(Position(119))), Some(103));
        assert_eq!(first(index.find(Position(129))), Some(120));
        assert_eq!(index.find(Position(130)), None);

        let mut none = BlockIndex::compacted(Position(100), HEADER_BYTES as u64);
        none.finish_compacted(Position(130), 900);
        assert_eq!(none.find_or_first(Position(110)), None);
        let parts = BlockIndex::from_parts(
            Position(100),
            Vec::new(),
            none.end(),
            none.next(),
            0,
            none.compaction(),
        );
        assert_eq!(parts, Some(none));
    }

    #[test]
    fn parts_out_of_order_are_refused() {
        let entry = |first, offset| BlockEntry { first, offset };
        let from = |entries: &[BlockEntry], end, next| {
            let entries = entries.to_vec();
            BlockIndex::from_parts(Position(1), entries, end, Position(next), 0, None).is_some()
        };
        assert!(from(&[], 48, 1));
        assert!(from(&[entry(0, 48), entry(2, 100)], 160, 4));
        assert!(!from(&[], 48, 2), "records without blocks");
        assert!(
            !from(&[entry(1, 48)], 100, 3),
            "first block not at the base"
        );
        assert!(
            !from(&[entry(0, 48), entry(0, 100)], 160, 4),
            "same position twice"
        );
        assert!(
            !from(&[entry(0, 48), entry(2, 60)], 160, 4),
            "blocks overlap"
        );
        assert!(
            !from(&[entry(0, 48), entry(2, 100)], 120, 4),
            "last block past the end"
        );
        assert!(
            !from(&[entry(0, 48), entry(4, 100)], 160, 4),
            "last block without records"
        );
    }
}
