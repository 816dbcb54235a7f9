//! Old segments: compaction rewrites them without the records that are no longer needed, and drops
//! remove them.
//!
//! # Compaction keeps positions
//! Neighbouring sealed segments are rewritten as one segment for all their positions. It holds the
//! records that the caller says are needed, under their old positions. Where a record was removed
//! there is a gap.
//!
//! # The swap
//! 1. Write the new segment under a temporary name, with its footer, and sync it. A crash leaves a
//!    file that the next opening removes.
//! 2. Rename it over the first of the old segments. Both are whole, and the header of the new one
//!    says which positions it holds: any other segment among them is a leftover.
//! 3. Sync the directory. If that fails, no segment was removed: a crash keeps the old ones, or the
//!    new one with leftovers.
//! 4. Publish the new segment to readers. Views that read the old ones have them open.
//! 5. Remove the other old segments.

use crate::compaction::info::SegmentInfo;
use crate::compaction::output::Output;
use crate::directory::temporary_path;
use crate::format::block::BlockKind;
use crate::format::header::segment_path;
use crate::format::index::BlockIndex;
use crate::format::records::RecordBlock;
use crate::log::Log;
use crate::reading::segment::Segment;
use crate::reading::segment::segment_of;
use crate::reading::walk::{BlockWalk, Step};
use crate::shared::Shared;
use crate::{Error, Result};
use bytes::Bytes;
use quire_env::Charge;
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::path::Path;
use std::sync::Arc;

/// Says which of some records are needed: one answer for each.
pub type Keep<'a, E> = &'a mut dyn FnMut(&[(Position, Bytes)]) -> std::result::Result<Vec<bool>, E>;

/// Reserves bytes of memory for a large block, waiting for them.
pub type Room<'a> = &'a dyn Fn(u64) -> Charge;

/// A block that is larger has its memory reserved before it is read.
const LARGE_BLOCK_BYTES: usize = 1 << 20;

/// What a compaction holds of a large block: the block, its records in the new one, and that
/// compressed.
const COPIES: u64 = 3;

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Compacted {
    /// Records removed.
    pub records: u64,
    /// Their bytes, before compression.
    pub record_bytes: u64,
    /// Bytes of the files before.
    pub file_bytes_before: u64,
    /// Bytes of the new file.
    pub file_bytes_after: u64,
}

impl Log {
    /// The segments, oldest first. An unproven tail counts as a segment of its own already.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let proven = self.shared.proven.upgrade();
        let segments = self.shared.segments.load_full();
        let infos = segments.iter().enumerate();
        let infos = infos.map(|(at, segment)| SegmentInfo::new(segment, at + 1 < segments.len()));
        let mut infos: Vec<SegmentInfo> = infos.collect();
        if let Some(proven) = proven
            && let Some(newest) = infos.pop_if(|newest| newest.base == proven.base())
        {
            let first = SegmentInfo::new(&proven, false);
            infos.extend([first, newest.without(&first)]);
        }
        infos
    }

    /// The base of the segment that holds an accepted record, or that will hold it once it is
    /// written or carried over.
    ///
    /// # Errors
    /// [`Error::Dropped`] before the first.
    pub fn segment_base(&self, position: Position) -> Result<Position> {
        let base = segment_of(&self.shared.segments.load(), position)?.base();
        if let Some(proven) = self.shared.proven.upgrade()
            && proven.base() == base
        {
            let next = proven.index().read().next();
            return Ok(if position < next { base } else { next });
        }
        Ok(base)
    }

    /// Rotates to a new segment, so that all records so far are in sealed ones. Does nothing if the
    /// newest segment has no records.
    ///
    /// # Errors
    /// As of [`append`](Log::append).
    pub fn rotate(&self) -> Result<()> {
        let shared = &*self.shared;
        let mut writer = shared.writer.lock();
        let next = {
            let pending = shared.pending.lock();
            shared.check_open(&pending)?;
            pending.next()
        };
        if next == writer.segment().base() {
            return Ok(());
        }
        shared.rotate(&mut writer, 0, false)
    }

    /// Rewrites the sealed segments that hold the positions from `from` up to `next` as one
    /// segment, with the records that `keep` says are needed. `keep` gets the records in order,
    /// some at a time, and answers for each. `room` is called for memory before a large block is
    /// read, while none is held. `stop` is called now and then; if it returns true, the work ends
    /// with `None`, and nothing has changed.
    ///
    /// All these records must be durable, and so must the records that make others obsolete.
    ///
    /// # Errors
    /// After any error nothing has changed: the error that `keep` returned, [`Error::Corrupt`] for
    /// a damaged block, [`Error::InvalidArgument`] if the segments do not exist or are not sealed,
    /// kind `NoSpace` if the disk is full.
    pub fn compact<E: From<Error>>(
        &self,
        from: Position,
        next: Position,
        keep: Keep<'_, E>,
        room: Room<'_>,
        stop: &dyn Fn() -> bool,
    ) -> std::result::Result<Option<Compacted>, E> {
        let shared = &*self.shared;
        let _changing = shared.changing.lock();
        shared.check_open(&shared.pending.lock())?;
        shared.remove_leftovers()?;
        let inputs = shared.sealed(from, next)?;
        let temporary = temporary_path(&segment_path(&shared.directory.dir, from));
        let compacted = match shared.write_compacted(&temporary, &inputs, next, keep, room, stop) {
            Ok(Some((index, compacted))) => shared
                .swap(&temporary, &inputs, index, compacted)
                .map(Some)
                .map_err(E::from),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        if !matches!(compacted, Ok(Some(_))) {
            // It would take disk space. Nothing reads it, and the next opening removes it too.
            let _ = shared.directory.env.remove(&temporary);
        }
        compacted
    }

    /// Removes the segments whose positions are all before `position`, oldest first, but never the
    /// newest. Returns the bytes freed. Existing views and scans still read them.
    ///
    /// # Errors
    /// Segments removed before the error stay removed; the log is whole in any case.
    pub fn drop_before(&self, position: Position) -> Result<u64> {
        let shared = &*self.shared;
        let _changing = shared.changing.lock();
        // Without the segment that they were compacted into, leftovers would be taken for segments
        // of the log.
        shared.remove_leftovers()?;
        // If no segment had a name, the log would start at the first position again.
        shared.name_newest()?;
        let mut freed = 0;
        while let Some(segment) = shared.oldest_before(position) {
            shared.directory.env.remove(segment.path())?;
            // One at a time: if a crash undid the removal of an older segment and not that of a
            // newer one, the log would have a gap. And as long as a crash can undo the removal, a
            // sync makes the segment durable too: `unsynced.rs` relies on that.
            let removed = shared.directory.env.sync_dir(&shared.directory.dir);
            shared.change_segments(|segments| {
                segments.remove(0);
            });
            shared.old.lock().retire(&segment);
            removed?;
            freed += segment.file_bytes();
        }
        Ok(freed)
    }
}

