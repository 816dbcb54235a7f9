//! Reading: which segment, which block, which record.
//!
//! # Invariants
//! 1. A [`LogView`] reads the segments that were there when it was made. Their files stay open, so
//!    nothing that a compaction or a drop takes away later is missed by it. What the disk has to
//!    keep for it is in [`LogStats::held_bytes`](crate::LogStats::held_bytes).
//! 2. A record accepted before the view was made is in one of those segments, or pending and goes
//!    into the last of them: the log goes over to a new segment only when nothing is pending. One
//!    accepted later may be in a segment that the view does not know: a scan of the view ends
//!    before it.

use crate::format::records::RecordBlock;
use crate::log::Shared;
use crate::reading::segment::Segment;
use crate::{Error, LogScan, Result};
use arc_swap::Guard;
use bytes::Bytes;
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::sync::Arc;

/// Segments, ascending, without a gap between them.
pub(crate) type Segments = Arc<Vec<Arc<Segment>>>;

/// A log as it was at one moment: see [`Log::view`](crate::Log::view). Cheap to clone.
#[derive(Debug, Clone)]
pub struct LogView {
    log: Arc<Shared>,
    segments: Segments,
    /// The last record accepted when it was made.
    last: Position,
}

impl LogView {
    pub(crate) fn new(log: Arc<Shared>) -> LogView {
        loop {
            let segments = log.segments.load_full();
            let last = log.last();
            // If they are still the same, no record up to `last` is in another.
            if Arc::ptr_eq(&segments, &log.segments.load()) {
                return LogView {
                    log,
                    segments,
                    last,
                };
            }
        }
    }

    /// Position of the first record kept.
    pub fn first(&self) -> Position {
        self.segments
            .first()
            .map_or(Position(1), |segment| segment.base())
    }

    /// The view, for reads.
    pub fn reader(&self) -> LogReader<'_> {
        LogReader {
            log: &self.log,
            segments: Held::OfView(&self.segments),
        }
    }

    /// As [`Log::read`](crate::Log::read).
    ///
    /// # Errors
    /// As of [`Log::read`](crate::Log::read).
    pub fn read(&self, position: Position) -> Result<Bytes> {
        self.reader().read(position)
    }

    /// As [`Log::read_many`](crate::Log::read_many).
    ///
    /// # Errors
    /// As of [`Log::read`](crate::Log::read), for the first in disk order that fails.
    pub fn read_many(&self, positions: &[Position]) -> Result<Vec<Bytes>> {
        self.reader().read_many(positions)
    }

    /// As [`Log::scan`](crate::Log::scan), up to the last record that was accepted when the view
    /// was made.
    pub fn scan(&self, from: Position) -> LogScan {
        LogScan::new(self.clone(), from, self.last)
    }

    pub(crate) fn log(&self) -> &Shared {
        &self.log
    }

    pub(crate) fn segment_of(&self, position: Position) -> Result<&Arc<Segment>> {
        segment_of(&self.segments, position)
    }
}

/// The segments of a log as they were at one moment, for reads that are over soon: making one
/// touches no count that other threads touch.
#[derive(Debug)]
pub struct LogReader<'a> {
    log: &'a Shared,
    segments: Held<'a>,
}

/// What keeps the segments.
#[derive(Debug)]
enum Held<'a> {
    Current(Guard<Segments>),
    OfView(&'a Segments),
}

impl<'a> LogReader<'a> {
    pub(crate) fn new(log: &'a Shared) -> LogReader<'a> {
        LogReader {
            log,
            segments: Held::Current(log.segments.load()),
        }
    }

    fn segments(&self) -> &[Arc<Segment>] {
        match &self.segments {
            Held::Current(segments) => segments,
            Held::OfView(segments) => segments,
        }
    }

    /// As [`Log::read`](crate::Log::read).
    ///
    /// # Errors
    /// As of [`Log::read`](crate::Log::read).
    pub fn read(&self, position: Position) -> Result<Bytes> {
        self.log.read(self.segments(), position)
    }

    /// As [`Log::read_many`](crate::Log::read_many).
    ///
    /// # Errors
    /// As of [`Log::read`](crate::Log::read), for the first in disk order that fails.
    pub fn read_many(&self, positions: &[Position]) -> Result<Vec<Bytes>> {
        if seeded(Bug::ViewReadsNewestLog) {
            return self.log.read_many(&self.log.segments.load(), positions);
        }
        self.log.read_many(self.segments(), positions)
    }
}

/// The segment that holds `position`, which is in one unless it was dropped.
pub(crate) fn segment_of(segments: &[Arc<Segment>], position: Position) -> Result<&Arc<Segment>> {
    let after = segments.partition_point(|segment| segment.base() <= position);
    match after.checked_sub(1).and_then(|at| segments.get(at)) {
        Some(segment) => Ok(segment),
        None => {
            let first = segments.first().map_or(position, |segment| segment.base());
            Err(Error::Dropped { position, first })
        }
    }
}

impl Shared {
    /// The record at `position`: pending, or in one of `segments`.
    pub(crate) fn read(&self, segments: &[Arc<Segment>], position: Position) -> Result<Bytes> {
        self.check_accepted(position)?;
        match self.pending_record(position) {
            Some(record) => Ok(record),
            None => segment_of(segments, position)?.record(position, &self.place.cache),
        }
    }

    /// The records at `positions`, in that order, read in the order of the disk.
    pub(crate) fn read_many(
        &self,
        segments: &[Arc<Segment>],
        positions: &[Position],
    ) -> Result<Vec<Bytes>> {
        let at = |index: &usize| positions.get(*index).copied().unwrap_or_default();
        let mut order: Vec<usize> = (0..positions.len()).collect();
        order.sort_by_key(at);
        let mut records = vec![Bytes::new(); positions.len()];
        let mut rest = order.as_slice();
        let mut block: Option<RecordBlock> = None;
        while let Some((first, others)) = rest.split_first() {
            self.check_accepted(at(first))?;
            if let Some(record) = self.pending_record(at(first)) {
                if let Some(slot) = records.get_mut(*first) {
                    *slot = record;
                }
                rest = others;
                continue;
            }
            let segment = segment_of(segments, at(first))?;
            let spans = segment.spans(rest.iter().map(at))?;
            for (index, span) in rest.iter().zip(&spans) {
                let found = match block.take().filter(|block| block.first() == span.first) {
                    Some(block) => block,
                    None => segment.block_at(*span, &self.place.cache)?,
                };
                if let Some(slot) = records.get_mut(*index) {
                    *slot = segment.record_in(&found, at(index))?;
                }
                block = Some(found);
            }
            rest = rest.get(spans.len()..).unwrap_or_default();
        }
        Ok(records)
    }
}
