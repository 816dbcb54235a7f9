//! The log's face: appends, group commit, reads. `view.rs` has how reading is done, `compact.rs`
//! how old segments change.

use crate::compaction::compact::SegmentInfo;
use crate::error::{Error, ErrorKind, Result};
use crate::format::records::RecordBlock;
use crate::options::check_group;
use crate::reading::segment::Segment;
use crate::reading::view::{LogReader, LogView};
use crate::recovery::recover::{Recovered, Recovery, recover};
use crate::recovery::verify::{Inspection, SegmentFile};
use crate::writing::create::{NotCreated, Place, Unnamed};
use crate::writing::pending::Pending;
use crate::writing::syncer::Syncer;
use crate::writing::writer::{Secured, Writer};
use crate::{LogIdentity, LogOptions, LogScan};
use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use quire_env::{BlockCache, Env};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A log, open. Shared by reference: one writer appends at a time, any number of threads read and
/// sync.
///
/// Dropping it without [`close`](Log::close) is like a crash: what was not synced may be lost.
#[derive(Debug)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
}

/// What a log and its scans share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) place: Place,
    pub(crate) options: LogOptions,
    /// Ascending, without a gap between them, never empty; the last is the writer's.
    pub(crate) segments: ArcSwap<Vec<Arc<Segment>>>,
    /// The newest segment, as far as opening found it proven durable, if what follows is still to
    /// be carried over to a segment of its own.
    pub(crate) proven: Weak<Segment>,
    pub(crate) writer: Mutex<Writer>,
    /// Taken after `writer` where both are.
    pub(crate) pending: Mutex<Pending>,
    /// Held by the one who changes old segments, or keeps them from being changed.
    pub(crate) changing: Mutex<()>,
    /// Held for a moment only.
    pub(crate) old: Mutex<OldFiles>,
    last: AtomicU64,
    /// The last position that is in a segment's index.
    written: AtomicU64,
    durable: AtomicU64,
    syncs: AtomicU64,
    /// The newest segment, if it has no name yet. Taken after `writer` where both are, and held
    /// while it gets it.
    unnamed: Mutex<Option<Unnamed>>,
    /// Whether nobody has begun to give it its name.
    naming_due: AtomicBool,
    /// A segment was sealed since it was last asked whether a dictionary is to be trained.
    pub(crate) training_due: AtomicBool,
    poisoned: AtomicBool,
}

/// What was written to a segment and is to be made durable.
struct Unsynced {
    syncer: Arc<Syncer>,
    /// So many bytes of its file,
    bytes: u64,
    /// with all records up to this one.
    upto: u64,
}

