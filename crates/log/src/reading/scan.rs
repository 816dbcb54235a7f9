//! Scanning: records in order, read in large pieces, past the cache.

use crate::Result;
use crate::format::block::BlockKind;
use crate::format::records::RecordBlock;
use crate::reading::segment::Segment;
use crate::reading::view::LogView;
use crate::reading::walk::Window;

use bytes::Bytes;
use quire_model::Position;
use std::fmt;
use std::sync::Arc;

/// Records in order of position, without those that compaction had removed when the scan was made.
/// Appends, drops and compactions may go on meanwhile, and are not seen. Ends after the first
/// error.
pub struct LogScan {
    view: LogView,
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

/// What is at a position or after it.
enum Ahead {
    Block(RecordBlock),
    /// Nothing before this position.
    Gap(Position),
}

impl LogScan {
    pub(crate) fn new(view: LogView, from: Position, to: Position) -> LogScan {
        LogScan {
            view,
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

    /// Whether a group of records ended with the one handed out last, so that a state after it is
    /// one that could be seen. Of records that compaction copied that is known where their segment
    /// ends, and else the answer is no.
    pub fn at_group_end(&self) -> bool {
        match &self.block {
            Some(block) if block.last() >= self.next => false,
            Some(block) if block.kind() == BlockKind::Records => !block.goes_on(),
            _ => self
                .view
                .segment_of(self.next)
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
                Ahead::Gap(next) => self.next = next,
            }
        }
        Ok(None)
    }

    fn read_ahead(&mut self) -> Result<Ahead> {
        let log = self.view.log();
        log.check_accepted(self.next)?;
        if let Some(block) = log.pending_block(self.next) {
            return Ok(Ahead::Block(block));
        }
        let segment = self.view.segment_of(self.next)?;
        let (end, segment_next) = {
            let index = segment.index().read();
            (index.end(), index.next())
        };
        let span = match segment.span_near(self.next) {
            None if segment.is_compacted() && self.next < segment_next => {
                return Ok(Ahead::Gap(segment_next));
            }
            None => segment.span(self.next)?,
            Some(span) => span,
        };
        let window = match &mut self.open {
            Some((open, window)) if Arc::ptr_eq(open, segment) => window,
            open => {
                let window = Window::new(segment.file().clone());
                &mut open.insert((segment.clone(), window)).1
            }
        };
        let bytes = window
            .bytes(span.offset, span.length, end)
            .map_err(|error| segment.read_error(error, span))?;
        let block = segment.decode(span, &bytes)?;
        Ok(match block.last() < self.next {
            true => Ahead::Gap(span.next),
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
