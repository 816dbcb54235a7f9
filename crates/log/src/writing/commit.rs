//! Group commit: from records that were accepted to records that are durable. It writes pending
//! blocks, syncs the newest segment, reserves disk space, and rotates to new segments.
//!
//! The caller holds the writer lock wherever a `Writer` is passed. `pending` is locked only for a
//! moment, and never during I/O.

use crate::error::{Error, ErrorKind, Result};
use crate::shared::Shared;
use crate::writing::create::{NotCreated, Unnamed};
use crate::writing::syncer::Syncer;
use crate::writing::writer::{Secured, Writer};
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Blocks that were written to a segment and are not durable yet.
pub(crate) struct Unsynced {
    syncer: Arc<Syncer>,
    /// The number of bytes of its file that must be durable,
    bytes: u64,
    /// and the last record in them.
    upto: u64,
}

impl Shared {
    /// Ends the block that is being filled, and returns the position of the last record.
    pub(crate) fn cut(&self) -> Position {
        let mut pending = self.pending.lock();
        pending.close_block();
        Position(pending.next().0 - 1)
    }

    /// Writes the full blocks, if there are any. If another thread is writing, it waits for that
    /// thread only when many bytes are pending.
    pub(crate) fn write_out_full(&self) -> Result<()> {
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
    pub(crate) fn write_out(&self, writer: &mut Writer) -> Result<()> {
        let blocks = self.pending.lock().full();
        let Some(last) = blocks.last().map(|block| block.last()) else {
            return Ok(());
        };
        let file_bytes = writer.write(&blocks).map_err(|error| self.poison(error))?;
        // Readers check `written` first, then the pending records: a record is always in one of the
        // two places.
        assert!(
            last.0 > self.written.load(Ordering::Acquire),
            "blocks are written in order of position, once"
        );
        self.written.store(last.0, Ordering::Release);
        self.pending.lock().written(blocks.len(), file_bytes);
        Ok(())
    }

    /// Writes everything accepted so far to the newest segment, and makes it durable.
    pub(crate) fn sync_all(&self, writer: &mut Writer) -> Result<()> {
        let unsynced = self.write_all(writer)?;
        self.make_durable(unsynced)
    }

    /// Writes everything accepted so far to the newest segment, and returns what of it is not
    /// durable yet.
    pub(crate) fn write_all(&self, writer: &mut Writer) -> Result<Option<Unsynced>> {
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

    /// Makes what was written durable. The caller need not hold the writer lock: then more is
    /// written meanwhile, and a later sync may finish first.
    pub(crate) fn make_durable(&self, unsynced: Option<Unsynced>) -> Result<()> {
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
        let note_end = || match self.options.rotate_unsynced {
            true => Ok(()),
            false => self.end.lock().note(&self.directory, Position(upto)),
        };
        if seeded(Bug::EndOfLogEarly) {
            note_end()?;
        }
        self.sync_older()
            .and_then(|()| syncer.sync(bytes))
            .and_then(|()| note_end())
            .map_err(|error| self.poison(error))?;
        assert!(
            upto <= self.written.load(Ordering::Acquire),
            "a durable record is in a segment"
        );
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.durable.fetch_max(upto, Ordering::AcqRel);
        Ok(())
    }

    /// Makes the file of the end-of-log record, before the first record of this opening is accepted.
    /// A log that rotates unsynced does without; but one that was closed says that it is not.
    fn prepare_end(&self) -> Result<()> {
        let mut end = self.end.lock();
        match self.options.rotate_unsynced && !end.is_closed() {
            true => Ok(()),
            false => end.prepare(
                &self.directory,
                Position(self.durable.load(Ordering::Acquire)),
            ),
        }
    }

    /// Notes that the log was closed, if its newest segment has its footer.
    pub(crate) fn note_closed(&self, writer: &Writer) -> Result<()> {
        let segment = writer.segment();
        let has_footer = segment.file_bytes() > segment.index().read().end();
        match has_footer && !self.options.rotate_unsynced {
            true => self
                .end
                .lock()
                .close(&self.directory, self.last(), segment.base()),
            false => Ok(()),
        }
    }

    /// Gives the newest segment its name, if it has none yet. Called before any of its records
    /// counts as durable, and before the log rotates again.
    pub(crate) fn name_newest(&self) -> Result<()> {
        let mut unnamed = self.unnamed.lock();
        self.naming_due.store(false, Ordering::Relaxed);
        if let Some(segment) = &*unnamed {
            let named = self.directory.name(segment);
            named.map_err(|failed| self.not_created(failed))?;
        }
        *unnamed = None;
        Ok(())
    }

    /// Makes the older segments durable that the log rotated from before they were. Called before
    /// the newest segment is synced: then a block there that says that more of the file is durable
    /// proves it of the older segments too.
    fn sync_older(&self) -> Result<()> {
        if !self.options.rotate_unsynced {
            return Ok(());
        }
        let segments = self.segments.load_full();
        segments.iter().try_for_each(|segment| segment.sync())
    }

    /// Reserves disk space for `need` more bytes of records, in a new segment if the newest is
    /// full. Changes nothing that a caller can see, whether it succeeds or not.
    pub(crate) fn make_room(&self, need: u64) -> Result<()> {
        let mut writer = self.writer.lock();
        let (claimed, next) = {
            let pending = self.pending.lock();
            self.check_open(&pending)?;
            (pending.claimed(), pending.next())
        };
        self.prepare_end()?;
        if self.secure(&mut writer, need)? {
            return Ok(());
        }
        if !writer.is_open() || writer.is_full(claimed, next) {
            return self.rotate(&mut writer, need, true);
        }
        let reserved = writer.reserve(claimed, need)?;
        self.pending.lock().set_reserved(reserved);
        Ok(())
    }

    /// Reserves disk space ahead in the newest segment, unless that is full.
    pub(crate) fn reserve_ahead(&self, writer: &mut Writer) -> Result<()> {
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

    /// Makes the unproven tail that recovery found durable, if there is one, with space for `need`
    /// bytes of records after it. Nothing is appended before that.
    pub(crate) fn secure(&self, writer: &mut Writer, need: u64) -> Result<bool> {
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
            // A later attempt would create a segment with another base, and leave this one as a
            // duplicate.
            true => self.poison(failed.error),
            false => failed.error,
        }
    }

    /// Reserves space for the footer of the newest segment, if none is reserved: nothing was
    /// accepted then.
    pub(crate) fn reserve_footer(&self, writer: &mut Writer) -> Result<()> {
        let (claimed, reserved) = {
            let pending = self.pending.lock();
            (pending.claimed(), pending.reserved())
        };
        if writer.is_open() && reserved < claimed {
            writer.reserve(claimed, 0)?;
        }
        Ok(())
    }

    /// Rotates to a new segment with space for `need` bytes of records. It replaces the present one
    /// if that is small and was closed, and `carry` says so.
    pub(crate) fn rotate(&self, writer: &mut Writer, need: u64, carry: bool) -> Result<()> {
        self.name_newest()?;
        self.pending.lock().freeze();
        if self.options.rotate_unsynced {
            self.write_all(writer)?;
        } else {
            self.sync_all(writer)?;
        }
        let durable = self.durable.load(Ordering::Acquire) >= self.last().0;
        assert_eq!(
            self.written.load(Ordering::Acquire),
            self.last().0,
            "a log rotates when nothing is pending"
        );
        // A segment that recovery left for appending has no reserved space. A full disk is reported
        // before anything is begun.
        self.reserve_footer(writer)?;
        let next = self.last().next();
        let new = writer
            .create_next(next, need, carry, durable)
            .map_err(|failed| self.not_created(failed))?;
        *self.unnamed.lock() = (!durable).then(|| Unnamed::new(&new));
        let (segment, reserved) = (new.segment.clone(), new.reserved);
        let replaces = segment.base() == writer.segment().base();
        writer
            .rotate_to(new, durable)
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

    /// Accepts records for the newest segment from now on, which has `blocks` blocks and `reserved`
    /// bytes of space.
    fn begin_pending(&self, blocks: usize, reserved: u64) {
        let block_bytes = self.directory.settings.lock().block_bytes;
        let mut pending = self.pending.lock();
        pending.begin_segment(blocks, reserved, block_bytes);
    }
}
