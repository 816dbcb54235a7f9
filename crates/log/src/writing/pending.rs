//! Pending records: accepted, readable, and not yet in a file.
//!
//! # Invariants
//! 1. Pending records are the last records of the log, at dense positions: the full blocks in
//!    order, then the block that is being filled.
//! 2. `claimed` is the most bytes that writing the pending blocks and closing the segment can take.
//!    It never exceeds `reserved`, so neither of them meets a full disk.
//! 3. Between calls no group is accepted in part: the block that is being filled ends where a group
//!    ends.
//! 4. A block leaves the pending records only after it can be read from its segment.

use crate::format::block::BLOCK_HEADER_BYTES;
use crate::format::footer::{ENTRY_BYTES, footer_bytes};
use crate::format::records::{BlockBuilder, COUNT_BYTES, RecordBlock};
use bytes::Bytes;
use quire_model::Position;
use std::collections::VecDeque;

/// Bytes that a block takes besides its records and their table entries, with its entry in the
/// footer.
const BLOCK_OVERHEAD_BYTES: u64 = (BLOCK_HEADER_BYTES + COUNT_BYTES + ENTRY_BYTES) as u64;

#[derive(Debug)]
pub(crate) struct Pending {
    full: VecDeque<RecordBlock>,
    full_bytes: usize,
    filling: BlockBuilder,
    next: Position,
    block_bytes: usize,
    /// Bytes reserved on disk past the end of the newest segment.
    reserved: u64,
    /// Worst-case bytes of the pending blocks, and of the footer that the segment will have with
    /// them.
    claimed: u64,
    /// No group is accepted until new disk space is reserved.
    frozen: bool,
    /// Set by a close: no group is accepted any more.
    pub(crate) closed: bool,
}

impl Pending {
    /// No pending records and no reserved space. The next record accepted gets position `next`.
    pub(crate) fn new(next: Position, block_bytes: usize) -> Pending {
        Pending {
            full: VecDeque::new(),
            full_bytes: 0,
            filling: BlockBuilder::new(next, 0),
            next,
            block_bytes,
            reserved: 0,
            claimed: 0,
            frozen: false,
            closed: false,
        }
    }

    /// The most bytes that a group of `bytes` in `records` records can take on disk.
    pub(crate) fn group_bytes_max(&self, bytes: usize, records: usize) -> u64 {
        let raw = BlockBuilder::added_bytes(bytes, records);
        // Any two neighbouring blocks hold more bytes than one full block.
        let blocks = (2 * raw / self.block_bytes + 2).min(records);
        raw as u64 + blocks as u64 * BLOCK_OVERHEAD_BYTES
    }

    /// Accepts a group whose records hold `bytes` in all, and returns the position of the first.
    /// Returns `None`, and changes nothing, if the reserved space is too small for it.
    pub(crate) fn accept(&mut self, group: &[&[u8]], bytes: usize) -> Option<Position> {
        let first = self.admit(group, bytes)?;
        for record in group {
            let added = BlockBuilder::added_bytes(record.len(), 1);
            if !self.filling.is_empty() && !self.fits(self.filling.raw_bytes(), added) {
                self.end_block(true);
            }
            self.filling.push(record);
            self.next = self.next.next();
        }
        if self.filling.raw_bytes() >= self.block_bytes {
            self.close_block();
        }
        Some(first)
    }

    /// As [`accept`](Self::accept), for one record, which is not copied if it fills a block of its
    /// own. Returns it as it lies in the block. `record` is empty then, and unchanged otherwise.
    pub(crate) fn accept_owned(&mut self, record: &mut Vec<u8>) -> Option<(Position, Bytes)> {
        let at = self.admit(&[record], record.len())?;
        self.filling.push_owned(std::mem::take(record));
        self.next = self.next.next();
        if self.filling.raw_bytes() >= self.block_bytes {
            self.close_block();
        }
        Some((at, self.record(at)?))
    }

    /// Claims the space for a group, and ends the block that is being filled if the group begins a
    /// new one. Returns the position of its first record; `None` if there is too little space.
    fn admit(&mut self, group: &[&[u8]], bytes: usize) -> Option<Position> {
        let raw = BlockBuilder::added_bytes(bytes, group.len());
        // A group that does not fit starts a new block, and continues through as many as it needs.
        let opens_block = !self.filling.is_empty() && !self.fits(self.filling.raw_bytes(), raw);
        let claim = self.claim(group, opens_block || self.filling.is_empty());
        if self.frozen || self.claimed.saturating_add(claim) > self.reserved {
            return None;
        }
        if opens_block {
            self.close_block();
        }
        self.claimed += claim;
        assert!(
            self.claimed <= self.reserved,
            "accepted records fit in reserved space"
        );
        Some(self.next)
    }