/// Files that are no longer of the log.
#[derive(Debug, Default)]
pub(crate) struct OldFiles {
    /// Still have their names: what they were compacted into stands for them.
    pub(crate) leftovers: Vec<PathBuf>,
    /// Have no name any more, and may be held open by views.
    retired: Vec<Weak<Segment>>,
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
        let place = Place::new(env, dir, identity, cache, &options);
        let Recovered {
            segments,
            newest,
            recovery,
        } = recover(&place, obsolete)?;
        place.find_dictionary(&segments);
        let next = match seeded(Bug::PositionUsedTwice) {
            true => recovery.last,
            false => recovery.last.next(),
        };
        let mut pending = Pending::new(next, options.block_bytes);
        let blocks = newest.segment.index().read().entries().len();
        pending.begin_segment(blocks, 0, options.block_bytes);
        let writer = Writer::new(place.clone(), options.clone(), newest);
        let durable = match writer.first_unproven() {
            Some(first) => first.0.saturating_sub(1),
            None => recovery.last.0,
        };
        let proven = writer.proven().map(Arc::downgrade).unwrap_or_default();
        let shared = Shared {
            place,
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
        let identity = self.shared.place.identity;
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

impl OldFiles {
    /// Takes note that a segment is no longer of the log.
    pub(crate) fn retire(&mut self, segment: &Arc<Segment>) {
        self.retired.retain(|segment| segment.strong_count() > 0);
        self.retired.push(Arc::downgrade(segment));
    }

    /// Bytes of files without a name that somebody has open.
    fn held_bytes(&self) -> u64 {
        let held = self.retired.iter().filter_map(Weak::upgrade);
        held.map(|segment| segment.file_bytes()).sum()
    }
}

impl Shared {
    /// While the guard is held no segment is dropped or compacted.
    pub(crate) fn keep_segments(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// Ends the block being filled; returns the position of the last record.
    pub(crate) fn cut(&self) -> Position {
        let mut pending = self.pending.lock();
        pending.close_block();
        Position(pending.next().0 - 1)
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

    /// Changes the list of segments in one step.
    pub(crate) fn change_segments(&self, change: impl Fn(&mut Vec<Arc<Segment>>)) {
        self.segments.rcu(|segments| {
            let mut segments = Vec::clone(segments);
            change(&mut segments);
            segments
        });
    }

    fn check_healthy(&self) -> Result<()> {
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

    /// Takes no more writes: `error` left the newest file in an unknown state.
    fn poison(&self, error: Error) -> Error {
        if !seeded(Bug::FailedSyncForgotten) {
            self.poisoned.store(true, Ordering::Release);
        }
        error
    }

    /// Writes full blocks out, if there are any: at once if no other thread is writing, else only
    /// when there are many.
    fn write_out_full(&self) -> Result<()> {
        let full_bytes = {
            let pending = self.pending.lock();
            self.check_open(&pending)?;
            pending.full_bytes()
        };
        if full_bytes == 0 {
            return Ok(());
        }
        let writer = if full_bytes >= self.options.pending_bytes_max {
            Some(self.writer.lock())
        } else {
            self.writer.try_lock()
        };
        match writer {
            Some(mut writer) => {
                self.check_open(&self.pending.lock())?;
                self.write_out(&mut writer)
            }
            None => Ok(()),
        }
    }

    /// Writes full blocks to the newest segment.
    fn write_out(&self, writer: &mut Writer) -> Result<()> {
        let blocks = self.pending.lock().full();
        let Some(last) = blocks.last().map(|block| block.last()) else {
            return Ok(());
        };
        let file_bytes = writer.write(&blocks).map_err(|error| self.poison(error))?;
        // Readers look here first, then at what is pending: a record is always in one of them.
        self.written.store(last.0, Ordering::Release);
        self.pending.lock().written(blocks.len(), file_bytes);
        Ok(())
    }

    /// Writes everything accepted so far to the newest segment, and makes it durable.
    fn sync_all(&self, writer: &mut Writer) -> Result<()> {
        let unsynced = self.write_all(writer)?;
        self.make_durable(unsynced)
    }

    /// Writes everything accepted so far to the newest segment, and says what of it is still to be
    /// made durable.
    fn write_all(&self, writer: &mut Writer) -> Result<Option<Unsynced>> {
        if self.secure(writer, 0)? {
            return Ok(None);
        }
        let upto = {
            let mut pending = self.pending.lock();
            pending.close_block();
            pending.next().0 - 1
        };
        self.write_out(writer)?;
        let is_new = upto > self.durable.load(Ordering::Acquire);
        let unsynced = writer.unsynced().filter(|_| is_new);
        Ok(unsynced.map(|(syncer, bytes)| Unsynced {
            syncer,
            bytes,
            upto,
        }))
    }

    /// Makes what was written durable. Without the writer's lock, more is written meanwhile, and a
    /// later sync may be through first.
    fn make_durable(&self, unsynced: Option<Unsynced>) -> Result<()> {
        let Some(Unsynced {
            syncer,
            bytes,
            upto,
        }) = unsynced
        else {
            return Ok(());
        };
        if seeded(Bug::DurableBeforeSync) {
            self.durable.fetch_max(upto, Ordering::AcqRel);
        }
        self.name_newest()?;
        self.sync_older()
            .and_then(|()| syncer.sync(bytes))
            .map_err(|error| self.poison(error))?;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.durable.fetch_max(upto, Ordering::AcqRel);
        Ok(())
    }

    /// Gives the newest segment its name, if it has none yet. Done before anything in it is called
    /// durable, and before the next one is begun.
    pub(crate) fn name_newest(&self) -> Result<()> {
        let mut unnamed = self.unnamed.lock();
        self.naming_due.store(false, Ordering::Relaxed);
        if let Some(segment) = &*unnamed {
            let named = self.place.name(segment);
            named.map_err(|failed| self.not_created(failed))?;
        }
        *unnamed = None;
        Ok(())
    }

    /// Makes the segments durable that were left behind when they were not. Done before the newest
    /// is, so that a block of that one, which says that more of it is durable, proves that they
    /// are.
    fn sync_older(&self) -> Result<()> {
        if !self.options.rotate_unsynced {
            return Ok(());
        }
        let segments = self.segments.load_full();
        segments.iter().try_for_each(|segment| segment.sync())
    }

    /// Reserves room on disk for `need` more bytes of records, in a new segment if the newest is
    /// full. Changes nothing that a caller can see, whether it fails or not.
    fn make_room(&self, need: u64) -> Result<()> {
        let mut writer = self.writer.lock();
        let (claimed, next) = {
            let pending = self.pending.lock();
            self.check_open(&pending)?;
            (pending.claimed(), pending.next())
        };
        if self.secure(&mut writer, need)? {
            return Ok(());
        }
        if !writer.is_open() || writer.is_full(claimed, next) {
            return self.begin_segment(&mut writer, need, true);
        }
        let reserved = writer.reserve(claimed, need)?;
        self.pending.lock().set_reserved(reserved);
        Ok(())
    }

    /// Reserves room for more than is claimed, in the newest segment as long as it is not full.
    fn reserve_ahead(&self, writer: &mut Writer) -> Result<()> {
        let (claimed, next, reserved) = {
            let pending = self.pending.lock();
            (pending.claimed(), pending.next(), pending.reserved())
        };
        let plenty = reserved.saturating_sub(claimed) >= self.options.reserve_bytes / 2;
        if plenty || !writer.is_open() || writer.is_full(claimed, next) {
            return Ok(());
        }
        match writer.reserve(claimed, 0) {
            Ok(reserved) => self.pending.lock().raise_reserved(reserved),
            Err(error) if error.kind() == ErrorKind::NoSpace => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Makes durable what recovery found and had no room to, if there is any: with room for `need`
    /// bytes of records after it. Nothing was appended before that.
    fn secure(&self, writer: &mut Writer, need: u64) -> Result<bool> {
        let secured = writer.secure(need).map_err(|failed| match failed.named {
            true => self.not_created(failed),
            false => Error::NotSecured(Box::new(failed.error)),
        })?;
        let Some(Secured { segments, reserved }) = secured else {
            return Ok(false);
        };
        let blocks = writer.segment().index().read().entries().len();
        self.change_segments(|listed| {
            listed.pop();
            listed.extend(segments.iter().cloned());
        });
        self.durable.store(self.last().0, Ordering::Release);
        self.begin_pending(blocks, reserved);
        Ok(true)
    }

    fn not_created(&self, failed: NotCreated) -> Error {
        match failed.named {
            // A later attempt would make a segment of another base, and leave this one as a
            // duplicate.
            true => self.poison(failed.error),
            false => failed.error,
        }
    }

    /// Makes sure that there is room for the newest segment's footer, as there is once anything was
    /// accepted.
    fn reserve_footer(&self, writer: &mut Writer) -> Result<()> {
        let (claimed, reserved) = {
            let pending = self.pending.lock();
            (pending.claimed(), pending.reserved())
        };
        if writer.is_open() && reserved < claimed {
            writer.reserve(claimed, 0)?;
        }
        Ok(())
    }

    /// Goes over to a new segment with room for `need` bytes of records; one in the place of the
    /// present, if that is small and was closed, and `carry` says so.
    pub(crate) fn begin_segment(&self, writer: &mut Writer, need: u64, carry: bool) -> Result<()> {
        self.name_newest()?;
        self.pending.lock().freeze();
        if self.options.rotate_unsynced {
            self.write_all(writer)?;
        } else {
            self.sync_all(writer)?;
        }
        let durable = self.durable.load(Ordering::Acquire) >= self.last().0;
        // One that recovery left for appending has none reserved; a full disk is told before
        // anything is begun.
        self.reserve_footer(writer)?;
        let next = self.last().next();
        let new = writer
            .create_next(next, need, carry, durable)
            .map_err(|failed| self.not_created(failed))?;
        *self.unnamed.lock() = (!durable).then(|| Unnamed::new(&new));
        let (segment, reserved) = (new.segment.clone(), new.reserved);
        let replaces = segment.base() == writer.segment().base();
        writer
            .go_over(new, durable)
            .map_err(|error| self.poison(error))?;
        let blocks = segment.index().read().entries().len();
        self.change_segments(|segments| {
            if replaces {
                segments.pop();
            }
            segments.push(segment.clone());
        });
        self.begin_pending(blocks, reserved);
        self.naming_due.store(!durable, Ordering::Relaxed);
        self.training_due.store(true, Ordering::Release);
        Ok(())
    }

    /// Goes over to the newest segment, of `blocks` blocks, with so many bytes of room.
    fn begin_pending(&self, blocks: usize, reserved: u64) {
        let block_bytes = self.place.making.lock().block_bytes;
        let mut pending = self.pending.lock();
        pending.begin_segment(blocks, reserved, block_bytes);
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

    fn is_pending(&self, position: Position) -> bool {
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
