//! Recovery: opens a log. It finds the segments, what is in them, and what a crash left of the
//! newest.
//!
//! | found | what it is, and what recovery does |
//! | --- | --- |
//! | `.log.tmp` file, an unsynced segment with records, after all others | the newest segment, which was to get its name: it gets its name |
//! | any other `.log.tmp` file | a segment whose creation was cut short: removed |
//! | segment whose records are all obsolete, as the owner says | dropped: removed |
//! | segment among the positions of a compacted segment before it | compacted into that one: removed |
//! | compacted segment without a whole footer | damaged: it was whole before it had its name |
//! | segment with a successor and a whole footer | sealed: its blocks are checked when they are read |
//! | segment with a successor and no whole footer | read whole; if every record up to the successor's is there, the footer was cut short or damaged, and is rewritten; else damage |
//! | unsynced segments after a torn one | not part of the log, if nothing proves that the torn one was durable: removed (`unsynced.rs`) |
//! | newest segment with a whole footer | closed: read as a sealed one |
//! | newest segment without a whole footer | read whole; ends at its first invalid block, if nothing proves that this block was durable, and before a group of records whose end is missing. Blocks not proven durable are carried over to a new segment, and the rest is sealed |
//!
//! A block is proven durable if it lies below `born` of the segment header, or below `durable` of
//! any block. If the disk has no space to carry the other blocks over, they are served as they are
//! and the file is not changed: the first sync or append of the log carries them over, or fails.

use crate::Result;
use crate::directory::{LogDirectory, TEMPORARY_SUFFIX};
use crate::format::header::{parse_segment_name, read_header, segment_path};
use crate::reading::segment::Segment;
use crate::recovery::opening::{Opening, before, load_compacted};
use crate::recovery::unsynced;
use crate::writing::newest::Newest;
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
    pub(crate) recovery: Recovery,
}

/// Opens all segments of a log, and creates the first one if there is none. Everything in them is
/// durable afterwards, except an unproven tail. Records up to `obsolete` are not needed: a log that
/// ends before `obsolete` starts again after it.
pub(crate) fn recover(directory: &LogDirectory, obsolete: Position) -> Result<Recovered> {
    let (env, dir) = (directory.env.as_ref(), directory.dir.as_path());
    env.create_dir_all(dir)?;
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
    let mut bases = remove_leftovers(directory, bases)?;
    while let [first, second, ..] = bases[..]
        && second <= obsolete.next()
    {
        remove_segment(directory, first)?;
        bases.remove(0);
    }
    let kept = unsynced::segments_kept(env, dir, Some(directory.identity), &bases)?;
    for torn_off in bases.drain(kept..).rev() {
        remove_segment(directory, torn_off)?;
    }

    let mut opening = Opening {
        directory,
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
        recovery,
    })
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
