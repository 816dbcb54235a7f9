//! Opening: what recovery does with one segment, sealed or the newest.

use crate::directory::LogDirectory;
use crate::format::block::{BlockKind, Salt};
use crate::format::footer;
use crate::format::header::{HEADER_BYTES, SegmentHeader, read_header, segment_path};
use crate::format::index::BlockIndex;
use crate::reading::segment::Segment;
use crate::reading::walk::{BlockWalk, Step};
use crate::writing::create::{CarriedBlocks, NewSegment};
use crate::writing::newest::{Newest, UnprovenTail};
use crate::{Error, ErrorKind, Result};
use quire_env::ReadFile;
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

const DAMAGE_TO_DURABLE: &str = "damage to a block that was durable";

pub(crate) struct Opening<'a> {
    pub(crate) directory: &'a LogDirectory,
    /// The end-of-log record says that records up to this position were durable.
    pub(crate) known: Position,
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) torn_bytes: u64,
    pub(crate) footers_rebuilt: u64,
}

impl Opening<'_> {
    fn salt(&self, base: Position) -> Salt {
        Salt::new(self.directory.identity, base)
    }

    fn segment(
        &self,
        base: Position,
        file: Arc<dyn ReadFile>,
        file_bytes: u64,
        index: BlockIndex,
    ) -> Arc<Segment> {
        Arc::new(Segment::new(self.directory, base, file, file_bytes, index))
    }

    fn open(&self, base: Position) -> Result<(Arc<dyn ReadFile>, SegmentHeader, u64)> {
        let file = self
            .directory
            .env
            .open_read(&segment_path(&self.directory.dir, base))?;
        let header = read_header(file.as_ref(), base, Some(self.directory.identity))?;
        let file_bytes = file.len()?;
        Ok((file, header, file_bytes))
    }

    /// The index of a segment, from its footer; `None` if it has no whole footer and was not
    /// compacted.
    fn load(
        &self,
        file: &dyn ReadFile,
        header: SegmentHeader,
        file_bytes: u64,
    ) -> Result<Option<BlockIndex>> {
        if header.positions.is_some() {
            return load_compacted(file, header).map(Some);
        }
        let index = footer::load(file, file_bytes, header.base, self.salt(header.base))?;
        // An index of the other kind is not of this segment.
        Ok(index.filter(|index| index.compaction().is_none()))
    }

    /// Opens a segment that has a successor.
    pub(crate) fn sealed(&mut self, base: Position, next_base: Position) -> Result<()> {
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

    /// Replaces a segment by a copy, as nothing proves that the segment is durable; see
    /// [`create`](crate::writing::create). `None` if there is no disk space for a copy.
    fn copy(
        &self,
        file: &Arc<dyn ReadFile>,
        base: Position,
        blocks: &Blocks,
    ) -> Result<Option<Arc<Segment>>> {
        let carried = CarriedBlocks {
            file: file.clone(),
            salt: self.salt(base),
            start: blocks.start,
            end: blocks.end,
        };
        match self
            .directory
            .create(base, Some(&carried), &mut |_, _| Ok(0))
        {
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

    /// Opens the segment that has no successor, as a close or a crash left it. Returns what is then
    /// the newest segment.
    pub(crate) fn newest(&mut self, base: Position) -> Result<Newest> {
        let (file, header, file_bytes) = self.open(base)?;
        let path = file.path().to_path_buf();
        if let Some(index) = self.load(file.as_ref(), header, file_bytes)? {
            if index.next() <= self.known {
                let what = "the segments after this one are missing";
                let lost = Some((index.next(), self.known));
                return Err(Error::corrupt(&path, file_bytes, what, lost));
            }
            return Ok(Newest::found(
                self.segment(base, file, file_bytes, index),
                None,
            ));
        }
        let mut blocks = self.read_blocks(&file, header, file_bytes, None)?;
        if !seeded(Bug::DamageTakenForTornTail) {
            blocks.check_torn(&path, file_bytes, self.known)?;
        }
        if !seeded(Bug::HalfGroupKept) {
            blocks.drop_unfinished_group();
            blocks.check_known(&path, self.known)?;
        }
        self.torn_bytes += file_bytes - blocks.end;

        let (mut certain, mut start, mut next) = (0, blocks.start, base);
        while let Some(size) = blocks.sizes.get(certain)
            && (start < blocks.durable
                || before(next).0 + u64::from(size.records) <= self.known.0
                || seeded(Bug::FoundBlocksBelieved))
        {
            certain += 1;
            start += u64::from(size.length);
            next = Position(next.0 + u64::from(size.records));
        }
        assert!(start <= blocks.end, "a proven block is one that was read");
        let sizes = blocks.sizes.get(..certain).unwrap_or_default();
        let proven = self.index_of(&path, base, blocks.start, sizes)?;
        if start == blocks.end {
            let file_bytes = self.write_footer(&path, base, &proven)?;
            return Ok(Newest::found(
                self.segment(base, file, file_bytes, proven),
                None,
            ));
        }
        let unproven = UnprovenTail {
            blocks: CarriedBlocks {
                file: file.clone(),
                salt: self.salt(base),
                start,
                end: blocks.end,
            },
            proven: self.segment(base, file.clone(), start, proven),
        };
        let new = match unproven.carry_over(self.directory, &mut |_, _| Ok(0)) {
            Ok(new) => new,
            // A log on a full disk can still be read.
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

    /// Reads blocks of records up to the first that is not whole, or up to the position `until`.
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
                        group_continues: block.group_continues,
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
        footer::write_if_room(
            self.directory.env.as_ref(),
            path,
            index,
            base,
            self.salt(base),
        )
    }
}

/// The sizes of a block that was read. It is kept small: there may be millions.
struct BlockSize {
    records: u32,
    length: u32,
    raw_bytes: u32,
    group_continues: bool,
}

/// The result of reading the blocks of a segment.
struct Blocks {
    sizes: Vec<BlockSize>,
    /// Offset of the first block.
    start: u64,
    /// Offset of the end of the last block.
    end: u64,
    next: Position,
    /// Bytes of the file that the header and the blocks prove durable.
    durable: u64,
    walk: BlockWalk,
}

impl Blocks {
    /// Removes the blocks of the last group if the end of the group is missing: it was never
    /// durable as a whole.
    fn drop_unfinished_group(&mut self) {
        while let Some(size) = self.sizes.pop_if(|size| size.group_continues) {
            self.end -= u64::from(size.length);
            self.next = Position(self.next.0 - u64::from(size.records));
        }
    }

    /// Fails if the log ends before a position that the end-of-log record calls durable.
    fn check_known(&self, path: &Path, known: Position) -> Result<()> {
        match self.next <= known {
            true => Err(Error::corrupt(
                path,
                self.end,
                DAMAGE_TO_DURABLE,
                Some((self.next, known)),
            )),
            false => Ok(()),
        }
    }

    /// Fails if anything proves that the file was durable past its last whole block.
    fn check_torn(&mut self, path: &Path, file_bytes: u64, known: Position) -> Result<()> {
        self.check_known(path, known)?;
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
            Some(lost) => Err(Error::corrupt(path, end, DAMAGE_TO_DURABLE, Some(lost))),
        }
    }
}

/// Reads the index of a compacted segment, which has one unless it is damaged.
pub(crate) fn load_compacted(file: &dyn ReadFile, header: SegmentHeader) -> Result<BlockIndex> {
    let salt = Salt::new(header.identity, header.base);
    match footer::load(file, file.len()?, header.base, salt)? {
        Some(index)
            if index.compaction().is_some() && Some(index.next()) == header.compacted_end() =>
        {
            Ok(index)
        }
        _ => {
            let what = "compacted segment without its whole footer";
            let last = header.compacted_end().map_or(header.base, before);
            let positions = Some((header.base, last));
            Err(Error::corrupt(file.path(), 0, what, positions))
        }
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

pub(crate) fn before(position: Position) -> Position {
    Position(position.0.saturating_sub(1))
}
