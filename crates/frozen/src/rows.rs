//! Rows: bytes by docid, in blocks that are packed and checked one by one. Documents are such rows,
//! and payloads are others.
//!
//! # Invariants
//! 1. A row lies in one block. A block ends with the first row that fills it.
//! 2. Every block that is read is compared with its checksum first. What is unpacked is as long as
//!    the directory says its rows are.
//! 3. The block that was read last is kept unpacked, unless it has one row: so reading rows in
//!    order unpacks each block once.
//! 4. Blocks are small, for a query reads rows from anywhere. What they lack by that LZ4 finds in a
//!    front, a few rows of the file that every block refers back to as if it stood right behind
//!    them.
//!
//! # Layout (little-endian)
//! ```text
//! block      | packing (1) | crc (4) | stored bytes |
//!   packing as in the log: 0 none, 1 LZ4 block format, 2 a frame of zstd; and 128 if it needs the dictionary
//!   crc: CRC-32C of the stored bytes, the block's offset in the file (8), its packing (1), and its raw length (7)
//! directory  | ends | firsts | offsets | lengths | dictionary | where each of the first four ends (4 × 8) |
//!   ends: a column of one row more than there are documents: where the row of each begins, if rows stood behind one another
//!   firsts, offsets, lengths: columns by block: its first docid, its offset in the file, its bytes, stored and with header
//!   dictionary: zstd's, or the front of LZ4, or nothing
//! ```
//! A document without a row has an empty one. Blocks are in the file wherever they came; the
//! directory is a section.

use crate::format::is_right;
use crate::le;
use crate::sections::{Section, Sections};
use crate::spool::{Spool, Spooled, Spools};
use crate::{Error, Result};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use quire_index::{Column, ColumnWriter, IndexDamage};
use quire_pack::{Codec, Dictionary, Packer, Packing, unpack, unpack_lz4_behind};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

const HEADER_BYTES: usize = 5;
/// In the byte of the packing: it needs the dictionary.
const WITH_DICTIONARY: u8 = 0x80;
const FOOTER_BYTES: usize = 4 * 8;

/// The longest row, in bytes.
pub const ROW_BYTES_MAX: usize = 64 << 20;

/// Rows are gathered until there are so many times the dictionary's bytes, if there is memory, to
/// train it on.
const SAMPLES_PER_DICTIONARY: usize = 100;

/// The front of LZ4, in bytes, and so many times its bytes of rows it is chosen from. A longer one
/// makes packing dearer, and text hardly smaller.
const FRONT_BYTES: usize = 4 << 10;
const SAMPLES_PER_FRONT: usize = 16;

/// Writes rows; blocks go to the file, the directory to spools.
#[derive(Debug)]
pub(crate) struct RowsWriter {
    codec: Codec,
    block_bytes: usize,
    ends: (ColumnWriter, Spool),
    firsts: (ColumnWriter, Spool),
    offsets: (ColumnWriter, Spool),
    lengths: (ColumnWriter, Spool),
    rows: u32,
    row_bytes: u64,
    /// Rows of the block that is not full.
    open: Vec<u8>,
    open_first: u32,
    /// Blocks, with their first rows, that wait for the dictionary; and the lengths of all their
    /// rows.
    waiting: Vec<(u32, Vec<u8>)>,
    waiting_lengths: Vec<usize>,
    /// So many bytes of rows are waited for.
    sample_bytes: usize,
    trained: Option<Trained>,
}

/// What packs, when that is settled.
struct Trained {
    packer: Packer,
    dictionary: Bytes,
}

impl fmt::Debug for Trained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trained").finish_non_exhaustive()
    }
}

/// Where blocks go: a place that says where in the file it is.
pub(crate) trait BlockSink {
    fn offset(&self) -> u64;
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
}

