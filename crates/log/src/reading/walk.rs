//! Reading a segment from its beginning to its end: for recovery, verification, compaction and
//! scans.

use crate::Result;
use crate::format::block::{BLOCK_HEADER_BYTES, BLOCK_MAGIC, BlockFault, BlockHeader, Salt};
use bytes::Bytes;
use quire_env::ReadFile;
use std::sync::Arc;

/// The first read-ahead in bytes, small for the sake of short scans. It doubles with each read.
const AHEAD_BYTES_MIN: usize = 64 << 10;
/// The largest read-ahead in bytes: a disk reads this much at nearly its full rate.
const AHEAD_BYTES_MAX: usize = 1 << 20;

/// A file read in large pieces, mostly forwards.
#[derive(Debug)]
pub(crate) struct Window {
    file: Arc<dyn ReadFile>,
    piece: Bytes,
    piece_offset: u64,
    ahead: usize,
}

impl Window {
    pub(crate) fn new(file: Arc<dyn ReadFile>) -> Window {
        Window {
            file,
            piece: Bytes::new(),
            piece_offset: 0,
            ahead: AHEAD_BYTES_MIN,
        }
    }

    /// The `length` bytes at `offset`. Reads ahead up to `end`, where the wanted bytes of the file
    /// end. The caller has checked that `offset + length` is at most `end`.
    pub(crate) fn bytes(
        &mut self,
        offset: u64,
        length: usize,
        end: u64,
    ) -> quire_env::Result<Bytes> {
        if let Some(bytes) = self.held(offset, length) {
            return Ok(bytes);
        }
        let left = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let piece = self
            .file
            .read_at(offset, self.ahead.min(left).max(length))?;
        if length > AHEAD_BYTES_MAX {
            // A large block is read once: its memory is not kept beside what is made of it.
            return Ok(piece.slice(..length));
        }
        self.piece = piece;
        self.piece_offset = offset;
        self.ahead = (self.ahead * 2).min(AHEAD_BYTES_MAX);
        Ok(self.piece.slice(..length))
    }

    fn held(&self, offset: u64, length: usize) -> Option<Bytes> {
        let start = usize::try_from(offset.checked_sub(self.piece_offset)?).ok()?;
        let end = start.checked_add(length)?;
        (end <= self.piece.len()).then(|| self.piece.slice(start..end))
    }

    /// The bytes from `offset` on that were read already; reads if there are none. Empty at `end`.
    fn piece(&mut self, offset: u64, end: u64) -> quire_env::Result<Bytes> {
        let left = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = left.min(AHEAD_BYTES_MAX);
        if wanted == 0 {
            Ok(Bytes::new())
        } else {
            self.bytes(offset, wanted, end)
        }
    }
}

/// What lies at an offset of a segment.
#[derive(Debug)]
pub(crate) enum Step {
    /// A block whose checksums hold, with its payload as stored.
    Block(BlockHeader, Bytes),
    /// The end of the file.
    End,
    /// Bytes that are not a whole block.
    Fault(BlockFault),
}

/// The blocks of a segment file, one after another.
#[derive(Debug)]
pub(crate) struct BlockWalk {
    window: Window,
    salt: Salt,
    end: u64,
    /// Where the next block should begin.
    pub(crate) offset: u64,
}

impl BlockWalk {
    /// Walks `file` from `offset` to `end`.
    pub(crate) fn new(file: Arc<dyn ReadFile>, salt: Salt, offset: u64, end: u64) -> BlockWalk {
        BlockWalk {
            window: Window::new(file),
            salt,
            end,
            offset,
        }
    }

    /// The bytes of the block at `offset` before compression; 0 if there is no whole one, or it
    /// can't be read.
    pub(crate) fn next_block_bytes(&mut self) -> usize {
        let left = self.end.saturating_sub(self.offset);
        if left < BLOCK_HEADER_BYTES as u64 {
            return 0;
        }
        let bytes = self.window.bytes(self.offset, BLOCK_HEADER_BYTES, self.end);
        let header = bytes.ok().and_then(|bytes| {
            let header = BlockHeader::decode(&bytes, self.salt, self.offset);
            header.ok()
        });
        header.map_or(0, |header| header.raw_length as usize)
    }

    /// Reads what lies at `offset`, and moves past it if it is a whole block.
    pub(crate) fn step(&mut self) -> Result<Step> {
        let left = self.end.saturating_sub(self.offset);
        if left == 0 {
            return Ok(Step::End);
        }
        if left < BLOCK_HEADER_BYTES as u64 {
            return Ok(Step::Fault(BlockFault::torn("block header cut short")));
        }
        let bytes = self
            .window
            .bytes(self.offset, BLOCK_HEADER_BYTES, self.end)?;
        let header = match BlockHeader::decode(&bytes, self.salt, self.offset) {
            Ok(header) => header,
            Err(fault) => return Ok(Step::Fault(fault)),
        };
        if header.file_bytes() > left {
            return Ok(Step::Fault(BlockFault::torn("block payload cut short")));
        }
        let payload_offset = self.offset + BLOCK_HEADER_BYTES as u64;
        let stored = self
            .window
            .bytes(payload_offset, header.stored_length as usize, self.end)?;
        if let Err(fault) = header.check_payload(&stored) {
            return Ok(Step::Fault(fault));
        }
        self.offset += header.file_bytes();
        Ok(Step::Block(header, stored))
    }

    /// The first valid block header at or after `from` that `wanted` accepts, and its offset.
    pub(crate) fn find_header(
        &mut self,
        mut from: u64,
        wanted: &mut dyn FnMut(u64, &BlockHeader) -> bool,
    ) -> Result<Option<(u64, BlockHeader)>> {
        loop {
            let piece = self.window.piece(from, self.end)?;
            if piece.len() < BLOCK_HEADER_BYTES {
                return Ok(None);
            }
            for (at, candidate) in piece.windows(BLOCK_HEADER_BYTES).enumerate() {
                if candidate.starts_with(&BLOCK_MAGIC) {
                    let offset = from + at as u64;
                    match BlockHeader::decode(candidate, self.salt, offset) {
                        Ok(header) if wanted(offset, &header) => return Ok(Some((offset, header))),
                        _ => {}
                    }
                }
            }
            // A header may begin in the last bytes of this piece and end in the next.
            from += (piece.len() - (BLOCK_HEADER_BYTES - 1)) as u64;
        }
    }
}
