//! The state of an open log, which the log, its views and its scans share.

use crate::directory::LogDirectory;
use crate::end_of_log::EndOfLog;
use crate::format::records::RecordBlock;
use crate::reading::segment::Segment;
use crate::writing::create::Unnamed;
use crate::writing::pending::Pending;
use crate::writing::writer::Writer;
use crate::{Error, LogOptions, Result};
use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The state of an open log.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) directory: LogDirectory,
    pub(crate) options: LogOptions,
    /// In order of position, without a gap between them, never empty. The writer appends to the
    /// last.
    pub(crate) segments: ArcSwap<Vec<Arc<Segment>>>,
    /// The newest segment without its unproven tail, while that is still to be carried over to a
    /// segment of its own.
    pub(crate) proven: Weak<Segment>,
    pub(crate) writer: Mutex<Writer>,
    /// Locked after `writer` where both are.
    pub(crate) pending: Mutex<Pending>,
    /// Locked by a thread that changes old segments, or keeps them from being changed.
    pub(crate) changing: Mutex<()>,
    /// Locked only for a moment.
    pub(crate) old: Mutex<OldFiles>,
    pub(crate) last: AtomicU64,
    /// The last position that is in a segment's index.
    pub(crate) written: AtomicU64,
    pub(crate) durable: AtomicU64,
    pub(crate) syncs: AtomicU64,
    /// The newest segment, if it has no name yet. Locked after `writer` where both are, and while
    /// the segment gets its name.
    pub(crate) unnamed: Mutex<Option<Unnamed>>,
    /// Locked after all others, and during I/O: who waits for it finds more noted than he needs.
    pub(crate) end: Mutex<EndOfLog>,
    /// Whether no thread has begun to give it its name.
    pub(crate) naming_due: AtomicBool,
    /// A segment was sealed since the last check whether to train a dictionary.
    pub(crate) training_due: AtomicBool,
    pub(crate) poisoned: AtomicBool,
}

/// Files that no longer belong to the log.
#[derive(Debug, Default)]
pub(crate) struct OldFiles {
    /// Files that still have their names. They were compacted into another segment.
    pub(crate) leftovers: Vec<PathBuf>,
    /// Segments whose files have no name any more. Views may hold them open.
    pub(crate) retired: Vec<Weak<Segment>>,
}

impl OldFiles {
    /// Notes that a segment no longer belongs to the log.
    pub(crate) fn retire(&mut self, segment: &Arc<Segment>) {
        self.retired.retain(|segment| segment.strong_count() > 0);
        self.retired.push(Arc::downgrade(segment));
    }

    /// Bytes of files without a name that a view holds open.
    pub(crate) fn held_bytes(&self) -> u64 {
        let held = self.retired.iter().filter_map(Weak::upgrade);
        held.map(|segment| segment.file_bytes()).sum()
    }
}

impl Shared {
    /// No segment is dropped or compacted until the guard is dropped.
    pub(crate) fn keep_segments(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    pub(crate) fn last(&self) -> Position {
        Position(self.last.load(Ordering::Acquire))
    }

    pub(crate) fn first(&self) -> Position {
        self.segments
            .load()
            .first()
            .map_or(Position(1), |segment| segment.base())
    }

    /// Replaces the list of segments by a changed copy, in one step.
    pub(crate) fn change_segments(&self, change: impl Fn(&mut Vec<Arc<Segment>>)) {
        self.segments.rcu(|segments| {
            let mut segments = Vec::clone(segments);
            change(&mut segments);
            segments
        });
    }

    pub(crate) fn check_healthy(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) {
            Err(Error::Poisoned)
        } else {
            Ok(())
        }
    }

    pub(crate) fn check_open(&self, pending: &Pending) -> Result<()> {
        self.check_healthy()?;
        if pending.closed {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Accepts no more writes: `error` left the newest file in an unknown state.
    pub(crate) fn poison(&self, error: Error) -> Error {
        if !seeded(Bug::FailedSyncForgotten) {
            self.poisoned.store(true, Ordering::Release);
        }
        error
    }

    /// Fails unless the log has accepted a record at `position`.
    pub(crate) fn check_accepted(&self, position: Position) -> Result<()> {
        let last = self.last();
        if position == Position(0) || position > last {
            Err(Error::NotFound { position, last })
        } else {
            Ok(())
        }
    }

    pub(crate) fn is_pending(&self, position: Position) -> bool {
        position.0 > self.written.load(Ordering::Acquire)
    }

    /// The record at `position`, if it is not in a segment yet.
    pub(crate) fn pending_record(&self, position: Position) -> Option<Bytes> {
        if self.is_pending(position) {
            self.pending.lock().record(position)
        } else {
            None
        }
    }

    /// The block that holds `position`, if it is not in a segment yet.
    pub(crate) fn pending_block(&self, position: Position) -> Option<RecordBlock> {
        if self.is_pending(position) {
            self.pending.lock().block(position)
        } else {
            None
        }
    }
}