    fn fits(&self, held: usize, added: usize) -> bool {
        held + added <= self.block_bytes
    }

    /// The most bytes that writing a group takes: its records, and the overhead of each block that
    /// it starts.
    fn claim(&self, group: &[&[u8]], opens_block: bool) -> u64 {
        let (mut held, mut claim) = match opens_block {
            true => (COUNT_BYTES, BLOCK_OVERHEAD_BYTES),
            false => (self.filling.raw_bytes(), 0),
        };
        for record in group {
            let added = BlockBuilder::added_bytes(record.len(), 1);
            if held > COUNT_BYTES && !self.fits(held, added) {
                held = COUNT_BYTES;
                claim += BLOCK_OVERHEAD_BYTES;
            }
            held += added;
            claim += added as u64;
        }
        claim
    }

    /// Ends the block that is being filled, at the end of a group.
    pub(crate) fn close_block(&mut self) {
        self.end_block(false);
    }

    fn end_block(&mut self, group_continues: bool) {
        if !self.filling.is_empty() {
            // Blocks tend to be as large as the one before: full under load, small from a lone
            // writer.
            let bytes = self.filling.raw_bytes().min(self.block_bytes);
            let next = BlockBuilder::new(self.next, bytes);
            let block = std::mem::replace(&mut self.filling, next).finish(group_continues);
            self.full_bytes += block.payload().len();
            self.full.push_back(block);
        }
    }

    /// The full blocks, in order. They stay readable here until [`written`](Self::written).
    pub(crate) fn full(&self) -> Vec<RecordBlock> {
        self.full.iter().cloned().collect()
    }

    /// Raw bytes of full blocks.
    pub(crate) fn full_bytes(&self) -> usize {
        self.full_bytes
    }

    /// Removes the first `count` full blocks, which took `file_bytes` in the segment.
    pub(crate) fn written(&mut self, count: usize, file_bytes: u64) {
        assert!(
            file_bytes <= self.reserved,
            "a write takes reserved space only"
        );
        for block in self.full.drain(..count.min(self.full.len())) {
            self.full_bytes -= block.payload().len();
            self.claimed -= (BLOCK_HEADER_BYTES + block.payload().len()) as u64;
        }
        self.reserved -= file_bytes;
    }

    /// Worst-case bytes of the pending blocks and of the footer of the segment.
    pub(crate) fn claimed(&self) -> u64 {
        self.claimed
    }

    /// Bytes reserved past the end of the segment.
    pub(crate) fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Sets the number of bytes reserved past the end of the segment.
    pub(crate) fn set_reserved(&mut self, bytes: u64) {
        self.frozen = false;
        self.reserved = bytes;
    }

    /// Sets the number of bytes reserved past the end of the segment to at least `bytes`. Records
    /// may have been accepted since the reservation was begun.
    pub(crate) fn raise_reserved(&mut self, bytes: u64) {
        self.reserved = self.reserved.max(bytes);
    }

    /// Accepts no group until new space is reserved, so that the end of the log stays where it is.
    pub(crate) fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Switches to a segment of `blocks` blocks with `reserved` bytes of space, whose new blocks
    /// are full at `block_bytes`. No record is pending.
    pub(crate) fn begin_segment(&mut self, blocks: usize, reserved: u64, block_bytes: usize) {
        assert!(
            self.full.is_empty() && self.filling.is_empty(),
            "a log rotates when nothing is pending"
        );
        self.block_bytes = block_bytes;
        self.claimed = footer_bytes(blocks);
        self.set_reserved(reserved);
    }

    /// The position that the next record will get.
    pub(crate) fn next(&self) -> Position {
        self.next
    }

    /// The record at `position`, if it is pending.
    pub(crate) fn record(&self, position: Position) -> Option<Bytes> {
        match self.full_block(position) {
            Some(block) => block.record(position),
            None => self.filling.record(position),
        }
    }

    /// The block that holds `position`, if it is pending. The block being filled is copied.
    pub(crate) fn block(&self, position: Position) -> Option<RecordBlock> {
        match self.full_block(position) {
            Some(block) => Some(block.clone()),
            None => {
                self.filling.record(position)?;
                Some(self.filling.clone().finish(false))
            }
        }
    }

    fn full_block(&self, position: Position) -> Option<&RecordBlock> {
        let after = self.full.partition_point(|block| block.first() <= position);
        self.full
            .get(after.checked_sub(1)?)
            .filter(|block| position <= block.last())
    }
}
