//! What a crash leaves of a log that [rotates unsynced](crate::LogOptions::rotate_unsynced): of
//! segments that were not durable, any of their bytes.
//!
//! Such a log begins a segment before the older ones are durable, and the segment header says so:
//! the new segment is *unsynced*. Any other segment got its name when all before it was durable, so
//! only the unsynced segments at the end of a log matter here.
//!
//! Records are written to an unsynced segment before it has its name: see `create.rs`. If the
//! process is killed in between, the next opening gives it its name.
//!
//! After a crash the log is a prefix of what was appended. So it ends in the first of those
//! segments that is torn. The segments after that one are not part of the log, and the next opening
//! removes them. A segment that was made durable is never taken for torn: a sync begins with the
//! oldest segment, so a block that says that more of its file was durable than the segment was born
//! with proves that the older segments were durable too. A fault in those is then damage.

use crate::LogIdentity;
use crate::directory::{LogDirectory, temporary_path};
use crate::error::Result;
use crate::format::block::{BlockKind, Salt};
use crate::format::footer;
use crate::format::header::{HEADER_BYTES, SegmentHeader, read_whole_header, segment_path};
use crate::reading::walk::{BlockWalk, Step};
use quire_env::{Env, ReadFile};
use quire_model::Position;
use std::path::Path;
use std::sync::Arc;

/// The file of a segment, and its header.
struct Found {
    file: Arc<dyn ReadFile>,
    header: SegmentHeader,
}

impl Found {
    /// `None` if its header is damaged.
    fn open(
        env: &dyn Env,
        dir: &Path,
        base: Position,
        identity: Option<LogIdentity>,
    ) -> Result<Option<Found>> {
        let file = env.open_read(&segment_path(dir, base))?;
        let header = read_whole_header(file.as_ref(), base, identity)?;
        Ok(header.map(|header| Found { file, header }))
    }

    fn walk(&self) -> Result<BlockWalk> {
        let salt = Salt::new(self.header.identity, self.header.base);
        let (start, end) = (HEADER_BYTES as u64, self.file.len()?);
        Ok(BlockWalk::new(self.file.clone(), salt, start.min(end), end))
    }

    /// Whether a crash tore it: records before `next` are missing, and nothing in the file proves
    /// that they were durable.
    fn is_torn(&self, next: Position) -> Result<bool> {
        let (base, length) = (self.header.base, self.file.len()?);
        let salt = Salt::new(self.header.identity, base);
        if self.header.positions.is_some()
            || footer::load(self.file.as_ref(), length, base, salt)?.is_some()
        {
            return Ok(false);
        }
        let (mut walk, mut at, mut durable) = (self.walk()?, base, self.header.born);
        while at < next {
            let offset = walk.offset;
            match walk.step()? {
                Step::Block(block, _) => {
                    durable = durable.max(block.durable);
                    match block.kind {
                        BlockKind::Records if block.first == at => at = block.next(),
                        BlockKind::Dictionary => {}
                        // A crash never leaves that.
                        _ => return Ok(false),
                    }
                }
                Step::Fault(fault) if fault.certain => return Ok(false),
                Step::Fault(_) | Step::End => {
                    let later =
                        walk.find_header(offset + 1, &mut |_, block| block.durable > offset)?;
                    return Ok(durable <= offset && later.is_none());
                }
            }
        }
        Ok(false)
    }

    /// Whether it proves that the segments before it were durable, if it is an unsynced one.
    fn proves_those_before(&self) -> Result<bool> {
        let mut walk = self.walk()?;
        let proof = walk.find_header(walk.offset, &mut |_, block| {
            block.durable > self.header.born
        })?;
        Ok(proof.is_some())
    }
}

/// Whether a segment is unsynced. False if its header is damaged.
pub(crate) fn is_unsynced(
    file: &dyn ReadFile,
    base: Position,
    identity: Option<LogIdentity>,
) -> Result<bool> {
    let header = read_whole_header(file, base, identity)?;
    Ok(header.is_some_and(|header| header.unsynced))
}

/// The base of the unsynced segment in the file at `path`, if it holds records: the log had rotated
/// to it when the process was killed, and it was to get its name.
pub(crate) fn unnamed(directory: &LogDirectory, path: &Path) -> Result<Option<Position>> {
    let file = directory.env.open_read(path)?;
    let length = file.len()?.min(HEADER_BYTES as u64) as usize;
    let header = match SegmentHeader::decode(&file.read_at(0, length)?) {
        Ok(header) if header.unsynced && header.identity == directory.identity => header,
        _ => return Ok(None),
    };
    if path != temporary_path(&segment_path(&directory.dir, header.base)) {
        return Ok(None);
    }
    let mut walk = Found { file, header }.walk()?;
    while let Step::Block(block, _) = walk.step()? {
        if block.kind == BlockKind::Records {
            return Ok((block.first == header.base).then_some(header.base));
        }
    }
    Ok(None)
}

/// The number of segments, of those with these ascending bases, that belong to the log: all, or
/// those up to one that a crash tore. Damaged segments belong to the log too.
pub(crate) fn segments_kept(
    env: &dyn Env,
    dir: &Path,
    identity: Option<LogIdentity>,
    bases: &[Position],
) -> Result<usize> {
    // The unsynced ones at the end, newest first, and the one before them.
    let mut found: Vec<Found> = Vec::new();
    for base in bases.iter().rev() {
        if found.last().is_some_and(|last| !last.header.unsynced) {
            break;
        }
        match Found::open(env, dir, *base, identity)? {
            Some(segment) => found.push(segment),
            None => return Ok(bases.len()),
        }
    }
    found.reverse();
    for (at, pair) in found.windows(2).enumerate() {
        if let [segment, next] = pair
            && segment.is_torn(next.header.base)?
        {
            for later in found.get(at + 1..).unwrap_or_default() {
                if later.proves_those_before()? {
                    return Ok(bases.len());
                }
            }
            return Ok(bases.len() - found.len() + at + 1);
        }
    }
    Ok(bases.len())
}
