//! Block index: where in its segment each block of records is, in 8 bytes a block.
//!
//! # Invariants
//! 1. Entries ascend strictly in position and in offset; the first is (0, the end of the segment header).
//! 2. Blocks lie one after another: a block ends where the next begins, the last at `end`.

use crate::block::BLOCK_HEADER_BYTES;
use crate::header::HEADER_BYTES;
use quire_model::Position;

/// Where a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockSpan {
    /// Position of its first record.
    pub(crate) first: Position,
    /// The position after its last record.
    pub(crate) next: Position,
    /// Offset of its header in the segment.
    pub(crate) offset: u64,
    /// Bytes of header and payload.
    pub(crate) length: usize,
}

impl BlockSpan {
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
    entries: Vec<BlockEntry>,
    end: u32,
    next: Position,
    raw_bytes: u64,
}

impl BlockIndex {
    /// The index of a segment with no blocks.
    pub(crate) fn new(base: Position) -> BlockIndex {
        BlockIndex {
            base,
            entries: Vec::new(),
            end: HEADER_BYTES as u32,
            next: base,
            raw_bytes: 0,
        }
    }

    /// An index from its parts; `None` if they break an invariant.
    pub(crate) fn from_parts(
        base: Position,
        entries: Vec<BlockEntry>,
        end: u64,
        next: Position,
        raw_bytes: u64,
    ) -> Option<BlockIndex> {
        let end = u32::try_from(end).ok()?;
        let records = u32::try_from(next.0.checked_sub(base.0)?).ok()?;
        let mut expected = BlockEntry {
            first: 0,
            offset: HEADER_BYTES as u32,
        };
        for (index, entry) in entries.iter().enumerate() {
            let holds = match index {
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
            records == 0 && end == expected.offset
        } else {
            records >= expected.first && end >= expected.offset
        };
        whole.then_some(BlockIndex {
            base,
            entries,
            end,
            next,
            raw_bytes,
        })
    }

    /// Adds the block that lies at `end` and holds the positions from `next`. False, and nothing changes, if the
    /// segment would outgrow its 32-bit offsets or positions.
    pub(crate) fn push(&mut self, records: u32, length: u64, raw_bytes: u64) -> bool {
        let first = self.next.0 - self.base.0;
        let (Ok(first_relative), Ok(end)) = (
            u32::try_from(first),
            u32::try_from(u64::from(self.end) + length),
        ) else {
            return false;
        };
        if first + u64::from(records) > u64::from(u32::MAX) {
            return false;
        }
        self.entries.push(BlockEntry {
            first: first_relative,
            offset: self.end,
        });
        self.end = end;
        self.next = Position(self.next.0 + u64::from(records));
        self.raw_bytes += raw_bytes;
        true
    }

    /// Offset of the byte after the last block.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.end)
    }

    /// The position after the last record.
    pub(crate) fn next(&self) -> Position {
        self.next
    }

    /// Raw payload bytes of all blocks.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    pub(crate) fn entries(&self) -> &[BlockEntry] {
        &self.entries
    }

    /// The block that holds `position`.
    pub(crate) fn find(&self, position: Position) -> Option<BlockSpan> {
        if position >= self.next {
            return None;
        }
        let relative = u32::try_from(position.0.checked_sub(self.base.0)?).ok()?;
        let after = self
            .entries
            .partition_point(|entry| entry.first <= relative);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        Some(self.span(entry, after))
    }

    /// The block that begins at `offset`.
    pub(crate) fn find_at(&self, offset: u64) -> Option<BlockSpan> {
        let offset = u32::try_from(offset).ok()?;
        let at = self
            .entries
            .binary_search_by_key(&offset, |entry| entry.offset)
            .ok()?;
        Some(self.span(self.entries.get(at)?, at + 1))
    }

    /// Where a block is that the entry numbered `after` follows.
    fn span(&self, entry: &BlockEntry, after: usize) -> BlockSpan {
        let (next, end) = match self.entries.get(after) {
            Some(following) => (
                Position(self.base.0 + u64::from(following.first)),
                following.offset,
            ),
            None => (self.next, self.end),
        };
        BlockSpan {
            first: Position(self.base.0 + u64::from(entry.first)),
            next,
            offset: u64::from(entry.offset),
            length: end.saturating_sub(entry.offset) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_block_of_every_position_and_none_outside() {
        let mut index = BlockIndex::new(Position(100));
        for records in [1, 5, 2] {
            assert!(index.push(records, 60 + u64::from(records), 10));
        }
        let spans: Vec<_> = (100..108)
            .map(|at| {
                index
                    .find(Position(at))
                    .map(|span| (span.first.0, span.offset, span.length))
            })
            .collect();
        let (a, b, c) = (
            Some((100, 48, 61)),
            Some((101, 109, 65)),
            Some((106, 174, 62)),
        );
        assert_eq!(spans, [a, b, b, b, b, b, c, c]);
        assert_eq!(index.find(Position(99)), None);
        assert_eq!(index.find(Position(108)), None);
        let parts = BlockIndex::from_parts(
            Position(100),
            index.entries().to_vec(),
            index.end(),
            index.next(),
            30,
        );
        assert_eq!(parts, Some(index));
    }

    #[test]
    fn parts_out_of_order_are_refused() {
        let entry = |first, offset| BlockEntry { first, offset };
        let from = |entries: &[BlockEntry], end, next| {
            BlockIndex::from_parts(Position(1), entries.to_vec(), end, Position(next), 0).is_some()
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
