//! Views: which segments a read looks in.
//!
//! # Invariants
//! 1. A [`LogView`] reads the segments that the log had when the view was made. It keeps their
//!    files open, so it misses nothing that a later compaction or drop removes. The disk bytes that
//!    views hold this way are in [`LogStats::held_bytes`](crate::LogStats::held_bytes).
//! 2. A record accepted before the view was made is in one of those segments, or it is pending and
//!    will be written to the last of them: the log rotates only when nothing is pending. A record
//!    accepted later may be in a segment that the view does not have: a scan of the view ends
//!    before it.

use crate::Result;
use crate::reading::scan::LogScan;
use crate::reading::segment::{Segment, Segments};
use crate::shared::Shared;
use arc_swap::Guard;
use bytes::Bytes;
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::sync::Arc;

/// A log as it was at one moment: see [`Log::view`](crate::Log::view). Cheap to clone.
#[derive(Debug, Clone)]
pub struct LogView {
    log: Arc<Shared>,
    segments: Segments,
    /// The last record accepted when the view was made.
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
        LogScan::new(self.log.clone(), self.segments.clone(), from, self.last)
    }
}

/// The segments of a log as they were at one moment, for short reads: making one changes no
/// reference count that other threads change.
#[derive(Debug)]
pub struct LogReader<'a> {
    log: &'a Shared,
    segments: Held<'a>,
}

/// How a reader holds its segments.
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
