//! Rows: bytes by docid, in blocks that are packed and checked one by one. Documents are such rows, and payloads are others.
//!
//! # Invariants
//! 1. A row lies in one block. A block ends with the first row that fills it.
//! 2. Every block that is read is compared with its checksum first. What is unpacked is as long as the directory says its rows are.
//! 3. The block that was read last is kept unpacked, so that reading rows in order unpacks each block once.
//!
//! # Layout (little-endian)
//! ```text
//! block      | raw length (4) | packing (1) | 1 if zstd needs the dictionary (1) | crc (4) | stored bytes |
//!   packing as in the log: 0 none, 1 LZ4 block format, 2 a frame of zstd
//!   crc: CRC-32C of the block's offset in the file (8), bytes 0..6, and the stored bytes
//! directory  | ends | firsts | offsets | lengths | dictionary | where each of the first four ends (4 × 8) |
//!   ends: a column of one row more than there are documents: where the row of each begins, if rows stood behind one another
//!   firsts, offsets, lengths: columns by block: its first docid, its offset in the file, its bytes, stored and with header
//! ```
//! A document without a row has an empty one. Blocks are in the file wherever they came; the directory is a section.

use crate::format::is_right;
use crate::le;
use crate::sections::{Section, Sections};
use crate::spool::{Spool, Spooled, Spools};
use crate::{Error, Result};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use quire_index::{Column, ColumnWriter};
use quire_pack::{Codec, Dictionary, Packer, Packing, unpack};
use std::fmt;
use std::sync::{Arc, OnceLock};

const HEADER_BYTES: usize = 10;
const FOOTER_BYTES: usize = 4 * 8;

/// The longest row, in bytes.
pub const ROW_BYTES_MAX: usize = 64 << 20;

/// Rows are gathered until there are so many times the dictionary's bytes, if there is memory, to train it on.
const SAMPLES_PER_DICTIONARY: usize = 100;

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
    /// Blocks, with their first rows, that wait for the dictionary; and the lengths of all their rows.
    waiting: Vec<(u32, Vec<u8>)>,
    waiting_lengths: Vec<usize>,
    /// So many bytes of rows are waited for.
    sample_bytes: usize,
    trained: Option<Trained>,
}

/// What packs, when that is settled.
struct Trained {
    packer: Packer,
    dictionary: Option<Dictionary>,
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
            sample_bytes: memory_max.min(SAMPLES_PER_DICTIONARY * codec.dictionary_bytes()),
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
        if self.trained.is_none() && self.codec.dictionary_bytes() > 0 && !row.is_empty() {
            self.waiting_lengths.push(row.len());
        }
        if self.open.len() >= self.block_bytes {
            self.end_block(out)?;
        }
        Ok(())
    }

    fn end_block(&mut self, out: &mut impl BlockSink) -> Result<()> {
        let first = std::mem::replace(&mut self.open_first, self.rows);
        if self.trained.is_some() || self.codec.dictionary_bytes() == 0 {
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
        let dictionary = Dictionary::train(&samples, &lengths, self.codec.dictionary_bytes());
        self.trained = Some(Trained {
            packer: Packer::new(self.codec, dictionary.as_ref()),
            dictionary,
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
            dictionary: None,
        });
        let mut block = vec![0; HEADER_BYTES];
        let (packing, with_dictionary) = trained.packer.pack(raw, &mut block);
        let stored = block.split_off(HEADER_BYTES);
        let mut header = (raw.len() as u32).to_le_bytes().to_vec();
        header.extend([packing as u8, with_dictionary.into()]);
        header.extend(checksum(out.offset(), &header, &stored).to_le_bytes());
        let length = header.len() + stored.len();
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
        out.append(&header)?;
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
        if let Some(dictionary) = self.trained.and_then(|trained| trained.dictionary) {
            directory.bytes().extend_from_slice(dictionary.bytes());
        }
        directory.bytes().extend_from_slice(&footer);
        directory.finish()
    }
}