impl Shared {
    /// The oldest segment, if all its positions are before `position` and it is not the newest.
    fn oldest_before(&self, position: Position) -> Option<Arc<Segment>> {
        let segments = self.segments.load();
        let successor = segments.get(1)?;
        (successor.base() <= position).then(|| segments.first().cloned())?
    }

    /// The sealed segments that hold exactly these positions.
    fn sealed(&self, from: Position, next: Position) -> Result<Vec<Arc<Segment>>> {
        let segments = self.segments.load();
        let (first, after) = (
            segments.partition_point(|segment| segment.base() < from),
            segments.partition_point(|segment| segment.base() < next),
        );
        let inputs = segments.get(first..after).unwrap_or_default();
        let begins = inputs.first().is_some_and(|input| input.base() == from);
        // The segment after them proves that they are sealed.
        let ends = segments
            .get(after)
            .is_some_and(|after| after.base() == next);
        if begins && ends && next.0 - from.0 < u64::from(u32::MAX) {
            Ok(inputs.to_vec())
        } else {
            Err(Error::InvalidArgument(format!(
                "no sealed segments hold exactly the positions from {from} up to {next}"
            )))
        }
    }

    /// Writes the segment that replaces `inputs`, whole and synced, at `path`.
    fn write_compacted<E: From<Error>>(
        &self,
        path: &Path,
        inputs: &[Arc<Segment>],
        next: Position,
        keep: Keep<'_, E>,
        room: Room<'_>,
        stop: &dyn Fn() -> bool,
    ) -> std::result::Result<Option<(BlockIndex, Compacted)>, E> {
        let base = inputs.first().map_or(next, |input| input.base());
        let file = self.directory.create_temporary(path)?;
        let mut output = Output::begin(&self.directory, file, base, next)?;
        let mut removed = Compacted::default();
        let mut removed_before = 0;
        if stop() {
            return Ok(None);
        }
        for input in inputs {
            removed.file_bytes_before += input.file_bytes();
            removed_before += input
                .index()
                .read()
                .compaction()
                .map_or(0, |compacted| compacted.removed_bytes);
            let whole = each_block::<E>(input, COPIES, room, stop, &mut |records, is_large| {
                let needed = keep(records)?;
                assert_eq!(
                    needed.len(),
                    records.len(),
                    "a compaction gets one answer for each record"
                );
                for ((position, record), needed) in records.iter().zip(needed) {
                    if needed {
                        output.push(*position, record)?;
                    } else {
                        removed.records += 1;
                        removed.record_bytes += record.len() as u64;
                    }
                }
                if is_large {
                    output.end_block()?;
                    output.write_out()?;
                }
                Ok(())
            })?;
            if !whole {
                return Ok(None);
            }
        }
        let index = output.finish(next, removed_before + removed.record_bytes)?;
        Ok(Some((index, removed)))
    }

