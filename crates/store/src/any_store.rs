//! A store of whatever machine: what backups and followers need of it, which is its log and its
//! files.

use crate::log_holds::LogHold;
use crate::store::{Inner, Writer};
use crate::{
    Capture, Durability, FileCopy, FileInspection, LogExtent, Machine, Result, Shipped, Store,
    StoreFile,
};
use bytes::Bytes;
use quire_log::SegmentsKept;
use quire_model::Position;
use quire_sync::MutexGuard;
use std::fmt;

/// A store, whatever its machine is.
pub trait AnyStore: fmt::Debug + Send + Sync {
    /// The last position that views see.
    fn position(&self) -> Position;

    /// How far the log is.
    fn extent(&self) -> LogExtent;

    /// As [`Store::ship`].
    ///
    /// # Errors
    /// As there.
    fn ship(&self, seen: Position, bytes_max: usize) -> Result<Shipped>;

    /// As [`Store::fingerprint`].
    ///
    /// # Errors
    /// As there.
    fn fingerprint(&self, position: Position) -> Result<Option<u64>>;

    /// As [`Store::sync_log`].
    ///
    /// # Errors
    /// As there.
    fn sync_log(&self) -> Result<()>;

    /// As [`Store::ingest`].
    ///
    /// # Errors
    /// As there.
    fn ingest(
        &self,
        first: Position,
        records: &[Bytes],
        visible: bool,
        durability: Durability,
    ) -> Result<()>;

    /// As [`Store::hold_log_compaction`].
    fn hold_log_compaction(&self, hold: bool);

    /// Keeps the record at `seen` and those after it in the log, also of a machine that does not
    /// keep it, until the hold is dropped. Those that are gone already stay gone.
    fn hold_log(&self, seen: Position) -> LogHold;

    /// As [`Store::files`].
    fn files(&self) -> Vec<StoreFile>;

    /// As [`Store::inspect`].
    ///
    /// # Errors
    /// As there.
    fn inspect(&self, file: &StoreFile) -> Result<Option<FileInspection>>;

    /// The first step of [`capture`](crate::capture()).
    ///
    /// # Errors
    /// `Closed`.
    fn begin_capture(&self) -> Result<BegunCapture<'_>>;

    /// The second step: no record is written until the guard is dropped.
    fn hold_writer(&self) -> Box<dyn WriterHeld + '_>;

    /// Ends the last block of the log, and returns the position of its last record. No I/O.
    fn cut_log(&self) -> Position;

    /// The last step: the files as they were when the log was cut at `position`.
    ///
    /// # Errors
    /// Those of a sync of the log.
    fn end_capture(&self, begun: BegunCapture<'_>, position: Position) -> Result<Capture>;
}

/// A capture whose moment has not come.
#[derive(Debug)]
pub struct BegunCapture<'a> {
    pub(crate) _kept: SegmentsKept<'a>,
    pub(crate) files: Vec<FileCopy>,
}

/// While this is held, nothing is written to a store.
pub trait WriterHeld {}

impl<M: Machine> WriterHeld for MutexGuard<'_, Writer<M>> {}

impl<M: Machine> AnyStore for Store<M> {
    fn position(&self) -> Position {
        Store::position(self)
    }

    fn extent(&self) -> LogExtent {
        Store::extent(self)
    }

    fn ship(&self, seen: Position, bytes_max: usize) -> Result<Shipped> {
        Store::ship(self, seen, bytes_max)
    }

    fn fingerprint(&self, position: Position) -> Result<Option<u64>> {
        Store::fingerprint(self, position)
    }

    fn sync_log(&self) -> Result<()> {
        Store::sync_log(self)
    }

    fn files(&self) -> Vec<StoreFile> {
        Store::files(self)
    }

    fn inspect(&self, file: &StoreFile) -> Result<Option<FileInspection>> {
        Store::inspect(self, file)
    }

    fn ingest(
        &self,
        first: Position,
        records: &[Bytes],
        visible: bool,
        durability: Durability,
    ) -> Result<()> {
        Store::ingest(self, first, records, visible, durability)
    }

    fn hold_log_compaction(&self, hold: bool) {
        Store::hold_log_compaction(self, hold);
    }

    fn hold_log(&self, seen: Position) -> LogHold {
        self.inner.log_holds.hold(seen)
    }

    fn begin_capture(&self) -> Result<BegunCapture<'_>> {
        let inner: &Inner<M> = &self.inner;
        inner.check_open()?;
        inner.check_volumes()?;
        Ok(BegunCapture {
            _kept: inner.log.keep_segments(),
            files: inner.files_now(),
        })
    }

    fn hold_writer(&self) -> Box<dyn WriterHeld + '_> {
        Box::new(self.inner.writer.lock())
    }

    fn cut_log(&self) -> Position {
        self.inner.log.cut()
    }

    fn end_capture(&self, begun: BegunCapture<'_>, position: Position) -> Result<Capture> {
        let (log, mut files) = (&self.inner.log, begun.files);
        log.sync(position)?;
        files.extend(log.copies(position)?.into_iter().map(FileCopy::Segment));
        Ok(Capture { position, files })
    }
}