/// A file in memory.
impl BlockSink for Vec<u8> {
    fn offset(&self) -> u64 {
        self.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

impl RowsWriter {
    /// `memory_max` bounds what waits for a dictionary, in bytes.
    pub(crate) fn new(
        spools: &Spools,
        codec: Codec,
        block_bytes: usize,
        memory_max: usize,
    ) -> RowsWriter {
        let column = || (ColumnWriter::new(), spools.spool());
        RowsWriter {
            codec,
            block_bytes,
            ends: column(),
            firsts: column(),
            offsets: column(),
            lengths: column(),
            rows: 0,
            row_bytes: 0,
            open: Vec::new(),
            open_first: 0,
            waiting: Vec::new(),
            waiting_lengths: Vec::new(),
            sample_bytes: memory_max.min(match codec {
                Codec::None => 0,
                Codec::Lz4 => SAMPLES_PER_FRONT * FRONT_BYTES,
                Codec::Zstd { .. } => SAMPLES_PER_DICTIONARY * codec.dictionary_bytes(),
            }),
            trained: None,
        }
    }

    /// Whether any row has bytes.
    pub(crate) fn has_bytes(&self) -> bool {
        self.row_bytes > 0
    }

    /// Adds the row of the next document.
    pub(crate) fn push(&mut self, row: &[u8], out: &mut impl BlockSink) -> Result<()> {
        let (ends, spool) = &mut self.ends;
        ends.push(self.row_bytes, spool.bytes());
        spool.settle()?;
        self.rows += 1;
        self.row_bytes += row.len() as u64;
        self.open.extend_from_slice(row);
        if self.trained.is_none() && self.sample_bytes > 0 && !row.is_empty() {
            self.waiting_lengths.push(row.len());
        }
        if self.open.len() >= self.block_bytes {
            self.end_block(out)?;
        }
        Ok(())
    }

    fn end_block(&mut self, out: &mut impl BlockSink) -> Result<()> {
        let first = std::mem::replace(&mut self.open_first, self.rows);
        if self.trained.is_some() || self.sample_bytes == 0 {
            let block = std::mem::take(&mut self.open);
            self.write_block(first, &block, out)?;
            self.open = block;
            self.open.clear();
            return Ok(());
        }
        self.waiting.push((first, std::mem::take(&mut self.open)));
        let samples: usize = self.waiting_lengths.iter().sum();
        match samples >= self.sample_bytes {
            true => self.write_waiting(out),
            false => Ok(()),
        }
    }

    /// Trains the dictionary, and writes what waited for it.
    fn write_waiting(&mut self, out: &mut impl BlockSink) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = std::mem::take(&mut self.waiting);
        let lengths = std::mem::take(&mut self.waiting_lengths);
        let whole: usize = waiting.iter().map(|(_, block)| block.len()).sum();
        let mut samples = Vec::with_capacity(whole);
        waiting
            .iter()
            .for_each(|(_, block)| samples.extend_from_slice(block));
        self.trained = Some(match self.codec {
            Codec::Lz4 => {
                let front = Bytes::from(front_of(&samples, &lengths));
                Trained {
                    packer: Packer::lz4_behind(front.clone()),
                    dictionary: front,
                }
            }
            codec => {
                let bytes_max = codec.dictionary_bytes();
                let dictionary = Dictionary::train(&samples, &lengths, bytes_max);
                Trained {
                    packer: Packer::new(codec, dictionary.as_ref()),
                    dictionary: dictionary.map_or(Bytes::new(), |own| own.bytes().clone()),
                }
            }
        });
        for (first, block) in waiting {
            self.write_block(first, &block, out)?;
        }
        Ok(())
    }

    fn write_block(&mut self, first: u32, raw: &[u8], out: &mut impl BlockSink) -> Result<()> {
        let codec = self.codec;
        let trained = self.trained.get_or_insert_with(|| Trained {
            packer: Packer::new(codec, None),
            dictionary: Bytes::new(),
        });
        let mut stored = Vec::new();
        let (packing, with_dictionary) = trained.packer.pack(raw, &mut stored);
        let packing = match with_dictionary {
            true => packing as u8 | WITH_DICTIONARY,
            false => packing as u8,
        };
        let length = HEADER_BYTES + stored.len();
        for ((column, spool), number) in [
            (&mut self.firsts, first.into()),
            (&mut self.offsets, out.offset()),
            (&mut self.lengths, length as u64),
        ]
        .map(|(column, number)| ((&mut column.0, &mut column.1), number))
        {
            column.push(number, spool.bytes());
            spool.settle()?;
        }
        let crc = checksum(&stored, out.offset(), raw.len() as u64, packing);
        let [a, b, c, d] = crc.to_le_bytes();
        out.append(&[packing, a, b, c, d])?;
        out.append(&stored)
    }

    /// Ends the rows: the directory.
    pub(crate) fn finish(mut self, spools: &Spools, out: &mut impl BlockSink) -> Result<Spooled> {
        if !self.open.is_empty() {
            self.end_block(out)?;
        }
        self.write_waiting(out)?;
        let (ends, spool) = &mut self.ends;
        ends.push(self.row_bytes, spool.bytes());
        let (mut directory, mut footer) = (spools.spool(), Vec::new());
        for (column, mut spool) in [self.ends, self.firsts, self.offsets, self.lengths] {
            column.finish(spool.bytes());
            crate::merge::copy(&spool.finish()?, |piece| {
                directory.bytes().extend_from_slice(piece);
                directory.settle()
            })?;
            footer.extend_from_slice(&directory.len().to_le_bytes());
        }
        if let Some(Trained { dictionary, .. }) = &self.trained {
            directory.bytes().extend_from_slice(dictionary);
        }
        directory.bytes().extend_from_slice(&footer);
        directory.finish()
    }
}

/// Whole rows from all over the samples, which have these lengths: a small part of their bytes.
fn front_of(samples: &[u8], lengths: &[usize]) -> Vec<u8> {
    let bytes_max = FRONT_BYTES.min(samples.len() / SAMPLES_PER_FRONT);
    let rows = 1 + bytes_max * lengths.len() / samples.len().max(1);
    let (step, mut start) = ((lengths.len() / rows).max(1), 0);
    let mut front = Vec::with_capacity(bytes_max);
    for (row, length) in lengths.iter().enumerate() {
        if row % step == 0 {
            let row = samples.get(start..start + length).unwrap_or_default();
            let left = bytes_max - front.len();
            front.extend_from_slice(row.get(..left).unwrap_or(row));
        }
        start += length;
    }
    front
}

fn checksum(stored: &[u8], offset: u64, raw_length: u64, packing: u8) -> u32 {
    let mut place = [0; 16];
    let (of_offset, of_block) = place.split_at_mut(8);
    of_offset.copy_from_slice(&offset.to_le_bytes());
    of_block.copy_from_slice(&(raw_length << 8 | u64::from(packing)).to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(stored), &place)
}

/// The rows of one kind of an open file.
#[derive(Default)]
pub(crate) struct Rows {
    /// The dictionary, made ready when it is first needed.
    dictionary: OnceLock<Option<Dictionary>>,
    /// The block that was read last, and its first docid's place in it.
    last: ArcSwapOption<Block>,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

struct Block {
    number: u64,
    raw: Vec<u8>,
}

/// A directory, in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Directory<'a> {
    section: Section<'a>,
    ends: Column<'a>,
    firsts: Column<'a>,
    offsets: Column<'a>,
    lengths: Column<'a>,
    dictionary: &'a [u8],
}

impl<'a> Directory<'a> {
    pub(crate) fn new(section: Section<'a>) -> Result<Directory<'a>> {
        let damaged = || {
            section.damaged(quire_index::IndexDamage {
                what: "directory of rows",
                offset: 0,
            })
        };
        let bytes: &'a [u8] = section.bytes;
        let parse = || {
            let (mut parts, footer) =
                bytes.split_at_checked(bytes.len().checked_sub(FOOTER_BYTES)?)?;
            let mut before = 0;
            let mut columns = [None; 4];
            for (column, at) in columns.iter_mut().zip((0..).step_by(8)) {
                let end = le::u64_at(footer, at)?;
                let length = usize::try_from(end.checked_sub(before)?).ok()?;
                let (part, rest) = parts.split_at_checked(length)?;
                *column = Some(Column::new(part).ok()?);
                (parts, before) = (rest, end);
            }
            let [ends, firsts, offsets, lengths] = columns;
            Some(Directory {
                section,
                ends: ends?,
                firsts: firsts?,
                offsets: offsets?,
                lengths: lengths?,
                dictionary: parts,
            })
        };
        let directory = parse().ok_or_else(damaged)?;
        let blocks = directory.firsts.rows();
        match blocks == directory.offsets.rows() && blocks == directory.lengths.rows() {
            true => Ok(directory),
            false => Err(damaged()),
        }
    }

    /// How many blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.firsts.rows()
    }

