//! Recovery: opens a log. It finds the segments, what is in them, and what a crash left of the
//! newest.
//!
//! What is found, and what recovery does:
//! - A `.log.tmp` file that is an unsynced segment with records, after all others: the newest
//!   segment, which was to get its name. It gets its name.
//! - Any other `.log.tmp` file: a segment whose creation was cut short. It is removed.
//! - A segment whose records are all obsolete, as the owner says: it is removed.
//! - A segment among the positions of a compacted segment before it: it was compacted into that
//!   one, and is removed.
//! - A compacted segment without a whole footer: damage, for it was whole before it had its name.
//! - A segment with a successor and a whole footer: sealed. Its blocks are checked when they are
//!   read.
//! - A segment with a successor and no whole footer: it is read whole. If it holds every record up
//!   to its successor, only the footer was cut short or damaged, and is rewritten; else damage.
//! - Unsynced segments after a torn one, if nothing proves that the torn one was durable: not part
//!   of the log. They are removed (`unsynced.rs`).
//! - The newest segment, with a whole footer: closed. It is treated as a sealed one.
//! - The newest segment, without a whole footer: it is read whole. It ends at its first invalid
//!   block, if nothing proves that this block was durable, and before a group of records whose end
//!   is missing. Blocks not proven durable are carried over to a new segment; the rest is sealed.
//!
//! A block is proven durable if it lies below `born` of the segment header, or below `durable` of
//! any block, or if the end-of-log record says so of its last position. If the disk has no space to
//! carry the other blocks over, they are served as they are and the file is not changed: the first
//! sync or append of the log carries them over, or fails.

use crate::directory::{LogDirectory, TEMPORARY_SUFFIX};
use crate::end_of_log::{self, FoundEnd};
use crate::format::header::{parse_segment_name, read_header, segment_path};
use crate::reading::segment::Segment;
use crate::recovery::opening::{Opening, before, load_compacted};
use crate::recovery::unsynced;
use crate::writing::newest::Newest;
use crate::{Error, LogOptions, Result};
use quire_env::Env;
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::path::Path;
use std::sync::Arc;

/// What opening a log found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Position of the first record kept; one past `last` if there is none.
    pub first: Position,
    /// Position of the last record. The owner compares it with the last position that it relies on.
    pub last: Position,
    /// Bytes of a torn tail that were cut off.
    pub torn_bytes: u64,
    /// Sealed segments whose footer was missing or damaged, and whose records are all there.
    pub footers_rebuilt: u64,
}

/// The segments of a log, at least one, and how to continue with the newest.
pub(crate) struct Recovered {
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) newest: Newest,
    /// What the end-of-log record said.
    pub(crate) end: FoundEnd,
    pub(crate) recovery: Recovery,
}

/// Opens all segments of a log, and creates the first one if there is none. Everything in them is
/// durable afterwards, except an unproven tail. Records up to `obsolete` are not needed: a log that
/// ends before `obsolete` starts again after it.
pub(crate) fn recover(
    directory: &LogDirectory,
    options: &LogOptions,
    obsolete: Position,
) -> Result<Recovered> {
    directory.env.create_dir_all(&directory.dir)?;
    let bases = name_unnamed(directory)?;
    let bases = remove_leftovers(directory, bases)?;
    let bases = remove_obsolete(directory, bases, obsolete, options.obsolete_bytes_kept)?;
    let bases = remove_torn_off(directory, bases)?;

    let end = end_of_log::read(&*directory.env, &directory.dir, Some(directory.identity))?;
    let known = match end.last() > obsolete && !seeded(Bug::EndOfLogUnread) {
        true => end.last(),
        false => Position(0),
    };

    let mut opening = Opening {
        directory,
        known,
        segments: Vec::new(),
        torn_bytes: 0,
        footers_rebuilt: 0,
    };
    for pair in bases.windows(2) {
        if let [base, next_base] = pair {
            opening.sealed(*base, *next_base)?;
        }
    }
    let mut newest = match bases.last() {
        Some(base) => opening.newest(*base)?,
        None if known > Position(0) => {
            let what = "the segments of the log are missing";
            let lost = Some((obsolete.next(), known));
            return Err(Error::corrupt(&directory.dir, 0, what, lost));
        }
        None => begin(directory, obsolete)?,
    };
    if newest.segment.index().read().next() <= obsolete {
        // The records are durable elsewhere and not here, so no other records may follow these.
        let segments = std::mem::take(&mut opening.segments);
        for segment in segments.iter().chain([&newest.segment]) {
            remove_segment(directory, segment.base())?;
        }
        newest = begin(directory, obsolete)?;
    }
    opening.segments.push(newest.segment.clone());
    for pair in opening.segments.windows(2) {
        if let [segment, next] = pair {
            let end = segment.index().read().next();
            assert_eq!(
                end,
                next.base(),
                "recovered segments have no gap between them"
            );
        }
    }
    let recovery = Recovery {
        first: opening
            .segments
            .first()
            .map_or(obsolete.next(), |first| first.base()),
        last: before(newest.segment.index().read().next()),
        torn_bytes: opening.torn_bytes,
        footers_rebuilt: opening.footers_rebuilt,
    };
    Ok(Recovered {
        segments: opening.segments,
        newest,
        end,
        recovery,
    })
}

