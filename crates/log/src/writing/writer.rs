//! Writes the file of the newest segment: its blocks, its footer, and the rotation to the next
//! segment.
//!
//! # Rotation to a new segment
//! 1. Sync the old segment. Its records are then durable before the name of the successor exists,
//!    so a segment with a successor has no torn tail.
//! 2. Create the new segment, durable with its name. If that fails, nothing has changed.
//! 3. Write the footer of the old segment, which seals it. A crash before the footer is durable
//!    leaves a segment without one. Recovery then reads its blocks, finds all its records, and
//!    writes the footer.
//!
//! A log that [rotates unsynced](LogOptions::rotate_unsynced) does 1 and 3 only if all its records
//! were durable already: see `unsynced.rs`.

use crate::directory::LogDirectory;
use crate::format::footer;
use crate::format::footer::footer_bytes;
use crate::format::records::RecordBlock;
use crate::options::SEGMENT_RECORDS_MAX;
use crate::options::WRITE_BYTES;
use crate::reading::segment::Segment;
use crate::writing::create::{CarriedBlocks, NewSegment, NotCreated};
use crate::writing::newest::{Newest, UnprovenTail};
use crate::writing::syncer::Syncer;
use crate::{Error, ErrorKind, LogOptions, Result};
use quire_env::AppendFile;
use quire_model::Position;
use quire_pack::Packer;
use quire_seeded::{Bug, seeded};
use std::sync::Arc;

/// A closed segment smaller than this is carried over into the next one. So a log that is opened
/// often, for a few records each time, does not become thousands of files.
const CARRY_BYTES_MAX: u64 = 1 << 20;

/// At most one part in this many of the free space of a disk is reserved ahead: its other logs need
/// some too.
const FREE_SHARE: u64 = 8;

/// A new segment reserves this many bytes ahead; a larger one as many as it has.
const RESERVE_BYTES_FIRST: u64 = 64 << 10;

/// The segments that replace one with an unproven tail. All their records are durable.
pub(crate) struct Secured {
    /// At least one segment.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Bytes of space reserved past the end of the last one.
    pub(crate) reserved: u64,
}

/// Writes the newest segment. An error leaves the file in an unknown state, unless a method says
/// otherwise.
#[derive(Debug)]
pub(crate) struct Writer {
    directory: LogDirectory,
    options: LogOptions,
    segment: Arc<Segment>,
    /// `None` while the newest segment is one that an earlier opening wrote: the first append
    /// rotates to a new one.
    file: Option<Box<dyn AppendFile>>,
    /// Of that file.
    syncer: Option<Arc<Syncer>>,
    /// Of that file.
    packer: Packer,
    /// The blocks of the newest segment that are not proven durable; an earlier opening wrote them.
    /// `file` is `None` then.
    unproven: Option<UnprovenTail>,
    encoded: Vec<u8>,
}

impl Writer {
    /// Continues after `newest`.
    pub(crate) fn new(directory: LogDirectory, options: LogOptions, newest: Newest) -> Writer {
        Writer {
            directory,
            options,
            segment: newest.segment,
            file: newest.file,
            syncer: newest.syncer,
            packer: newest.packer,
            unproven: newest.unproven,
            encoded: Vec::new(),
        }
    }

    /// The newest segment.
    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Whether the file is open for appending.
    pub(crate) fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// Position of the first record that was found at opening and is not proven durable.
    pub(crate) fn first_unproven(&self) -> Option<Position> {
        self.unproven.as_ref().map(UnprovenTail::first)
    }

    /// The newest segment without its unproven tail, if both will be segments of the log.
    pub(crate) fn proven(&self) -> Option<&Arc<Segment>> {
        self.unproven.as_ref()?.proven()
    }

