//! Forking: the records of sealed segments are dealt out to new logs, in one pass.
//!
//! Each new log has segments of the same positions as the forked one, written as a compaction
//! writes them: a record has the position that it had, and there is a gap where a record went to
//! another log, or to none. The forked log is only read.

use crate::compaction::compact::{Room, each_block};
use crate::compaction::output::Output;
use crate::directory::LogDirectory;
use crate::format::header::segment_path;
use crate::log::Log;
use crate::options::SEGMENT_RECORDS_MAX;
use crate::reading::segment::Segment;
use crate::{Error, LogIdentity, LogOptions, Result};
use bytes::Bytes;
use quire_env::{BlockCache, Env};
use quire_model::Position;
use std::path::PathBuf;
use std::sync::Arc;

/// A log that is to be made.
#[derive(Debug, Clone)]
pub struct ForkTarget {
    /// Its directory, which has no log.
    pub dir: PathBuf,
    /// Which log it is.
    pub identity: LogIdentity,
    /// How it is made.
    pub options: LogOptions,
}

/// Where a record goes, and what it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dealt {
    /// Which of the new logs gets it.
    pub target: usize,
    /// The record, which may be another than it was.
    pub record: Vec<u8>,
}

/// Deals out some records, in order: one answer for each; `None` for one that no log gets.
pub type Deal<'a, E> =
    &'a mut dyn FnMut(&[(Position, Bytes)]) -> std::result::Result<Vec<Option<Dealt>>, E>;

/// What a fork holds of a large block: the block, its records as they are dealt, in new blocks, and
/// these compressed.
const COPIES: u64 = 4;

impl Log {
    /// Makes logs of the records before `next`, which begins a segment: each goes to the log that
    /// `deal` says, under its position. A log that does not get the last of them has the record
    /// `held` there: all end right before `next`, and are durable when this returns. `room` is
    /// called for memory before a large block is read, while none is held. `stop` is called now and
    /// then; if it returns true, the work ends with false.
    ///
    /// Appends, compactions and drops go on meanwhile: what is forked are the segments of now.
    ///
    /// # Errors
    /// After any error the new logs are not whole: the error that `deal` returned;
    /// [`Error::Corrupt`] for a damaged block; [`Error::InvalidArgument`] if no segment begins at
    /// `next`; kind `NoSpace` if the disk is full.
    pub fn fork<E: From<Error>>(
        &self,
        next: Position,
        targets: &[ForkTarget],
        deal: Deal<'_, E>,
        held: &[u8],
        room: Room<'_>,
        stop: &dyn Fn() -> bool,
    ) -> std::result::Result<bool, E> {
        let segments = self.shared().segments.load_full();
        let count = segments.partition_point(|segment| segment.base() < next);
        let ends = segments
            .get(count)
            .is_some_and(|after| after.base() == next);
        if !ends {
            let what = format!("no segment begins at position {next}");
            return Err(Error::InvalidArgument(what).into());
        }
        let directories = targets.iter().map(|target| self.directory_of(target));
        let directories = directories.collect::<Result<Vec<_>>>()?;
        for pair in segments.windows(2).take(count) {
            let [segment, after] = pair else { continue };
            let held = (after.base() == next).then_some(held);
            let outputs = fork_segment(segment, after.base(), &directories, deal, room, stop)?;
            let Some(outputs) = outputs else {
                return Ok(false);
            };
            finish(outputs, after.base(), held)?;
        }
        for directory in &directories {
            end_with_empty_segment(directory, next)?;
        }
        Ok(true)
    }

    /// Makes a log that has one record, at this position: as if a compaction had removed all before
    /// it. Durable when this returns.
    ///
    /// # Errors
    /// Kind `NoSpace` if the disk is full; else those of the machine. What was made is then of no
    /// use.
    pub fn create_at(
        env: &Arc<dyn Env>,
        cache: &Arc<BlockCache>,
        target: &ForkTarget,
        position: Position,
        record: &[u8],
    ) -> Result<()> {
        let directory = make_directory(env, cache, target)?;
        let next = position.next();
        let mut base = Position(1);
        while base < next {
            let after = Position(base.0.saturating_add(SEGMENT_RECORDS_MAX)).min(next);
            let file = directory.create_temporary(&segment_path(&directory.dir, base))?;
            let output = Output::begin(&directory, file, base, after)?;
            finish(vec![output], after, (after == next).then_some(record))?;
            base = after;
        }
        end_with_empty_segment(&directory, next)
    }

    fn directory_of(&self, target: &ForkTarget) -> Result<LogDirectory> {
        let ours = &self.shared().directory;
        make_directory(&ours.env, &ours.cache, target)
    }
}

fn make_directory(
    env: &Arc<dyn Env>,
    cache: &Arc<BlockCache>,
    target: &ForkTarget,
) -> Result<LogDirectory> {
    env.create_dir_all(&target.dir)?;
    Ok(LogDirectory::new(
        Arc::clone(env),
        &target.dir,
        target.identity,
        Arc::clone(cache),
        &target.options,
    ))
}

/// Ends a new log with a segment that begins at `next`: a compacted one has a successor always.
fn end_with_empty_segment(directory: &LogDirectory, next: Position) -> Result<()> {
    let made = directory.create(next, None, &mut |_, _| Ok(0));
    made.map_err(|failed| failed.error)?;
    directory.sync_names()
}

/// Deals out the records of one segment, after which `next` comes. Returns the new segments, which
/// are not finished; `None` if it was stopped.
fn fork_segment<'a, E: From<Error>>(
    segment: &Segment,
    next: Position,
    directories: &'a [LogDirectory],
    deal: Deal<'_, E>,
    room: Room<'_>,
    stop: &dyn Fn() -> bool,
) -> std::result::Result<Option<Vec<Output<'a>>>, E> {
    let base = segment.base();
    let mut outputs = Vec::with_capacity(directories.len());
    for directory in directories {
        let file = directory.create_temporary(&segment_path(&directory.dir, base))?;
        outputs.push(Output::begin(directory, file, base, next)?);
    }
    let whole = each_block::<E>(segment, COPIES, room, stop, &mut |records, is_large| {
        let dealt = deal(records)?;
        assert_eq!(
            dealt.len(),
            records.len(),
            "a fork gets one answer for each record"
        );
        for ((position, _), dealt) in records.iter().zip(dealt) {
            if let Some(Dealt { target, record }) = dealt {
                let output = outputs.get_mut(target);
                let what = || Error::InvalidArgument(format!("there is no log {target}"));
                output.ok_or_else(what)?.push(*position, &record)?;
            }
        }
        if is_large {
            for output in &mut outputs {
                output.end_block()?;
                output.write_out()?;
            }
        }
        Ok(())
    })?;
    Ok(whole.then_some(outputs))
}

/// Finishes segments after which `next` comes; `held` is the record at their last position, if they
/// are the last ones and have no other there.
fn finish(outputs: Vec<Output<'_>>, next: Position, held: Option<&[u8]>) -> Result<()> {
    for mut output in outputs {
        if let Some(held) = held
            && output.next() < next
        {
            output.push(Position(next.0 - 1), held)?;
        }
        output.finish(next, 0)?;
    }
    Ok(())
}