    /// Bytes of all blocks in the file, and bytes of all rows.
    pub(crate) fn bytes(&self) -> Result<(u64, u64)> {
        let damaged = |damage| self.section.damaged(damage);
        let mut stored = 0u64;
        for block in 0..self.blocks() {
            stored = stored.saturating_add(self.lengths.get(block).map_err(damaged)?);
        }
        let last = self.ends.rows().saturating_sub(1);
        Ok((stored, self.ends.get(last).map_err(damaged)?))
    }

    /// Bytes of the dictionary; 0 without.
    pub(crate) fn dictionary_bytes(&self) -> usize {
        self.dictionary.len()
    }
}

impl Rows {
    /// Shows `read` the row of a document; false, and nothing shown, if it is empty.
    pub(crate) fn read(
        &self,
        sections: &Sections,
        directory: &Directory<'_>,
        docid: u32,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let damaged = |damage| directory.section.damaged(damage);
        let mut ends = [0; 2];
        directory
            .ends
            .read(docid.into(), &mut ends)
            .map_err(damaged)?;
        let [start, end] = ends;
        if start >= end {
            return Ok(false);
        }
        let number = directory.block_of(docid).map_err(damaged)?;
        let block = directory.span(number, start..end).map_err(damaged)?;
        let missing = IndexDamage {
            what: "row",
            offset: 0,
        };
        let within = start
            .checked_sub(block.start)
            .zip(end.checked_sub(block.start));
        let show = |raw: &[u8], read: &mut dyn FnMut(&[u8])| {
            let row = within.and_then(|(start, end)| raw.get(start as usize..end as usize));
            row.map(read).ok_or_else(|| damaged(missing))
        };
        if block == (start..end) {
            // The only row of its block.
            self.with_block(sections, directory, number, block, |raw| show(&raw, read))??;
            return Ok(true);
        }
        let last = self.last.load();
        match last.as_ref().filter(|block| block.number == number) {
            Some(block) => show(&block.raw, read)?,
            None => {
                let raw =
                    self.with_block(sections, directory, number, block, |raw| raw.into_owned())?;
                let block = Arc::new(Block { number, raw });
                self.last.store(Some(Arc::clone(&block)));
                show(&block.raw, read)?;
            }
        }
        Ok(true)
    }