    /// Carries the unproven tail over to a new segment, with space for `need` bytes of records, and
    /// switches to it. Returns the segments that replace the present one and the reserved bytes;
    /// `None` if there is no unproven tail. After an error nothing has changed, unless the new
    /// segment may have its name.
    pub(crate) fn secure(&mut self, need: u64) -> std::result::Result<Option<Secured>, NotCreated> {
        let Some(unproven) = &self.unproven else {
            return Ok(None);
        };
        let new = unproven.carry_over(&self.directory, &mut |file, blocks| {
            self.reserve_in(file, footer_bytes(blocks), need)
        })?;
        // Readers may use the rest of the old file: the next opening cuts it off, and writes the
        // footer.
        let segments = unproven.proven().into_iter().chain([&new.segment]);
        let secured = Secured {
            segments: segments.cloned().collect(),
            reserved: new.reserved,
        };
        self.unproven = None;
        self.write_to(new);
        Ok(Some(secured))
    }

    /// Whether the segment is to be sealed, with `claimed` bytes pending and `next` the next
    /// position of the log.
    pub(crate) fn is_full(&self, claimed: u64, next: Position) -> bool {
        let records = next.0.saturating_sub(self.segment.base().0);
        let bytes = self.segment.index().read().end().saturating_add(claimed);
        records > 0 && (bytes >= self.options.segment_bytes || records >= SEGMENT_RECORDS_MAX)
    }

    /// Reserves space past the end of the file: `claimed` bytes, and at least `need` more. Returns
    /// the bytes reserved in all. After an error the space reserved before stays.
    pub(crate) fn reserve(&mut self, claimed: u64, need: u64) -> Result<u64> {
        let Some(mut file) = self.file.take() else {
            return Err(Error::Closed);
        };
        let reserved = self.reserve_in(file.as_mut(), claimed, need);
        self.file = Some(file);
        reserved
    }

