//! Scanning: records in order, read in large pieces, past the cache.

use crate::log::Shared;
use crate::records::RecordBlock;
use crate::segment::Segment;
use crate::walk::Window;
use crate::{Error, Result};
use bytes::Bytes;
use quire_model::Position;
use std::fmt;
use std::sync::Arc;

/// Records in order of position. Appends and drops may go on meanwhile; ends after the first error, which is
/// [`Error::Dropped`] if the records to come were dropped.
pub struct LogScan {
    log: Arc<Shared>,
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

impl LogScan {
    pub(crate) fn new(log: Arc<Shared>, from: Position, to: Position) -> LogScan {
        LogScan {
            log,
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

    fn record(&mut self) -> Result<Bytes> {
        if let Some(record) = self
            .block
            .as_ref()
            .and_then(|block| block.record(self.next))
        {
            return Ok(record);
        }
        let block = self.read_block()?;
        let record = block.record(self.next);
        self.block = Some(block);
        record.ok_or(Error::NotFound {
            position: self.next,
            last: self.to,
        })
    }

    fn read_block(&mut self) -> Result<RecordBlock> {
        self.log.check_accepted(self.next)?;
        if let Some(block) = self.log.pending_block(self.next) {
            return Ok(block);
        }
        let segment = self.log.segment_of(self.next)?;
        let window = match &mut self.open {
            Some((open, window)) if Arc::ptr_eq(open, &segment) => window,
            open => {
                let window = Window::new(segment.file().clone());
                &mut open.insert((segment.clone(), window)).1
            }
        };
        let span = segment.span(self.next)?;
        let end = segment.index().read().end();
        let bytes = window
            .bytes(span.offset, span.length, end)
            .map_err(|error| segment.read_error(error, span))?;
        segment.decode(span, &bytes)
    }
}

impl Iterator for LogScan {
    type Item = Result<(Position, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next > self.to {
            return None;
        }
        let position = self.next;
        match self.record() {
            Ok(record) => {
                self.next = position.next();
                Some(Ok((position, record)))
            }
            Err(error) => {
                self.to = Position(0);
                self.next = Position(1);
                self.block = None;
                Some(Err(error))
            }
        }
    }
}