    /// Shows `read` a block, checked and unpacked, whose rows stand at `span` among those of all.
    fn with_block<T>(
        &self,
        sections: &Sections,
        directory: &Directory<'_>,
        number: u64,
        span: Range<u64>,
        read: impl FnOnce(Cow<'_, [u8]>) -> T,
    ) -> Result<T> {
        let damaged = |damage| directory.section.damaged(damage);
        let offset = directory.offsets.get(number).map_err(damaged)?;
        let length = directory.lengths.get(number).map_err(damaged)?;
        let raw_length = span.end.checked_sub(span.start);
        let read = sections.with_bytes_at(offset, length, |block| {
            let raw = self.open_block(directory, block, offset, raw_length?);
            raw.map(read)
        })?;
        read.ok_or_else(|| Error::corrupt(sections.path(), "block of rows", offset))
    }

    fn open_block<'b>(
        &self,
        directory: &Directory<'_>,
        block: &'b [u8],
        offset: u64,
        raw_length: u64,
    ) -> Option<Cow<'b, [u8]>> {
        let (header, stored) = block.split_at_checked(HEADER_BYTES)?;
        let how = *header.first()?;
        let crc = checksum(stored, offset, raw_length, how);
        is_right(le::u32_at(header, 1)?, crc).then_some(())?;
        // A block holds what fills one, and one row; LZ4 can't make a byte stand for more than 255.
        let packing = Packing::decode(how & !WITH_DICTIONARY)?;
        let length_max = match packing {
            Packing::Lz4 => stored.len().saturating_mul(255),
            Packing::None | Packing::Zstd => 2 * ROW_BYTES_MAX,
        };
        let raw_length = usize::try_from(raw_length)
            .ok()
            .filter(|raw| *raw <= length_max)?;
        let dictionary = match how & WITH_DICTIONARY {
            0 => &[],
            _ => directory.dictionary,
        };
        match packing {
            Packing::None => (stored.len() == raw_length).then_some(Cow::Borrowed(stored)),
            Packing::Lz4 => {
                let mut raw = vec![0; raw_length];
                unpack_lz4_behind(dictionary, stored, &mut raw)?;
                Some(Cow::Owned(raw))
            }
            Packing::Zstd => {
                let bytes = || Dictionary::new(Bytes::copy_from_slice(dictionary));
                let dictionary = match dictionary.is_empty() {
                    true => None,
                    false => Some(self.dictionary.get_or_init(bytes).as_ref()?),
                };
                let stored = Bytes::copy_from_slice(stored);
                let raw = unpack(packing, stored, raw_length, dictionary)?;
                Some(Cow::Owned(raw.into()))
            }
        }
    }

