//! The log's face: appends, group commit, reads. `view.rs` has how reading is done, `compact.rs`
//! how old segments change.

use crate::compaction::info::SegmentInfo;
use crate::directory::LogDirectory;
use crate::error::{ErrorKind, Result};
use crate::options::check_group;
use crate::reading::view::{LogReader, LogView};
use crate::recovery::inspect::{Inspection, SegmentFile};
use crate::recovery::recover::{Recovered, Recovery, recover};
use crate::shared::{OldFiles, Shared};
use crate::writing::pending::Pending;
use crate::writing::writer::Writer;
use crate::{LogIdentity, LogOptions, LogScan};
use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use quire_env::{BlockCache, Env};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A log, open. Shared by reference: one writer appends at a time, any number of threads read and
/// sync.
///
/// Dropping it without [`close`](Log::close) is like a crash: what was not synced may be lost.
#[derive(Debug)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
}

/// How large a log is, and how far it has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStats {
    /// Segment files.
    pub segments: u64,
    /// Blocks of records in them.
    pub blocks: u64,
    /// Bytes of the files, without room reserved ahead.
    pub disk_bytes: u64,
    /// Bytes of the blocks before compression.
    pub raw_bytes: u64,
    /// Records in the segments.
    pub records: u64,
    /// Bytes of those records alone.
    pub record_bytes: u64,
    /// Bytes of files that compaction replaced and that views still hold open: the disk has them
    /// back when the views go.
    pub held_bytes: u64,
    /// Position of the first record kept.
    pub first: Position,
    /// Position of the last record accepted.
    pub last: Position,
    /// Position of the last record known durable.
    pub durable: Position,
    /// Syncs of a file since the log was opened.
    pub syncs: u64,
}

impl Log {
    /// Opens the log in `dir`, or makes one there, and recovers from a crash if there was one.
    ///
    /// Reads header and footer of each segment, and the newest segment whole unless the log was
    /// closed. Two logs must not be open on one directory: the caller holds a lock on it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a segment is missing, duplicated or damaged where that shows without
    /// reading sealed blocks; [`Error::Foreign`] if one is of another log;
    /// [`Error::UnsupportedVersion`] if one is of a newer format. A full disk is no error: the log
    /// can be read, and what is not proven durable is so after the first [`sync`](Log::sync) that
    /// finds room.
    pub fn open(
        env: Arc<dyn Env>,
        dir: &Path,
        identity: LogIdentity,
        cache: Arc<BlockCache>,
        options: LogOptions,
    ) -> Result<(Log, Recovery)> {
        Log::open_after(env, dir, identity, cache, options, Position(0))
    }

    /// As [`open`](Log::open), of a log whose records up to `obsolete` are not needed any more:
    /// segments of such alone are dropped, and a log that ends before `obsolete`, which may never
    /// have been durable up to there, begins anew right after it.
    ///
    /// # Errors
    /// As of [`open`](Log::open).
    pub fn open_after(
        env: Arc<dyn Env>,
        dir: &Path,
        identity: LogIdentity,
        cache: Arc<BlockCache>,
        options: LogOptions,
        obsolete: Position,
    ) -> Result<(Log, Recovery)> {
        options.check()?;
        let directory = LogDirectory::new(env, dir, identity, cache, &options);
        let Recovered {
            segments,
            newest,
            recovery,
        } = recover(&directory, obsolete)?;
        directory.find_dictionary(&segments);
        let next = match seeded(Bug::PositionUsedTwice) {
            true => recovery.last,
            false => recovery.last.next(),
        };
        let mut pending = Pending::new(next, options.block_bytes);
        let blocks = newest.segment.index().read().entries().len();
        pending.begin_segment(blocks, 0, options.block_bytes);
        let writer = Writer::new(directory.clone(), options.clone(), newest);
        let durable = match writer.first_unproven() {
            Some(first) => first.0.saturating_sub(1),
            None => recovery.last.0,
        };
        let proven = writer.proven().map(Arc::downgrade).unwrap_or_default();
        let shared = Shared {
            directory,
            options,
            segments: ArcSwap::from_pointee(segments),
            proven,
            writer: Mutex::new(writer),
            pending: Mutex::new(pending),
            changing: Mutex::new(()),
            old: Mutex::new(OldFiles::default()),
            last: AtomicU64::new(recovery.last.0),
            written: AtomicU64::new(recovery.last.0),
            durable: AtomicU64::new(durable),
            syncs: AtomicU64::new(0),
            unnamed: Mutex::new(None),
            naming_due: AtomicBool::new(false),
            training_due: AtomicBool::new(true),
            poisoned: AtomicBool::new(false),
        };
        Ok((
            Log {
                shared: Arc::new(shared),
            },
            recovery,
        ))
    }

