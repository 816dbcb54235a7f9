//! Copying a table file as it is: its bytes in order, each block's checksum compared, nothing
//! decompressed.
//!
//! # Invariants
//! 1. No byte goes out before the checksum over it was found right.
//! 2. When the last has gone out, the digest over all blocks was that of the manifest: it is this
//!    file, whole.

use super::block::{Block, BlockCursor};
use super::footer::{FOOTER_BYTES, Footer, HEADER_BYTES, decode_header};
use super::frame::{self, Handle};
use super::index;
use super::reader::Table;
use super::writer::Digest;
use crate::{Error, Result, TableMeta};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;

/// Blocks are read in pieces of about this size.
const PIECE_BYTES: u64 = 256 << 10;

/// A table file to be copied. While it is held the file stays, though no manifest may name it any
/// more.
#[derive(Debug, Clone)]
pub struct TableCopy {
    table: Arc<Table>,
}

impl TableCopy {
    pub(crate) fn new(table: Arc<Table>) -> TableCopy {
        TableCopy { table }
    }

    /// What the manifest says of it.
    pub fn meta(&self) -> &TableMeta {
        self.table.meta()
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        self.table.file.io.path()
    }

    /// All its bytes in order, checked. Reads the index to know where blocks are.
    ///
    /// # Errors
    /// `Corrupt`, or those of the machine.
    pub fn pieces(&self) -> Result<TablePieces<'_>> {
        let mut parts = self.parts()?;
        parts.reverse();
        Ok(TablePieces {
            table: &self.table,
            parts,
            next: 0,
            digest: Digest::new(self.table.file.footer.salt),
        })
    }

    /// The header, every frame, and the footer, in the order of the file.
    fn parts(&self) -> Result<Vec<Handle>> {
        let file = &self.table.file;
        let leaves = children(&self.table, &file.top, file.footer.top_offset)?;
        let mut parts = vec![Handle {
            offset: 0,
            bytes: HEADER_BYTES as u64,
        }];
        for leaf in &leaves {
            let contents = file.read(*leaf)?.contents;
            let block = Block::parse(contents).map_err(file.damaged(leaf.offset))?;
            parts.extend(children(&self.table, &block, leaf.offset)?);
        }
        parts.extend(file.ranges());
        parts.extend((0..file.properties.filter.pages()).map(|page| file.filter_page(page)));
        parts.extend(leaves);
        let footer_offset = file.bytes - FOOTER_BYTES as u64;
        let ends = [
            file.footer.top_offset,
            file.footer.properties_offset,
            footer_offset,
            file.bytes,
        ];
        parts.extend(ends.windows(2).filter_map(|pair| match pair {
            [offset, end] => Some(Handle {
                offset: *offset,
                bytes: end.saturating_sub(*offset),
            }),
            _ => None,
        }));
        Ok(parts)
    }
}

/// Where the blocks are that an index block leads to.
fn children(table: &Table, block: &Block, offset: u64) -> Result<Vec<Handle>> {
    let damaged = table.file.damaged(offset);
    let mut cursor = BlockCursor::new();
    cursor.first(block).map_err(&damaged)?;
    let mut children = Vec::new();
    while cursor.key().is_some() {
        let handle = index::decode(cursor.value(block)).map_err(&damaged)?;
        table.file.check(handle)?;
        children.push(handle);
        cursor.advance(block).map_err(&damaged)?;
    }
    Ok(children)
}

/// Pieces of a table file, in order. See [`TableCopy::pieces`].
#[derive(Debug)]
pub struct TablePieces<'a> {
    table: &'a Table,
    /// What is still to come, last first.
    parts: Vec<Handle>,
    next: u64,
    digest: Digest,
}

impl TablePieces<'_> {
    fn piece(&mut self, first: Handle) -> Result<Bytes> {
        let file = &self.table.file;
        let (mut parts, mut end) = (vec![first], first.end());
        while let Some(part) = self
            .parts
            .pop_if(|part| part.offset == end && part.end() - first.offset <= PIECE_BYTES)
        {
            end = part.end();
            parts.push(part);
        }
        if first.offset != self.next {
            return Err(self.wrong("offset of a block", self.next, self.next, first.offset));
        }
        self.next = end;
        let length = usize::try_from(end - first.offset)
            .map_err(|_| self.wrong("length of a block", first.offset, 0, first.bytes))?;
        file.io.will_need(end, PIECE_BYTES);
        let bytes = file.io.read_at(first.offset, length)?;
        for part in parts {
            let from = (part.offset - first.offset) as usize;
            self.check(part, &bytes.slice(from..from + part.bytes as usize))?;
        }
        if self.parts.is_empty() {
            let (expected, found) = (file.footer.digest, self.digest.finish());
            if expected != found {
                return Err(self.wrong("digest of all blocks", file.bytes, expected, found));
            }
        }
        Ok(bytes)
    }

    /// Checks the header, the footer or a frame.
    fn check(&mut self, part: Handle, stored: &Bytes) -> Result<()> {
        let (file, path) = (&self.table.file, self.table.file.io.path());
        if let (0, Some(header)) = (part.offset, stored.first_chunk::<HEADER_BYTES>()) {
            let salt = decode_header(header, path)?;
            return match salt == file.footer.salt {
                true => Ok(()),
                false => Err(self.wrong("salt of a table file", 12, file.footer.salt, salt)),
            };
        }
        if part.end() == file.bytes
            && let Some(footer) = stored.first_chunk::<FOOTER_BYTES>()
        {
            // It has a checksum of its own, and was read when the table was opened.
            let found = Footer::decode(footer, part.offset, path)?.digest;
            return match found == file.footer.digest {
                true => Ok(()),
                false => Err(self.wrong(
                    "digest of a table file",
                    part.offset,
                    file.footer.digest,
                    found,
                )),
            };
        }
        let crc = frame::check(file.footer.salt, part.offset, stored)
            .map_err(file.damaged(part.offset))?;
        self.digest.add(crc);
        Ok(())
    }

    fn wrong(&self, what: &'static str, offset: u64, expected: u64, found: u64) -> Error {
        Error::Corrupt {
            path: self.table.file.io.path().to_path_buf(),
            what,
            offset,
            expected,
            found,
        }
    }
}

impl Iterator for TablePieces<'_> {
    type Item = Result<Bytes>;

    fn next(&mut self) -> Option<Result<Bytes>> {
        let first = self.parts.pop()?;
        let piece = self.piece(first);
        if piece.is_err() {
            self.parts.clear();
        }
        Some(piece)
    }
}
