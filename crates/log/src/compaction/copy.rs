//! Copies of a log as files, as it was at one position, while the log is still written.
//!
//! A copy holds the bytes of the disk, and every byte is checked first: the header and the payload
//! checksum of each block, that the block is the one in the index in memory, and the segment header
//! and footer.
//!
//! # Invariants
//! 1. A copy ends with the block whose last record is the requested one, or with the footer after
//!    it. Opened as a log, it looks like one that a crash left with that record as its last.
//! 2. Bytes of a segment below the end of a block never change. So two ranges of a segment with the
//!    same digest hold the same bytes: the digest is over the header of each block, which has the
//!    checksums.

use crate::format::block::{BLOCK_HEADER_BYTES, BlockHeader, check_block};
use crate::format::footer;
use crate::format::header::HEADER_BYTES;
use crate::format::header::read_header;
use crate::format::index::BlockRange;
use crate::log::Log;
use crate::reading::segment::Segment;
use crate::{Error, Result};
use bytes::Bytes;
use parking_lot::MutexGuard;
use quire_model::Position;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Blocks are read in pieces of about this size.
const PIECE_BYTES: usize = 256 << 10;

/// While this is held, the log keeps the segments that it has now: none is dropped or replaced.
#[derive(Debug)]
pub struct SegmentsKept<'a> {
    _changing: MutexGuard<'a, ()>,
}

/// The file of a segment, or its prefix up to a position. It keeps the file open, so the copy can
/// be read after the file is removed.
#[derive(Debug, Clone)]
pub struct SegmentCopy {
    segment: Arc<Segment>,
    /// Offset of the end of the last block of the copy.
    blocks_end: u64,
    bytes: u64,
}

impl Log {
    /// Keeps the segments of now until the guard is dropped. Waits for a drop or a compaction that
    /// is under way.
    pub fn keep_segments(&self) -> SegmentsKept<'_> {
        SegmentsKept {
            _changing: self.shared().keep_segments(),
        }
    }

    /// Ends the block that is being filled, so that a copy can end with the last accepted record,
    /// and returns the position of that record. This does no I/O. The copy is then made after a
    /// [`sync`](Log::sync) up to that position.
    pub fn cut(&self) -> Position {
        self.shared().cut()
    }

    /// The files that hold the log up to `upto`, oldest first. `upto` is a position that
    /// [`cut`](Log::cut) returned and that is durable since.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for another position.
    pub fn copies(&self, upto: Position) -> Result<Vec<SegmentCopy>> {
        if self.durable() < upto {
            return Err(Error::InvalidArgument(format!(
                "position {upto} is not durable yet: it can't be copied"
            )));
        }
        let segments = self.shared().segments.load_full();
        let newest = segments.last().map(|segment| segment.base());
        segments
            .iter()
            .cloned()
            .take_while(|segment| segment.base() <= upto.next())
            .map(|segment| {
                let sealed = Some(segment.base()) != newest;
                SegmentCopy::new(segment, upto, sealed)
            })
            .collect()
    }
}

impl SegmentCopy {
    fn new(segment: Arc<Segment>, upto: Position, sealed: bool) -> Result<SegmentCopy> {
        let (blocks_end, whole) = {
            let index = segment.index().read();
            if index.next() <= upto.next() {
                (index.end(), true)
            } else {
                match index.find(upto) {
                    None => (index.start(), false),
                    Some(range) if range.next == upto.next() => (range.end(), false),
                    Some(_) => {
                        let what = format!("position {upto} does not end a block");
                        return Err(Error::InvalidArgument(what));
                    }
                }
            }
        };
        let bytes = match whole && sealed {
            true => segment.file_bytes(),
            false => blocks_end,
        };
        Ok(SegmentCopy {
            segment,
            blocks_end,
            bytes,
        })
    }

    /// Position of the first record of the segment, which names its file.
    pub fn base(&self) -> Position {
        self.segment.base()
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.segment.path()
    }

    /// Bytes of the copy.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A digest of the bytes from `start` to `end`; `None` if one of them is not a boundary of a
    /// block, the footer or the copy. It reads only the headers of blocks.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a damaged header; errors of the machine.
    pub fn digest(&self, start: u64, end: u64) -> Result<Option<u64>> {
        if start >= end || !self.is_bound(start) || !self.is_bound(end) {
            return Ok(None);
        }
        let mut digest = Xxh3::with_seed(start);
        let mut at = start;
        while at < end {
            at = match self.range_at(at) {
                Some(range) => {
                    let bytes = self.read(range, BLOCK_HEADER_BYTES)?;
                    self.segment.check_header(range, &bytes)?;
                    digest.update(&bytes);
                    range.end()
                }
                None => {
                    let piece = self.end_piece(at)?;
                    digest.update(&piece);
                    at + piece.len() as u64
                }
            };
        }
        Ok(Some(digest.digest()))
    }