    /// Appends a group of records, whole or not at all, and returns the position of the first; the
    /// others follow it. They can be read at once, and are durable after a [`sync`](Log::sync) that
    /// covers them.
    ///
    /// Mostly a copy into memory. Writes full blocks out if nobody else is writing, and waits for
    /// whoever is once more than `pending_bytes_max` have gathered.
    ///
    /// # Errors
    /// Nothing was accepted: [`Error::TooLarge`] past the limits of the format,
    /// [`Error::InvalidArgument`] for an empty group, kind `NoSpace` if the disk is full (try again
    /// when it is not), [`Error::Poisoned`] after a failed write.
    pub fn append(&self, group: &[&[u8]]) -> Result<Position> {
        let bytes = check_group(group)?;
        let shared = &*self.shared;
        shared.write_out_full()?;
        loop {
            let need = {
                let mut pending = shared.pending.lock();
                shared.check_open(&pending)?;
                if let Some(first) = pending.accept(group, bytes) {
                    shared.last.store(pending.next().0 - 1, Ordering::Release);
                    return Ok(first);
                }
                pending.group_bytes_max(bytes, group.len())
            };
            shared.make_room(need)?;
        }
    }

    /// Returns once every record up to `upto` (or the last, if that is before) is durable, with the
    /// last position that is. Callers that wait at the same time are served by one sync of the
    /// file.
    ///
    /// # Errors
    /// [`Error::NotSecured`], and nothing has changed, as long as the disk has no room for a copy
    /// of what an earlier opening wrote and may have failed to sync; kind `NoSpace`, likewise, as
    /// long as it has none for the newest segment's name. Else what is durable is unknown, and the
    /// log takes no more writes: the machine's error the first time, then [`Error::Poisoned`].
    pub fn sync(&self, upto: Position) -> Result<Position> {
        let shared = &*self.shared;
        let upto = upto.min(self.last());
        if self.durable() >= upto {
            return Ok(self.durable());
        }
        let mut writer = shared.writer.lock();
        // Whoever held the lock before may have done it.
        if self.durable() < upto {
            shared.check_healthy()?;
            shared.sync_all(&mut writer)?;
        }
        Ok(self.durable())
    }

    /// As [`sync`](Log::sync), for the background: appends go on meanwhile, to the file too. Who
    /// waits for his own records had better call `sync`, which writes those of all who wait as one.
    ///
    /// # Errors
    /// As [`sync`](Log::sync).
    pub fn sync_aside(&self, upto: Position) -> Result<Position> {
        let shared = &*self.shared;
        if self.durable() < upto.min(self.last()) {
            let unsynced = {
                let mut writer = shared.writer.lock();
                shared.check_healthy()?;
                shared.write_all(&mut writer)?
            };
            shared.make_durable(unsynced)?;
        }
        Ok(self.durable())
    }

    /// Makes durable what was accepted so far, and reserves room for what comes next. Called in the
    /// background now and then, so that an append seldom waits for room, and going over to a new
    /// segment for the sync of a whole one. Appends go on meanwhile. Of a [rotate_unsynced](LogOptions::rotate_unsynced)
    /// log no records are made durable, but a new segment gets its name: see
    /// [`write_back_is_due`](Self::write_back_is_due).
    ///
    /// # Errors
    /// As [`sync`](Log::sync). A full disk is none: the append that finds no room says so.
    pub fn write_back(&self) -> Result<()> {
        let shared = &*self.shared;
        let unsynced = {
            let mut writer = shared.writer.lock();
            shared.check_healthy()?;
            let unsynced = shared.write_all(&mut writer)?;
            shared.reserve_ahead(&mut writer)?;
            unsynced
        };
        match shared.options.rotate_unsynced {
            true => shared.name_newest(),
            false => shared.make_durable(unsynced),
        }
    }

    /// Whether to call [`write_back`](Self::write_back) at once: an append has gone over to a
    /// segment that has no name yet.
    pub fn write_back_is_due(&self) -> bool {
        self.shared.naming_due.load(Ordering::Relaxed)
    }

    /// Position of the first record kept; one past [`last`](Log::last) if there is none.
    pub fn first(&self) -> Position {
        self.shared.first()
    }

    /// Position of the last record accepted; 0 if there was none yet.
    pub fn last(&self) -> Position {
        self.shared.last()
    }