    /// Replaces `inputs` by the segment written at `temporary`.
    fn swap(
        &self,
        temporary: &Path,
        inputs: &[Arc<Segment>],
        index: BlockIndex,
        mut compacted: Compacted,
    ) -> Result<Compacted> {
        let (env, dir) = (&self.directory.env, &self.directory.dir);
        let base = inputs.first().map_or(index.next(), |input| input.base());
        let path = segment_path(dir, base);
        if seeded(Bug::CompactedRemovedFirst) {
            for input in inputs.iter().filter(|input| input.base() != base) {
                env.remove(input.path())?;
            }
        }
        env.rename(temporary, &path)?;
        env.sync_dir(dir)?;
        let file = env.open_read(&path)?;
        compacted.file_bytes_after = file.len()?;
        let file_bytes = compacted.file_bytes_after;
        assert!(
            inputs.iter().all(|input| input.base() < index.next()),
            "a compacted segment keeps the positions of its inputs"
        );
        let segment = Arc::new(Segment::new(&self.directory, base, file, file_bytes, index));
        self.change_segments(|segments| {
            let first = segments.partition_point(|segment| segment.base() < base);
            let replaced = first..first + inputs.len();
            segments.splice(replaced, [segment.clone()]);
        });
        {
            let mut old = self.old.lock();
            for input in inputs {
                old.retire(input);
                if input.base() != base {
                    old.leftovers.push(input.path().to_path_buf());
                }
            }
        }
        // Files that can't be removed now are removed before the next change of old segments, or at
        // the next opening.
        let _ = self.remove_leftovers();
        Ok(compacted)
    }

    /// Removes the files that were compacted into another one. The caller holds `changing`.
    fn remove_leftovers(&self) -> Result<()> {
        let leftovers = self.old.lock().leftovers.clone();
        if leftovers.is_empty() {
            return Ok(());
        }
        for path in leftovers {
            match self.directory.env.remove(&path) {
                Err(error) if error.kind() != quire_env::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                _ => self.old.lock().leftovers.retain(|other| *other != path),
            }
        }
        Ok(self.directory.env.sync_dir(&self.directory.dir)?)
    }
}

/// What is done with the records of a block, which may be a large one.
pub(super) type Act<'a, E> =
    &'a mut dyn FnMut(&[(Position, Bytes)], bool) -> std::result::Result<(), E>;

/// Calls `act` with the records of each block of a segment, in order. While it has a large block,
/// `room` has reserved `copies` times its bytes. Returns whether it was not stopped.
pub(super) fn each_block<E: From<Error>>(
    segment: &Segment,
    copies: u64,
    room: Room<'_>,
    stop: &dyn Fn() -> bool,
    act: Act<'_, E>,
) -> std::result::Result<bool, E> {
    let (start, end) = {
        let index = segment.index().read();
        (index.start(), index.end())
    };
    let mut walk = BlockWalk::new(segment.file().clone(), segment.salt(), start, end);
    loop {
        let bytes = walk.next_block_bytes();
        let room = (bytes > LARGE_BLOCK_BYTES).then(|| room(copies * bytes as u64));
        let Some(block) = next_block(segment, &mut walk)? else {
            return Ok(true);
        };
        if stop() {
            return Ok(false);
        }
        act(&records_of(&block), room.is_some())?;
    }
}

/// The next block of records; `None` at the end.
fn next_block(segment: &Segment, walk: &mut BlockWalk) -> Result<Option<RecordBlock>> {
    let offset = walk.offset;
    let what = match walk.step()? {
        Step::End => return Ok(None),
        Step::Block(header, stored) if header.kind != BlockKind::Footer => {
            let dictionary = segment.dictionary_for(&header)?;
            match RecordBlock::decode(&header, stored, dictionary.map(Arc::as_ref)) {
                Ok(block) => return Ok(Some(block)),
                Err(fault) => fault.what,
            }
        }
        Step::Block(..) => "footer before the last block",
        Step::Fault(fault) => fault.what,
    };
    Err(Error::corrupt(segment.path(), offset, what, None))
}

fn records_of(block: &RecordBlock) -> Vec<(Position, Bytes)> {
    let mut next = block.first();
    let following = || {
        let (position, record) = block.next_record(next)?;
        next = position.next();
        Some((position, record))
    };
    std::iter::from_fn(following).collect()
}