    /// Reads every block, in order.
    pub(crate) fn verify(&self, sections: &Sections, directory: &Directory<'_>) -> Result<()> {
        let damaged = |damage| directory.section.damaged(damage);
        (0..directory.blocks()).try_for_each(|number| {
            let span = directory.rows_of(number).map_err(damaged)?;
            self.with_block(sections, directory, number, span, |_| ())
        })
    }
}

impl Directory<'_> {
    /// The block that the row of a document is in.
    fn block_of(&self, docid: u32) -> Result<u64, IndexDamage> {
        if self.is_row_by_row() {
            return Ok(docid.into());
        }
        let begun = self.firsts.lower_bound(u64::from(docid) + 1)?;
        Ok(begun.saturating_sub(1))
    }

    /// Whether each row is a block of its own: there are as many.
    fn is_row_by_row(&self) -> bool {
        self.blocks().checked_add(1) == Some(self.ends.rows())
    }

    /// Where the rows of a block stand among those of all; `row` is where one of them does.
    fn span(&self, block: u64, row: Range<u64>) -> Result<Range<u64>, IndexDamage> {
        match self.is_row_by_row() {
            true => Ok(row),
            false => self.rows_of(block),
        }
    }

    /// Where the rows of a block stand among those of all.
    fn rows_of(&self, block: u64) -> Result<Range<u64>, IndexDamage> {
        let start = self.ends.get(self.firsts.get(block)?)?;
        let end = match block + 1 < self.blocks() {
            true => self.ends.get(self.firsts.get(block + 1)?)?,
            false => self.ends.get(self.ends.rows().saturating_sub(1))?,
        };
        Ok(start..end)
    }
}