    /// Position of the last record known durable.
    pub fn durable(&self) -> Position {
        Position(self.shared.durable.load(Ordering::Acquire))
    }

    /// The record at `position`: from memory, or with one read of the disk. It shares memory with
    /// the block it is in.
    ///
    /// # Errors
    /// [`Error::NotFound`] past the last, [`Error::Dropped`] before the first,
    /// [`Error::Superseded`] if compaction has removed it, [`Error::Corrupt`] if its block is
    /// damaged; other blocks go on being served.
    pub fn read(&self, position: Position) -> Result<Bytes> {
        self.shared.read(&self.shared.segments.load(), position)
    }

    /// The records at `positions`, in that order. Reads in the order of the disk, each block once.
    ///
    /// # Errors
    /// As [`read`](Log::read), for the first in disk order that fails.
    pub fn read_many(&self, positions: &[Position]) -> Result<Vec<Bytes>> {
        self.shared
            .read_many(&self.shared.segments.load(), positions)
    }

    /// The segments as they are now: whatever compaction removes later, and every record accepted
    /// so far that it has not removed yet, can be read through it.
    pub fn view(&self) -> LogView {
        LogView::new(self.shared.clone())
    }

    /// The segments as they are now, for reads that are over soon.
    pub fn reader(&self) -> LogReader<'_> {
        LogReader::new(&self.shared)
    }

    /// The records from `from` on, up to the last that the log holds now, read in large pieces and
    /// past the cache. Those that compaction has removed are passed over; later compactions and
    /// drops are not seen. See [`LogScan::until`] to end sooner. The first item is an error if
    /// `from` is 0 or has been dropped.
    pub fn scan(&self, from: Position) -> LogScan {
        self.view().scan(from)
    }

    /// Writes everything out, makes it durable, ends the newest segment with its footer and gives
    /// back reserved room. Later appends fail; reads go on. Closing twice is no error.
    ///
    /// # Errors
    /// As [`sync`](Log::sync).
    pub fn close(&self) -> Result<()> {
        let shared = &*self.shared;
        let mut writer = shared.writer.lock();
        shared.pending.lock().closed = true;
        shared.check_healthy()?;
        shared.sync_all(&mut writer)?;
        shared.name_newest()?;
        match shared.reserve_footer(&mut writer) {
            Ok(()) => writer.seal().map_err(|error| shared.poison(error)),
            // Nothing was accepted since the log was opened, on a disk that is full: all there is
            // is durable.
            Err(error) if error.kind() == ErrorKind::NoSpace => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Reads every byte of the segment that stands for `position` now, and says which that is;
    /// appends and compactions go on. Of the newest it reads as far as records are in it now. Any
    /// invalid byte among them is damage. `None` if the position was dropped.
    pub fn inspect(&self, position: Position) -> Option<(SegmentInfo, Inspection)> {
        let segments = self.shared.segments.load_full();
        let after = segments.partition_point(|segment| segment.base() <= position);
        let at = after.checked_sub(1)?;
        let segment = segments.get(at)?;
        let after = segments.get(at + 1).map(|next| next.base());
        let (next, end) = {
            let index = segment.index().read();
            (index.next(), index.end())
        };
        let file = SegmentFile {
            file: segment.file().clone(),
            base: segment.base(),
            // What comes after the blocks of the newest is being written.
            end: after.is_none().then_some(end),
        };
        let last = Position(next.0.saturating_sub(1));
        let newest = at + 2 == segments.len();
        let identity = self.shared.directory.identity;
        let info = SegmentInfo::new(segment, after.is_some());
        Some((
            info,
            Inspection::of_open(identity, file, last, after, newest),
        ))
    }

    /// How large the log is, and how far it has got.
    pub fn stats(&self) -> LogStats {
        let segments = self.shared.segments.load_full();
        let mut stats = LogStats {
            segments: segments.len() as u64,
            blocks: 0,
            disk_bytes: 0,
            raw_bytes: 0,
            records: 0,
            record_bytes: 0,
            held_bytes: self.shared.old.lock().held_bytes(),
            first: self.first(),
            last: self.last(),
            durable: self.durable(),
            syncs: self.shared.syncs.load(Ordering::Relaxed),
        };
        for segment in segments.iter() {
            let index = segment.index().read();
            stats.blocks += index.entries().len() as u64;
            stats.raw_bytes += index.raw_bytes();
            stats.records += index.records();
            stats.record_bytes += index.record_bytes();
            stats.disk_bytes += segment.file_bytes();
        }
        stats
    }
}

impl Log {
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}