fn checksum(offset: u64, header: &[u8], stored: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&offset.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, header);
    crc32c::crc32c_append(crc, stored)
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
    raw: Bytes,
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
            section.damaged(quire_index::Damage {
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

    /// Bytes of the dictionary of zstd; 0 without.
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
        let (blocks, wanted) = (&directory.firsts, u64::from(docid) + 1);
        let number = blocks
            .lower_bound(wanted)
            .map_err(damaged)?
            .saturating_sub(1);
        let base = directory.ends.get(blocks.get(number).map_err(damaged)?);
        let base = base.map_err(damaged)?;
        let last = self.last.load();
        let block = match last.as_ref().filter(|block| block.number == number) {
            Some(block) => Arc::clone(block),
            None => {
                let raw = self.read_block(sections, directory, number)?;
                let block = Arc::new(Block { number, raw });
                self.last.store(Some(Arc::clone(&block)));
                block
            }
        };
        let range = start.checked_sub(base).zip(end.checked_sub(base));
        let row = range.and_then(|(start, end)| block.raw.get(start as usize..end as usize));
        let missing = quire_index::Damage {
            what: "row",
            offset: 0,
        };
        read(row.ok_or_else(|| damaged(missing))?);
        Ok(true)
    }

    /// Reads, checks and unpacks a block.
    fn read_block(
        &self,
        sections: &Sections,
        directory: &Directory<'_>,
        number: u64,
    ) -> Result<Bytes> {
        let damaged = |damage| directory.section.damaged(damage);
        let offset = directory.offsets.get(number).map_err(damaged)?;
        let length = directory.lengths.get(number).map_err(damaged)?;
        let block = sections.bytes_at(offset, length)?;
        self.open_block(directory, number, offset, &block)
            .ok_or_else(|| Error::corrupt(sections.path(), "block of rows", offset))
    }

    fn open_block(
        &self,
        directory: &Directory<'_>,
        number: u64,
        offset: u64,
        block: &Bytes,
    ) -> Option<Bytes> {
        let header = block.get(..HEADER_BYTES)?;
        let (signed, stored) = (header.get(..6)?, block.slice(HEADER_BYTES..));
        is_right(le::u32_at(header, 6)?, checksum(offset, signed, &stored)).then_some(())?;
        let raw_length = le::u32_at(header, 0)?;
        let of_rows = directory.raw_length(number)?;
        (u64::from(raw_length) == of_rows).then_some(())?;
        // A block holds what fills one, and one row; LZ4 can't make a byte stand for more than 255.
        let packing = Packing::decode(*header.get(4)?)?;
        let length_max = match packing {
            Packing::Lz4 => stored.len().saturating_mul(255),
            Packing::None | Packing::Zstd => 2 * ROW_BYTES_MAX,
        };
        let raw_length = usize::try_from(raw_length)
            .ok()
            .filter(|raw| *raw <= length_max)?;
        let dictionary = match *header.get(5)? {
            0 => None,
            _ => {
                let bytes = || Dictionary::new(Bytes::copy_from_slice(directory.dictionary));
                Some(self.dictionary.get_or_init(bytes).as_ref()?)
            }
        };
        unpack(packing, stored, raw_length, dictionary)
    }

    /// Reads every block, in order.
    pub(crate) fn verify(&self, sections: &Sections, directory: &Directory<'_>) -> Result<()> {
        (0..directory.blocks())
            .try_for_each(|block| self.read_block(sections, directory, block).map(drop))
    }
}

impl Directory<'_> {
    /// Bytes of the rows of a block.
    fn raw_length(&self, block: u64) -> Option<u64> {
        let start = self.ends.get(self.firsts.get(block).ok()?).ok()?;
        let end = match block + 1 < self.blocks() {
            true => self.ends.get(self.firsts.get(block + 1).ok()?).ok()?,
            false => self.ends.get(self.ends.rows().checked_sub(1)?).ok()?,
        };
        end.checked_sub(start)
    }
}
