//! The public log: open, append, sync, read, close. The code behind it: `writing/commit.rs` has the
//! group commit, `reading/view.rs` the choice of segments for a read, `compaction/compact.rs` the
//! changes of old segments.

use crate::compaction::info::SegmentInfo;
use crate::directory::LogDirectory;
use crate::end_of_log::EndOfLog;
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

/// An open log, shared by reference. One writer appends at a time; any number of threads read and
/// sync.
///
/// Dropping it without [`close`](Log::close) is like a crash: records that were not synced may be
/// lost.
#[derive(Debug)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
}

/// Size and progress of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogStats {
    /// Segment files.
    pub segments: u64,
    /// Blocks of records in them.
    pub blocks: u64,
    /// Bytes of the files, without reserved space.
    pub disk_bytes: u64,
    /// Bytes of the blocks before compression.
    pub raw_bytes: u64,
    /// Records in the segments.
    pub records: u64,
    /// Bytes of those records alone.
    pub record_bytes: u64,
    /// Bytes of files that compaction replaced and that views hold open. The disk gets them back
    /// when the views are dropped.
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
    /// Opens the log in `dir`, or creates it there, and recovers from a crash if there was one.
    ///
    /// Reads header and footer of each segment, and all of the newest segment unless the log was
    /// closed. Two logs must not be open on one directory: the caller holds a lock on it.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if a segment is missing, duplicated or damaged
    /// where that shows without reading sealed blocks; [`Error::Foreign`](crate::Error::Foreign) if
    /// one belongs to another log; [`Error::UnsupportedVersion`](crate::Error::UnsupportedVersion)
    /// if one has a newer format. A full disk is no error: the log can be read, and records that
    /// are not proven durable become so with the first [`sync`](Log::sync) that finds space.
    pub fn open(
        env: Arc<dyn Env>,
        dir: &Path,
        identity: LogIdentity,
        cache: Arc<BlockCache>,
        options: LogOptions,
    ) -> Result<(Log, Recovery)> {
        Log::open_after(env, dir, identity, cache, options, Position(0))
    }

    /// As [`open`](Log::open), of a log whose records up to `obsolete` are no longer needed.
    /// Segments that hold only such records are dropped. A log that ends before `obsolete`, which
    /// may never have been durable up to there, starts again right after it.
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
            end,
            recovery,
        } = recover(&directory, &options, obsolete)?;
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
            end: Mutex::new(EndOfLog::new(&end)),
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

    /// Appends a group of records, whole or not at all, and returns the position of the first one.
    /// The others follow it. They can be read at once, and are durable after a [`sync`](Log::sync)
    /// up to the last of them.
    ///
    /// This is usually a copy into memory. If no other thread is writing, it also writes full
    /// blocks to the file. If more than `pending_bytes_max` bytes are pending, it waits for the
    /// thread that is writing.
    ///
    /// # Errors
    /// Nothing was accepted: [`Error::TooLarge`](crate::Error::TooLarge) past the limits of the
    /// format, [`Error::InvalidArgument`](crate::Error::InvalidArgument) for an empty group, kind
    /// `NoSpace` if the disk is full (try again when it is not),
    /// [`Error::Poisoned`](crate::Error::Poisoned) after a failed write.
    pub fn append(&self, group: &[&[u8]]) -> Result<Position> {
        let bytes = check_group(group)?;
        self.accepted(bytes, group.len(), |pending| pending.accept(group, bytes))
    }

    /// Whether a record of this length has a block of its own.
    pub fn fills_block(&self, bytes: usize) -> bool {
        bytes >= self.shared.options.block_bytes
    }

    /// As [`append`](Log::append), for one record. If it [fills a block](Log::fills_block), its
    /// memory becomes that of the block: it is never held twice. Returns its position, and the
    /// record as it lies in the block.
    ///
    /// # Errors
    /// As of [`append`](Log::append).
    pub fn append_owned(&self, mut record: Vec<u8>) -> Result<(Position, Bytes)> {
        let bytes = check_group(&[&record])?;
        self.accepted(bytes, 1, |pending| pending.accept_owned(&mut record))
    }

    /// Calls `accept` until there is room for this many records of `bytes` in all.
    fn accepted<T>(
        &self,
        bytes: usize,
        records: usize,
        mut accept: impl FnMut(&mut Pending) -> Option<T>,
    ) -> Result<T> {
        let shared = &*self.shared;
        shared.write_out_full()?;
        loop {
            let need = {
                let mut pending = shared.pending.lock();
                shared.check_open(&pending)?;
                if let Some(accepted) = accept(&mut pending) {
                    shared.last.store(pending.next().0 - 1, Ordering::Release);
                    return Ok(accepted);
                }
                pending.group_bytes_max(bytes, records)
            };
            shared.make_room(need)?;
        }
    }

    /// Returns once every record up to `upto` (or the last, if that is before) is durable, and
    /// returns the last durable position. One sync of the file serves all callers that wait at the
    /// same time.
    ///
    /// # Errors
    /// [`Error::NotSecured`](crate::Error::NotSecured) as long as the disk has no space for a copy
    /// of blocks that an earlier opening wrote and may have failed to sync; kind `NoSpace` as long
    /// as it has none for the name of the newest segment. Nothing has changed then. After any other
    /// error it is unknown what is durable, and the log accepts no more writes: the error of the
    /// machine the first time, then [`Error::Poisoned`](crate::Error::Poisoned).
    pub fn sync(&self, upto: Position) -> Result<Position> {
        let shared = &*self.shared;
        let upto = upto.min(self.last());
        if self.durable() >= upto {
            return Ok(self.durable());
        }
        let mut writer = shared.writer.lock();
        // The thread that held the lock before may have synced them.
        if self.durable() < upto {
            shared.check_healthy()?;
            shared.sync_all(&mut writer)?;
        }
        Ok(self.durable())
    }

    /// As [`sync`](Log::sync), for the background: appends continue meanwhile, to the file too. A
    /// caller that waits for its own records should call `sync`, which makes one write of the
    /// records of all callers.
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

    /// Makes durable what was accepted so far, and reserves disk space for what comes next. Call it
    /// in the background now and then: then an append seldom waits for a reservation, and a
    /// rotation seldom waits for the sync of a whole segment. Appends continue meanwhile. If the
    /// log [rotates unsynced](LogOptions::rotate_unsynced), no records are made durable, but a new
    /// segment gets its name: see [`write_back_is_due`](Self::write_back_is_due).
    ///
    /// # Errors
    /// As [`sync`](Log::sync). A full disk is no error here: the append that finds no space reports
    /// it.
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

    /// Whether to call [`write_back`](Self::write_back) at once: an append has rotated to a segment
    /// that has no name yet.
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
    /// its block.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::Error::NotFound) past the last,
    /// [`Error::Dropped`](crate::Error::Dropped) before the first,
    /// [`Error::Superseded`](crate::Error::Superseded) if compaction has removed it,
    /// [`Error::Corrupt`](crate::Error::Corrupt) if its block is damaged. Other blocks are still
    /// served.
    pub fn read(&self, position: Position) -> Result<Bytes> {
        self.shared.read(&self.shared.segments.load(), position)
    }

    /// The records at `positions`, in that order. They are read in disk order, each block once.
    ///
    /// # Errors
    /// As [`read`](Log::read), for the first in disk order that fails.
    pub fn read_many(&self, positions: &[Position]) -> Result<Vec<Bytes>> {
        self.shared
            .read_many(&self.shared.segments.load(), positions)
    }

    /// The log as it is now. Every record accepted so far, and not yet removed by compaction, can
    /// be read through the view, also after compaction removes it.
    pub fn view(&self) -> LogView {
        LogView::new(self.shared.clone())
    }

    /// The log as it is now, for short reads.
    pub fn reader(&self) -> LogReader<'_> {
        LogReader::new(&self.shared)
    }

    /// The records from `from` on, up to the last one of now. They are read in large pieces, past
    /// the cache. Records that compaction has removed are left out; later compactions and drops are
    /// not seen. See [`LogScan::until`] to end sooner. The first item is an error if `from` is 0 or
    /// was dropped.
    pub fn scan(&self, from: Position) -> LogScan {
        self.view().scan(from)
    }

    /// Writes everything, makes it durable, ends the newest segment with its footer, and releases
    /// reserved space. Later appends fail; reads still work. Closing twice is no error.
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
            Ok(()) => {
                let sealed = writer.seal();
                let closed = sealed.and_then(|()| shared.note_closed(&writer));
                closed.map_err(|error| shared.poison(error))
            }
            // Nothing was accepted since the log was opened, on a disk that is full: all records
            // are durable.
            Err(error) if error.kind() == ErrorKind::NoSpace => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Inspects the segment that holds `position` now, and describes it. Appends and compactions
    /// continue. The inspection reads every byte; of the newest segment, up to the end of its
    /// present blocks. Any invalid byte is damage. `None` if the position was dropped.
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
            // The file of the newest segment is being written past its blocks.
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

    /// Size and progress of the log.
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
