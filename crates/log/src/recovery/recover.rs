//! Opening a log: which segments there are, what is in them, and what a crash left of the newest.
//!
//! | found | taken for |
//! | --- | --- |
//! | file that ends in `.log.tmp`, an unsynced segment with records after all others | the newest, which was to get its name: gets it |
//! | another one | a segment whose creation was cut short: removed |
//! | segment all of whose records the owner says are obsolete | as if it had been dropped: removed |
//! | segment among the positions that a compacted segment before it stands for | what that was made from: removed |
//! | compacted segment without a whole footer | damaged: it was whole before it had its name |
//! | segment with a successor and a whole footer | sealed: its blocks are checked when they are read |
//! | segment with a successor and no whole footer | read whole; if every record up to the successor's is there, the footer was cut short or damaged, and is written anew; else damage |
//! | unsynced segments after one that is torn | no part of the log, if nothing proves that the torn one was durable: removed (`unsynced.rs`) |
//! | newest segment with a whole footer | closed: as a sealed one |
//! | newest segment without | read whole; ends at its first invalid block, if nothing proves that the block was durable, and before a group of records whose end is not there. Blocks not proven durable are carried over to a new segment, and what is left is sealed |
//!
//! A block is proven durable by `born` of the segment's header, or `durable` of any block's, if it
//! lies below. Where there is no room to carry the others over, they are served as they are, the
//! file is left alone, and the log's first sync or append carries them over or fails.

use crate::format::block::{BlockKind, Salt};
use crate::format::footer;
use crate::format::header::{HEADER_BYTES, SegmentHeader, parse_segment_name, segment_path};
use crate::format::index::BlockIndex;
use crate::reading::segment::Segment;
use crate::reading::walk::{BlockWalk, Step};
use crate::recovery::unsynced;
use crate::writing::create::{Carried, NewSegment, NotCreated, Place, Reserve, TEMPORARY_SUFFIX};
use crate::writing::syncer::Syncer;
use crate::{Codec, Error, ErrorKind, LogIdentity, Result};
use quire_env::{AppendFile, Env, ReadFile};
use quire_model::Position;
use quire_pack::Packer;
use quire_seeded::{Bug, seeded};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

/// What opening a log found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Position of the first record kept; one past `last` if there is none.
    pub first: Position,
    /// Position of the last record. The owner compares it with the last it relies on.
    pub last: Position,
    /// Bytes of a torn tail that were cut off.
    pub torn_bytes: u64,
    /// Sealed segments whose footer was missing or damaged, and none of whose records were.
    pub footers_rebuilt: u64,
}

/// A log's segments, at least one, and how to go on with the newest.
pub(crate) struct Recovered {
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) newest: Newest,
    pub(crate) recovery: Recovery,
}

/// The newest segment, as an opening leaves it.
pub(crate) struct Newest {
    pub(crate) segment: Arc<Segment>,
    /// If this opening made it.
    pub(crate) file: Option<Box<dyn AppendFile>>,
    /// Of that file.
    pub(crate) syncer: Option<Arc<Syncer>>,
    /// Of that file; packs nothing without.
    pub(crate) packer: Packer,
    /// If not all of it is durable.
    pub(crate) unproven: Option<Unproven>,
}

/// What nothing proves durable at the end of the newest segment: an earlier opening wrote it, and
/// its sync may have failed. No sync of that file can be believed any more. See
/// [`create`](crate::create).
#[derive(Debug)]
pub(crate) struct Unproven {
    blocks: Carried,
    /// The segment without them.
    proven: Arc<Segment>,
}

impl Unproven {
    /// Position of the first record that is not proven durable.
    pub(crate) fn first(&self) -> Position {
        self.proven.index().read().next()
    }

    /// The segment without the blocks; none if it is replaced by the one that they are carried over
    /// to.
    pub(crate) fn proven(&self) -> Option<&Arc<Segment>> {
        (self.first() != self.proven.base()).then_some(&self.proven)
    }

    /// Makes a segment of the blocks. The file that they are in stays as it is.
    pub(crate) fn carry_over(
        &self,
        place: &Place,
        reserve: Reserve<'_>,
    ) -> std::result::Result<NewSegment, NotCreated> {
        place.create(self.first(), Some(&self.blocks), reserve)
    }
}