    /// Appends blocks, makes them readable, and returns the number of bytes that they took in the
    /// file.
    pub(crate) fn write(&mut self, blocks: &[RecordBlock]) -> Result<u64> {
        let Some(file) = &mut self.file else {
            return Err(Error::Closed);
        };
        let before = file.len();
        let durable = self.syncer.as_ref().map_or(0, |syncer| syncer.durable());
        let mut ready = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            let offset = file.len() + self.encoded.len() as u64;
            let (packer, salt) = (&mut self.packer, self.segment.salt());
            let durable = match seeded(Bug::DurableOffsetTooFar) {
                true => offset,
                false => durable,
            };
            let length = block.encode(packer, durable, salt, offset, &mut self.encoded);
            ready.push((block.records(), length as u64, block.payload().len() as u64));
            if self.encoded.len() >= WRITE_BYTES || at + 1 == blocks.len() {
                file.append(&self.encoded)?;
                self.encoded.clear();
                self.encoded.shrink_to(2 * WRITE_BYTES);
                let mut index = self.segment.index().write();
                for (records, length, raw_bytes) in ready.drain(..) {
                    let fits = index.push(records, length, raw_bytes);
                    assert!(fits, "a segment is sealed before it outgrows its index");
                }
                assert_eq!(
                    index.end(),
                    file.len(),
                    "the index of the newest segment ends where its file does"
                );
            }
        }
        self.segment.set_file_bytes(file.len());
        Ok(file.len() - before)
    }

    /// The syncer of the file, and the number of bytes that it has to make durable; `None` if there
    /// is no file.
    pub(crate) fn unsynced(&self) -> Option<(Arc<Syncer>, u64)> {
        let (file, syncer) = (self.file.as_ref()?, self.syncer.as_ref()?);
        Some((Arc::clone(syncer), file.len()))
    }

    /// Creates the segment after the present one, with space for `need` bytes of records. It holds
    /// the records from `next` on. If the present segment is small and was closed, and `carry` says
    /// so, it replaces the present one and takes over its blocks. It is an unsynced segment unless
    /// all records so far are `durable`.
    pub(crate) fn create_next(
        &self,
        next: Position,
        need: u64,
        carry: bool,
        durable: bool,
    ) -> std::result::Result<NewSegment, NotCreated> {
        let mut make_room =
            |file: &mut dyn AppendFile, blocks| self.reserve_in(file, footer_bytes(blocks), need);
        if !durable {
            return self.directory.create_unsynced(next, &mut make_room);
        }
        if carry
            && !self.is_open()
            && !self.segment.is_compacted()
            && self.segment.file_bytes() < CARRY_BYTES_MAX
            && !self.is_full(0, next)
        {
            let (start, end) = {
                let index = self.segment.index().read();
                (index.start(), index.end())
            };
            let carried = CarriedBlocks {
                file: self.segment.file().clone(),
                salt: self.segment.salt(),
                start,
                end,
            };
            match self
                .directory
                .create(self.segment.base(), Some(&carried), &mut make_room)
            {
                // The present segment is damaged: it stays as it is, and new records go to another
                // one.
                Err(failed) if failed.error.kind() == ErrorKind::Corrupt => {}
                created => return created,
            }
        }
        self.directory.create(next, None, &mut make_room)
    }

    /// Rotates to `new`. Seals the present segment, if all its records are `durable` and `new` does
    /// not replace it.
    pub(crate) fn rotate_to(&mut self, new: NewSegment, durable: bool) -> Result<()> {
        assert!(
            new.segment.base() >= self.segment.base(),
            "bases of segments ascend"
        );
        if !durable {
            self.leave_unsynced()?;
        } else if new.segment.base() != self.segment.base() {
            self.seal()?;
        }
        self.write_to(new);
        Ok(())
    }

    /// Releases reserved space, and leaves the segment without a footer.
    fn leave_unsynced(&mut self) -> Result<()> {
        if let (Some(mut file), Some(syncer)) = (self.file.take(), self.syncer.take()) {
            let length = file.len();
            file.truncate(length)?;
            self.segment.leave_unsynced(syncer);
        }
        Ok(())
    }

    fn write_to(&mut self, new: NewSegment) {
        self.segment = new.segment;
        self.file = Some(new.file);
        self.syncer = Some(new.syncer);
        self.packer = new.packer;
    }

    /// Writes the footer of the segment if it has none, releases reserved space, and closes the
    /// file. All of the segment is synced.
    pub(crate) fn seal(&mut self) -> Result<()> {
        let segment = &self.segment;
        let (base, salt) = (segment.base(), segment.salt());
        let index = segment.index().read();
        let file_bytes = match self.file.take() {
            Some(file) => footer::write(file, &index, base, salt)?,
            None if segment.file_bytes() > index.end() => return Ok(()),
            // An earlier opening had no disk space for it.
            None => footer::write_if_room(
                self.directory.env.as_ref(),
                segment.path(),
                &index,
                base,
                salt,
            )?,
        };
        segment.set_file_bytes(file_bytes);
        Ok(())
    }

    /// Reserves `claimed` bytes and space for more. How much more is set by the options; it ends
    /// where the segment will be sealed, is at most a share of the free space of the disk, and is
    /// at least `need`.
    fn reserve_in(&self, file: &mut dyn AppendFile, claimed: u64, need: u64) -> Result<u64> {
        let options = &self.options;
        let enough = claimed.saturating_add(need);
        if seeded(Bug::RoomNotReserved) {
            return Ok(enough);
        }
        let left = options
            .segment_bytes
            .saturating_sub(file.len().saturating_add(claimed));
        // If the free space is unknown, the reservation itself says whether there is enough.
        let free = self.directory.env.free_bytes(&self.directory.dir);
        let free = free.unwrap_or(u64::MAX);
        // A segment that holds little mostly gets little: as much again as it has.
        let grown = file.len().saturating_add(claimed).max(RESERVE_BYTES_FIRST);
        let ahead = options.reserve_bytes.min(grown).min(left);
        let ahead = ahead.min(free / FREE_SHARE);
        let plenty = claimed.saturating_add(ahead.max(need));
        match file.reserve(plenty) {
            Ok(()) => Ok(plenty),
            Err(error) if error.kind() == quire_env::ErrorKind::NoSpace && enough < plenty => {
                file.reserve(enough)?;
                Ok(enough)
            }
            Err(error) => Err(error.into()),
        }
    }
}
