//! Scanning: records in order of position, read in large pieces, past the cache.

use crate::Result;
use crate::format::block::{BLOCK_HEADER_BYTES, BlockHeader, BlockKind};
use crate::format::records::RecordBlock;
use crate::reading::segment::{Segment, Segments, segment_of};
use crate::reading::walk::Window;
use crate::shared::Shared;
use bytes::Bytes;
use quire_model::Position;
use std::fmt;
use std::sync::Arc;

/// Records in order of position, without those that compaction had removed when the scan was made.
/// The scan does not see later appends, drops and compactions. It ends after its first error.
pub struct LogScan {
    log: Arc<Shared>,
    segments: Segments,
    next: Position,
    to: Position,
    block: Option<RecordBlock>,
    open: Option<(Arc<Segment>, Window)>,
}

impl fmt::Debug for LogScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogScan")
            .field("next", &self.next)
            .field("to", &self.to)
            .finish_non_exhaustive()
    }
}

/// What lies at a position or after it.
enum Ahead {
    Block(RecordBlock),
    /// No record before this position.
    Gap(Position),
}

impl LogScan {
    /// The records from `from` to `to`, which are pending or in `segments`.
    pub(crate) fn new(
        log: Arc<Shared>,
        segments: Segments,
        from: Position,
        to: Position,
    ) -> LogScan {
        LogScan {
            log,
            segments,
            next: from,
            to,
            block: None,
            open: None,
        }
    }

    /// Ends after the record at `to`, if that is sooner.
    #[must_use]
    pub fn until(mut self, to: Position) -> LogScan {
        self.to = self.to.min(to);
        self
    }

    /// The bytes of the block that is read for the next record, before compression; 0 if it is in
    /// memory, or can't be read. Frees the block of the record before, if the next one is in
    /// another; where a group ends is not known then.
    pub fn next_block_bytes(&mut self) -> usize {
        match &self.block {
            Some(block) if block.last() >= self.next => return 0,
            _ => self.block = None,
        }
        if self.next > self.to || self.log.is_pending(self.next) {
            return 0;
        }
        self.next_header()
            .map_or(0, |header| header.raw_length as usize)
    }

    /// The header of the block that the next record is in, or that is before it. What is wrong with
    /// it is an error of the next read.
    fn next_header(&mut self) -> Option<BlockHeader> {
        let segment = Arc::clone(segment_of(&self.segments, self.next).ok()?);
        let range = segment.range_near(self.next)?;
        let end = segment.index().read().end();
        let window = self.window_of(&segment);
        let bytes = window.bytes(range.offset, BLOCK_HEADER_BYTES.min(range.length), end);
        segment.header_of(range, &bytes.ok()?).ok()
    }

    /// The window of a segment, kept for the next read of it.
    fn window_of(&mut self, segment: &Arc<Segment>) -> &mut Window {
        let open = self.open.take();
        let open = open.filter(|(open, _)| Arc::ptr_eq(open, segment));
        let new = || (Arc::clone(segment), Window::new(segment.file().clone()));
        &mut self.open.insert(open.unwrap_or_else(new)).1
    }

    /// Whether a group of records ended with the last one returned: then a reader could have seen
    /// the state after it. Of records that compaction copied, this is known only where their
    /// segment ends; elsewhere the answer is no.
    pub fn at_group_end(&self) -> bool {
        match &self.block {
            Some(block) if block.last() >= self.next => false,
            Some(block) if block.kind() == BlockKind::Records => !block.group_continues(),
            _ => segment_of(&self.segments, self.next)
                .is_ok_and(|segment| segment.base() == self.next),
        }
    }

    /// The first record from `next` to `to`.
    fn record(&mut self) -> Result<Option<(Position, Bytes)>> {
        while self.next <= self.to {
            let block = self.block.as_ref();
            if let Some(found) = block.and_then(|block| block.next_record(self.next)) {
                return Ok((found.0 <= self.to).then_some(found));
            }
            match self.read_ahead()? {
                Ahead::Block(block) => {
                    self.next = self.next.max(block.first());
                    self.block = Some(block);
                }
                Ahead::Gap(next) => {
                    assert!(next > self.next, "a gap moves a scan forward");
                    self.next = next;
                }
            }
        }
        Ok(None)
    }

    fn read_ahead(&mut self) -> Result<Ahead> {
        self.log.check_accepted(self.next)?;
        if let Some(block) = self.log.pending_block(self.next) {
            return Ok(Ahead::Block(block));
        }
        let segment = Arc::clone(segment_of(&self.segments, self.next)?);
        let (end, segment_next) = {
            let index = segment.index().read();
            (index.end(), index.next())
        };
        let range = match segment.range_near(self.next) {
            None if segment.is_compacted() && self.next < segment_next => {
                return Ok(Ahead::Gap(segment_next));
            }
            None => segment.range_of(self.next)?,
            Some(range) => range,
        };
        let window = self.window_of(&segment);
        let bytes = window
            .bytes(range.offset, range.length, end)
            .map_err(|error| segment.read_error(error, range))?;
        let block = segment.decode(range, &bytes)?;
        Ok(match block.last() < self.next {
            true => Ahead::Gap(range.next),
            false => Ahead::Block(block),
        })
    }
}

impl Iterator for LogScan {
    type Item = Result<(Position, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.record() {
            Ok(Some((position, record))) => {
                self.next = position.next();
                Some(Ok((position, record)))
            }
            Ok(None) => None,
            Err(error) => {
                self.to = Position(0);
                self.next = Position(1);
                self.block = None;
                Some(Err(error))
            }
        }
    }
}