/// Opens all segments of a log; makes the first if there is none. All that it has is durable
/// afterwards, but for what is said to be unproven. Records up to `obsolete` are not needed: a log
/// that ends before begins anew after it.
pub(crate) fn recover(place: &Place, obsolete: Position) -> Result<Recovered> {
    let (env, dir) = (place.env.as_ref(), place.dir.as_path());
    env.create_dir_all(dir)?;
    let mut bases = list_segments(env, dir)?;
    for name in env.list(dir)? {
        if !name.ends_with(TEMPORARY_SUFFIX) {
            continue;
        }
        let path = dir.join(name);
        match unsynced::unnamed(place, &path)? {
            Some(base) if bases.last().is_some_and(|newest| *newest < base) => {
                env.open_append(&path)?.sync()?;
                env.rename(&path, &segment_path(dir, base))?;
                bases.push(base);
            }
            _ => env.remove(&path)?,
        }
    }
    // Names that a killed process made may not be durable yet, and what follows relies on them.
    if !seeded(Bug::FoundSegmentNameBelieved) {
        env.sync_dir(dir)?;
    }
    let mut bases = remove_leftovers(place, bases)?;
    while let [first, second, ..] = bases[..]
        && second <= obsolete.next()
    {
        remove_segment(place, first)?;
        bases.remove(0);
    }
    let kept = unsynced::segments_kept(env, dir, Some(place.identity), &bases)?;
    for torn_off in bases.drain(kept..).rev() {
        remove_segment(place, torn_off)?;
    }

    let mut opening = Opening {
        place,
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
        None => begin(place, obsolete)?,
    };
    if newest.segment.index().read().next() <= obsolete {
        // The records were made durable elsewhere, and not here: these must not be followed by
        // others.
        let segments = std::mem::take(&mut opening.segments);
        for segment in segments.iter().chain([&newest.segment]) {
            remove_segment(place, segment.base())?;
        }
        newest = begin(place, obsolete)?;
    }
    opening.segments.push(newest.segment.clone());
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

/// The first segment of a log whose records up to `obsolete` are not needed.
fn begin(place: &Place, obsolete: Position) -> Result<Newest> {
    let made = place.create(obsolete.next(), None, &mut |_, _| Ok(0));
    made.map(Newest::made).map_err(|failed| failed.error)
}

/// Removes a segment, durably: were a crash to undo it and not the removal of the one after it, the
/// log would have a gap.
fn remove_segment(place: &Place, base: Position) -> Result<()> {
    place.env.remove(&segment_path(&place.dir, base))?;
    Ok(place.env.sync_dir(&place.dir)?)
}

/// Bases of the segments in a directory, ascending. Files of other kinds are passed over.
pub(crate) fn list_segments(env: &dyn Env, dir: &Path) -> Result<Vec<Position>> {
    let mut bases = Vec::new();
    for name in env.list(dir)? {
        bases.extend(parse_segment_name(dir, &name)?);
    }
    bases.sort_unstable();
    Ok(bases)
}

/// Removes the segments that compacted ones stand for, and returns the bases of the others.
fn remove_leftovers(place: &Place, bases: Vec<Position>) -> Result<Vec<Position>> {
    let (env, dir) = (place.env.as_ref(), place.dir.as_path());
    let found = bases.len();
    let mut kept = Vec::with_capacity(found);
    let mut bases = bases.into_iter().peekable();
    while let Some(base) = bases.next() {
        kept.push(base);
        let file = env.open_read(&segment_path(dir, base))?;
        let header = read_header(file.as_ref(), base, Some(place.identity))?;
        let Some(next) = header.covers_to() else {
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
        // One that came back after what stands for it was dropped would be taken for a segment.
        env.sync_dir(dir)?;
    }
    Ok(kept)
}

/// The index of a compacted segment, which has one unless it is damaged.
fn load_compacted(file: &dyn ReadFile, header: SegmentHeader) -> Result<BlockIndex> {
    let salt = Salt::new(header.identity, header.base);
    match footer::load(file, file.len()?, header.base, salt)? {
        Some(index) if index.compaction().is_some() && Some(index.next()) == header.covers_to() => {
            Ok(index)
        }
        _ => {
            let what = "compacted segment without its whole footer";
            let last = header.covers_to().map_or(header.base, before);
            let positions = Some((header.base, last));
            Err(Error::corrupt(file.path(), 0, what, positions))
        }
    }
}

/// Reads and checks the header of the segment that the file's name says begins at `base`.
pub(crate) fn read_header(
    file: &dyn ReadFile,
    base: Position,
    identity: Option<LogIdentity>,
) -> Result<SegmentHeader> {
    let path = file.path();
    let length = file.len()?.min(HEADER_BYTES as u64) as usize;
    let bytes = file.read_at(0, length)?;
    let header = SegmentHeader::decode(&bytes).map_err(|fault| fault.into_error(path))?;
    if let Some(expected) = identity
        && header.identity != expected
    {
        return Err(Error::Foreign {
            path: path.to_path_buf(),
            expected: expected.to_string(),
            found: header.identity.to_string(),
        });
    }
    if header.base != base {
        let what = "segment renamed or duplicated: its name is not that of its first record";
        return Err(Error::corrupt(
            path,
            0,
            what,
            Some((header.base, header.base)),
        ));
    }
    Ok(header)
}

/// As [`read_header`]; `None` for a damaged one.
pub(crate) fn whole_header(
    file: &dyn ReadFile,
    base: Position,
    identity: Option<LogIdentity>,
) -> Result<Option<SegmentHeader>> {
    match read_header(file, base, identity) {
        Ok(header) => Ok(Some(header)),
        Err(Error::Env(error)) => Err(Error::Env(error)),
        Err(_) => Ok(None),
    }
}

/// Fails unless a segment that ends before `next` is followed by one that begins at `next_base`.
pub(crate) fn check_successor(path: &Path, next: Position, next_base: Position) -> Result<()> {
    let (what, positions) = match next.cmp(&next_base) {
        Ordering::Equal => return Ok(()),
        Ordering::Less => (
            "a segment is missing after this one",
            (next, before(next_base)),
        ),
        Ordering::Greater => (
            "records that the next segment holds too (duplicated?)",
            (next_base, before(next)),
        ),
    };
    Err(Error::corrupt(path, 0, what, Some(positions)))
}

fn before(position: Position) -> Position {
    Position(position.0.saturating_sub(1))
}

/// A block that was read, in as few bytes as will do: there may be millions.
struct BlockSize {
    records: u32,
    length: u32,
    raw_bytes: u32,
    goes_on: bool,
}

/// What reading a segment's blocks found.
struct Blocks {
    sizes: Vec<BlockSize>,
    /// Where the first of them begins.
    start: u64,
    /// Where the last of them ends.
    end: u64,
    next: Position,
    /// Bytes of the file that the header and the blocks prove durable.
    durable: u64,
    walk: BlockWalk,
}

impl Newest {
    fn made(new: NewSegment) -> Newest {
        Newest {
            segment: new.segment,
            file: Some(new.file),
            syncer: Some(new.syncer),
            packer: new.packer,
            unproven: None,
        }
    }

    fn found(segment: Arc<Segment>, unproven: Option<Unproven>) -> Newest {
        Newest {
            segment,
            file: None,
            syncer: None,
            packer: Packer::new(Codec::None, None),
            unproven,
        }
    }
}

struct Opening<'a> {
    place: &'a Place,
    segments: Vec<Arc<Segment>>,
    torn_bytes: u64,
    footers_rebuilt: u64,
}

impl Opening<'_> {
    fn salt(&self, base: Position) -> Salt {
        Salt::new(self.place.identity, base)
    }

    fn segment(
        &self,
        base: Position,
        file: Arc<dyn ReadFile>,
        file_bytes: u64,
        index: BlockIndex,
    ) -> Arc<Segment> {
        Arc::new(Segment::new(self.place, base, file, file_bytes, index))
    }

    fn open(&self, base: Position) -> Result<(Arc<dyn ReadFile>, SegmentHeader, u64)> {
        let file = self
            .place
            .env
            .open_read(&segment_path(&self.place.dir, base))?;
        let header = read_header(file.as_ref(), base, Some(self.place.identity))?;
        let file_bytes = file.len()?;
        Ok((file, header, file_bytes))
    }

    /// The index of a segment, from its footer; `None` if it was not compacted and has none.
    fn load(
        &self,
        file: &dyn ReadFile,
        header: SegmentHeader,
        file_bytes: u64,
    ) -> Result<Option<BlockIndex>> {
        if header.span.is_some() {
            return load_compacted(file, header).map(Some);
        }
        let index = footer::load(file, file_bytes, header.base, self.salt(header.base))?;
        // One of another kind is not this segment's.
        Ok(index.filter(|index| index.compaction().is_none()))
    }

    /// Opens a segment that has a successor.
    fn sealed(&mut self, base: Position, next_base: Position) -> Result<()> {
        let (file, header, file_bytes) = self.open(base)?;
        let (index, file_bytes) = match self.load(file.as_ref(), header, file_bytes)? {
            Some(index) => (index, file_bytes),
            None => {
                let blocks = self.read_blocks(&file, header, file_bytes, Some(next_base))?;
                check_successor(file.path(), blocks.next, next_base)?;
                let index = self.index_of(file.path(), base, blocks.start, &blocks.sizes)?;
                self.footers_rebuilt += 1;
                if self.open(next_base)?.1.unsynced
                    && let Some(segment) = self.copy(&file, base, &blocks)?
                {
                    self.segments.push(segment);
                    return Ok(());
                }
                let file_bytes = self.write_footer(file.path(), base, &index)?;
                (index, file_bytes)
            }
        };
        check_successor(file.path(), index.next(), next_base)?;
        let segment = self.segment(base, file, file_bytes, index);
        self.segments.push(segment);
        Ok(())
    }

    /// Puts a copy in the place of a segment of which nothing proves that it is durable; see
    /// [`create`](crate::create). `None` if there is no room for one.
    fn copy(
        &self,
        file: &Arc<dyn ReadFile>,
        base: Position,
        blocks: &Blocks,
    ) -> Result<Option<Arc<Segment>>> {
        let carried = Carried {
            file: file.clone(),
            salt: self.salt(base),
            start: blocks.start,
            end: blocks.end,
        };
        match self.place.create(base, Some(&carried), &mut |_, _| Ok(0)) {
            Ok(NewSegment { segment, .. }) => {
                let file_bytes =
                    self.write_footer(segment.path(), base, &segment.index().read())?;
                segment.set_file_bytes(file_bytes);
                Ok(Some(segment))
            }
            Err(failed) if failed.error.kind() == ErrorKind::NoSpace && !failed.named => Ok(None),
            Err(failed) => Err(failed.error),
        }
    }

    /// Opens the segment that has no successor, as it was closed or as a crash left it. Returns
    /// what is the newest then.
    fn newest(&mut self, base: Position) -> Result<Newest> {
        let (file, header, file_bytes) = self.open(base)?;
        let path = file.path().to_path_buf();
        if let Some(index) = self.load(file.as_ref(), header, file_bytes)? {
            return Ok(Newest::found(
                self.segment(base, file, file_bytes, index),
                None,
            ));
        }
        let mut blocks = self.read_blocks(&file, header, file_bytes, None)?;
        if !seeded(Bug::DamageTakenForTornTail) {
            blocks.check_torn(&path, file_bytes)?;
        }
        if !seeded(Bug::HalfGroupKept) {
            blocks.drop_unfinished_group();
        }
        self.torn_bytes += file_bytes - blocks.end;

        let (mut certain, mut start) = (0, blocks.start);
        while let Some(size) = blocks.sizes.get(certain)
            && (start < blocks.durable || seeded(Bug::FoundBlocksBelieved))
        {
            certain += 1;
            start += u64::from(size.length);
        }
        let sizes = blocks.sizes.get(..certain).unwrap_or_default();
        let proven = self.index_of(&path, base, blocks.start, sizes)?;
        if start == blocks.end {
            let file_bytes = self.write_footer(&path, base, &proven)?;
            return Ok(Newest::found(
                self.segment(base, file, file_bytes, proven),
                None,
            ));
        }
        let unproven = Unproven {
            blocks: Carried {
                file: file.clone(),
                salt: self.salt(base),
                start,
                end: blocks.end,
            },
            proven: self.segment(base, file.clone(), start, proven),
        };
        let new = match unproven.carry_over(self.place, &mut |_, _| Ok(0)) {
            Ok(new) => new,
            // A full disk can be read all the same.
            Err(failed) if failed.error.kind() == ErrorKind::NoSpace && !failed.named => {
                let index = self.index_of(&path, base, blocks.start, &blocks.sizes)?;
                let whole = self.segment(base, file, blocks.end, index);
                let believed = seeded(Bug::UnprovenBelieved);
                return Ok(Newest::found(whole, (!believed).then_some(unproven)));
            }
            Err(failed) => return Err(failed.error),
        };
        if let Some(proven) = unproven.proven() {
            let file_bytes = self.write_footer(&path, base, &proven.index().read())?;
            proven.set_file_bytes(file_bytes);
            self.segments.push(proven.clone());
        }
        Ok(Newest::made(new))
    }

    /// Reads blocks of records as far as they are whole, or up to the position `until`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for what no crash leaves: a block whose checksums hold and whose content
    /// is wrong, or any fault before `until`.
    fn read_blocks(
        &self,
        file: &Arc<dyn ReadFile>,
        header: SegmentHeader,
        file_bytes: u64,
        until: Option<Position>,
    ) -> Result<Blocks> {
        let start = HEADER_BYTES as u64;
        let walk = BlockWalk::new(file.clone(), self.salt(header.base), start, file_bytes);
        let mut blocks = Blocks {
            sizes: Vec::new(),
            start,
            end: start,
            next: header.base,
            durable: header.born,
            walk,
        };
        while until.is_none_or(|until| blocks.next < until) {
            let what = match blocks.walk.step()? {
                Step::End => break,
                Step::Block(block, _) if block.kind == BlockKind::Footer => {
                    blocks.durable = blocks.durable.max(block.durable);
                    break;
                }
                Step::Block(block, _)
                    if block.kind == BlockKind::Dictionary && blocks.end == start =>
                {
                    blocks.end = blocks.walk.offset;
                    blocks.start = blocks.end;
                    continue;
                }
                Step::Block(block, _)
                    if block.kind == BlockKind::Records && block.first == blocks.next =>
                {
                    blocks.durable = blocks.durable.max(block.durable);
                    blocks.next = block.next();
                    blocks.end = blocks.walk.offset;
                    blocks.sizes.push(BlockSize {
                        records: block.records,
                        length: block.file_bytes() as u32,
                        raw_bytes: block.raw_length,
                        goes_on: block.goes_on,
                    });
                    continue;
                }
                Step::Block(..) => "block of other positions than those that follow",
                Step::Fault(fault) if fault.certain || until.is_some() => fault.what,
                Step::Fault(_) => break,
            };
            let last = until.map_or(blocks.next, before);
            return Err(Error::corrupt(
                file.path(),
                blocks.end,
                what,
                Some((blocks.next, last)),
            ));
        }
        Ok(blocks)
    }

    fn index_of(
        &self,
        path: &Path,
        base: Position,
        start: u64,
        sizes: &[BlockSize],
    ) -> Result<BlockIndex> {
        let mut index = BlockIndex::new(base, start);
        for size in sizes {
            if !index.push(
                size.records,
                u64::from(size.length),
                u64::from(size.raw_bytes),
            ) {
                let what = "segment longer than the format allows";
                return Err(Error::corrupt(path, index.end(), what, None));
            }
        }
        Ok(index)
    }

    fn write_footer(&self, path: &Path, base: Position, index: &BlockIndex) -> Result<u64> {
        footer::write_if_room(self.place.env.as_ref(), path, index, base, self.salt(base))
    }
}

impl Blocks {
    /// Forgets the blocks of a last group whose end is not there: it was never durable as a whole.
    fn drop_unfinished_group(&mut self) {
        while let Some(size) = self.sizes.pop_if(|size| size.goes_on) {
            self.end -= u64::from(size.length);
            self.next = Position(self.next.0 - u64::from(size.records));
        }
    }

    /// Fails if anything proves that the file was durable past the last whole block.
    fn check_torn(&mut self, path: &Path, file_bytes: u64) -> Result<()> {
        let end = self.end;
        let proven = if end < self.durable {
            Some((self.next, self.next))
        } else if end < file_bytes {
            let later = self
                .walk
                .find_header(end + 1, &mut |_, header| header.durable > end)?;
            later.map(|(_, later)| (self.next, before(later.first).max(self.next)))
        } else {
            None
        };
        match proven {
            None => Ok(()),
            Some(lost) => Err(Error::corrupt(
                path,
                end,
                "damage to a block that was durable",
                Some(lost),
            )),
        }
    }
}