    /// The bytes from `start` to `end`, which are boundaries of blocks, checked. Ends after an
    /// error.
    pub fn pieces(&self, start: u64, end: u64) -> SegmentPieces<'_> {
        SegmentPieces {
            copy: self,
            at: start,
            end,
            digest: Xxh3::with_seed(start),
        }
    }

    /// Whether a piece may begin or end here.
    fn is_bound(&self, at: u64) -> bool {
        [0, self.blocks_start(), self.blocks_end, self.bytes].contains(&at)
            || self.range_at(at).is_some()
    }

    /// Offset of the first block, after the header and the dictionary.
    fn blocks_start(&self) -> u64 {
        self.segment.index().read().start()
    }

    /// The block that begins at an offset.
    fn range_at(&self, offset: u64) -> Option<BlockRange> {
        if offset >= self.blocks_end {
            return None;
        }
        self.segment.index().read().find_at(offset)
    }

    /// The segment header with the dictionary, or the footer: the parts that are not blocks of
    /// records.
    fn end_piece(&self, at: u64) -> Result<Bytes> {
        let (segment, file) = (&self.segment, self.segment.file());
        let length = match at {
            0 => self.blocks_start(),
            _ => self.bytes - self.blocks_end,
        };
        let damaged = |what| Error::corrupt(segment.path(), at, what, None);
        let length = usize::try_from(length).map_err(|_| damaged("header or footer too long"))?;
        let bytes = file
            .read_at(at, length)
            .map_err(|error| match error.kind() {
                quire_env::ErrorKind::UnexpectedEnd => damaged("file cut short"),
                _ => Error::Env(error),
            })?;
        if at == 0 {
            read_header(file.as_ref(), segment.base(), None)?;
            if let Some(dictionary) = bytes.get(HEADER_BYTES..).filter(|block| !block.is_empty()) {
                check_block(dictionary, segment.salt(), HEADER_BYTES as u64)
                    .map_err(|fault| damaged(fault.what))?;
            }
        } else {
            let found = footer::load(file.as_ref(), self.bytes, segment.base(), segment.salt())?;
            if at != self.blocks_end || found.as_ref() != Some(&*segment.index().read()) {
                return Err(damaged("footer damaged or cut short"));
            }
        }
        Ok(bytes)
    }

    /// The first `length` bytes of the block at `range`.
    fn read(&self, range: BlockRange, length: usize) -> Result<Bytes> {
        let read = self.segment.file().read_at(range.offset, length);
        read.map_err(|error| self.segment.read_error(error, range))
    }
}

/// Pieces of the file of a segment, in order. See [`SegmentCopy::pieces`].
pub struct SegmentPieces<'a> {
    copy: &'a SegmentCopy,
    at: u64,
    end: u64,
    digest: Xxh3,
}

impl std::fmt::Debug for SegmentPieces<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentPieces")
            .field("path", &self.copy.path())
            .field("at", &self.at)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl SegmentPieces<'_> {
    /// After the last piece: the digest that [`SegmentCopy::digest`] returns for their range.
    pub fn digest(&self) -> u64 {
        self.digest.digest()
    }

    fn piece(&mut self) -> Result<Bytes> {
        let copy = self.copy;
        let Some(first) = copy.range_at(self.at) else {
            let piece = copy.end_piece(self.at)?;
            self.digest.update(&piece);
            return Ok(piece);
        };
        let (mut ranges, mut end) = (vec![first], first.end());
        while let Some(range) = copy.range_at(end)
            && range.end() <= self.end
            && range.end() - first.offset <= PIECE_BYTES as u64
        {
            end = range.end();
            ranges.push(range);
        }
        let bytes = match copy.read(first, (end - first.offset) as usize) {
            // Find the block in which the file ends, for the error.
            Err(Error::Corrupt { .. }) if ranges.len() > 1 => {
                for range in &ranges {
                    copy.read(*range, range.length)?;
                }
                copy.read(first, (end - first.offset) as usize)?
            }
            read => read?,
        };
        for range in ranges {
            let from = (range.offset - first.offset) as usize;
            let stored = bytes.slice(from..from + range.length);
            copy.segment.check_stored(range, &stored)?;
            self.digest
                .update(stored.get(..BLOCK_HEADER_BYTES).unwrap_or_default());
        }
        Ok(bytes)
    }
}

impl Iterator for SegmentPieces<'_> {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        if self.at >= self.end {
            return None;
        }
        let piece = self.piece();
        match &piece {
            Ok(bytes) => self.at += bytes.len() as u64,
            Err(_) => self.at = self.end,
        }
        Some(piece)
    }
}

impl Segment {
    /// Checks that the header of a block is the one in the index.
    fn check_header(&self, range: BlockRange, bytes: &Bytes) -> Result<BlockHeader> {
        self.header_of(range, bytes)
            .map_err(|fault| self.corrupt(range, fault.what))
    }

    /// Checks a block as stored, without decompressing it: it must be the one in the index.
    fn check_stored(&self, range: BlockRange, bytes: &Bytes) -> Result<()> {
        let header = self.check_header(range, bytes)?;
        let stored = bytes.get(BLOCK_HEADER_BYTES..).unwrap_or_default();
        header
            .check_payload(stored)
            .map_err(|fault| self.corrupt(range, fault.what))
    }
}