/// Gives the newest segment its name, if the process was killed before it did, and removes all
/// other temporary files. Returns the bases of the segments, whose names are durable.
fn name_unnamed(directory: &LogDirectory) -> Result<Vec<Position>> {
    let (env, dir) = (directory.env.as_ref(), directory.dir.as_path());
    let mut bases = list_segments(env, dir)?;
    for name in env.list(dir)? {
        if !name.ends_with(TEMPORARY_SUFFIX) {
            continue;
        }
        let path = dir.join(name);
        match unsynced::unnamed(directory, &path)? {
            Some(base) if bases.last().is_some_and(|newest| *newest < base) => {
                env.open_append(&path)?.sync()?;
                env.rename(&path, &segment_path(dir, base))?;
                bases.push(base);
            }
            _ => env.remove(&path)?,
        }
    }
    // Names that a killed process made may not be durable yet, and the next steps rely on them.
    if !seeded(Bug::FoundSegmentNameBelieved) {
        env.sync_dir(dir)?;
    }
    assert!(
        bases.is_sorted(),
        "segments are opened in order of position"
    );
    Ok(bases)
}

/// Removes the segments that hold only records up to `obsolete`, oldest first, as long as
/// `bytes_kept` are left; never the newest. Returns the bases of the others.
fn remove_obsolete(
    directory: &LogDirectory,
    mut bases: Vec<Position>,
    obsolete: Position,
    bytes_kept: u64,
) -> Result<Vec<Position>> {
    while let [first, second, ..] = bases[..]
        && second <= obsolete.next()
        && bytes_of(directory, bases.get(1..).unwrap_or_default())? >= bytes_kept
    {
        remove_segment(directory, first)?;
        bases.remove(0);
    }
    Ok(bases)
}

/// Bytes on disk of segments.
fn bytes_of(directory: &LogDirectory, bases: &[Position]) -> Result<u64> {
    let bytes = |base: &Position| {
        let file = directory
            .env
            .open_read(&segment_path(&directory.dir, *base))?;
        Ok(file.len()?)
    };
    bases.iter().map(bytes).sum()
}

/// Removes the segments after a torn one, which are not part of the log, newest first. Returns the
/// bases of the others.
fn remove_torn_off(directory: &LogDirectory, mut bases: Vec<Position>) -> Result<Vec<Position>> {
    let (env, dir) = (directory.env.as_ref(), directory.dir.as_path());
    let kept = unsynced::segments_kept(env, dir, Some(directory.identity), &bases)?;
    for torn_off in bases.drain(kept..).rev() {
        remove_segment(directory, torn_off)?;
    }
    Ok(bases)
}

/// Creates the first segment of a log whose records up to `obsolete` are not needed.
fn begin(directory: &LogDirectory, obsolete: Position) -> Result<Newest> {
    let made = directory.create(obsolete.next(), None, &mut |_, _| Ok(0));
    made.map(Newest::made).map_err(|failed| failed.error)
}

/// Removes a segment, durably: if a crash undid this removal and not that of the segment after it,
/// the log would have a gap.
fn remove_segment(directory: &LogDirectory, base: Position) -> Result<()> {
    directory.env.remove(&segment_path(&directory.dir, base))?;
    Ok(directory.env.sync_dir(&directory.dir)?)
}

/// Bases of the segments in a directory, ascending. Other files are ignored.
pub(crate) fn list_segments(env: &dyn Env, dir: &Path) -> Result<Vec<Position>> {
    let mut bases = Vec::new();
    for name in env.list(dir)? {
        bases.extend(parse_segment_name(dir, &name)?);
    }
    bases.sort_unstable();
    Ok(bases)
}

/// Removes the segments that were compacted into others, and returns the bases of the rest.
fn remove_leftovers(directory: &LogDirectory, bases: Vec<Position>) -> Result<Vec<Position>> {
    let (env, dir) = (directory.env.as_ref(), directory.dir.as_path());
    let found = bases.len();
    let mut kept = Vec::with_capacity(found);
    let mut bases = bases.into_iter().peekable();
    while let Some(base) = bases.next() {
        kept.push(base);
        let file = env.open_read(&segment_path(dir, base))?;
        let header = read_header(file.as_ref(), base, Some(directory.identity))?;
        let Some(next) = header.compacted_end() else {
            continue;
        };
        load_compacted(file.as_ref(), header)?;
        if seeded(Bug::LeftoversBelieved) {
            continue;
        }
        while let Some(leftover) = bases.next_if(|base| *base < next) {
            env.remove(&segment_path(dir, leftover))?;
        }
    }
    if kept.len() < found {
        // If one came back after the segment that replaced it was dropped, it would be taken for a
        // segment of the log.
        env.sync_dir(dir)?;
    }
    Ok(kept)
}
