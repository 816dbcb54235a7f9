//! [`RowsWriter`]: rows become blocks and a directory.

use super::block::{BY_SYMBOLS, HEADER_BYTES, WITH_DICTIONARY, checksum};
use crate::Result;
use crate::block_sink::BlockSink;
use crate::spool::{Spool, Spooled, Spools};
use bytes::Bytes;
use quire_index::ColumnWriter;
use quire_pack::{Codec, Dictionary, Packer, SymbolPacker};
use std::fmt;

/// A dictionary of zstd is trained on rows of this many times its bytes, if there is memory.
const SAMPLES_PER_DICTIONARY: usize = 100;

/// Bytes of the dictionary of LZ4. A longer one makes packing slower, and text hardly smaller.
const LZ4_DICTIONARY_BYTES: usize = 4 << 10;
/// A dictionary of LZ4 is chosen from rows of this many times its bytes.
const SAMPLES_PER_LZ4_DICTIONARY: usize = 16;

/// Of larger blocks, LZ4 finds what they repeat.
const SYMBOL_BLOCK_BYTES_MAX: usize = 1 << 10;
/// Blocks by symbols are read several times as fast as by LZ4, so they may take this much more.
const SYMBOLS_WORTH: f64 = 1.25;

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
    /// Blocks that wait for the dictionary, with their first docids; and the lengths of all their
    /// rows.
    waiting: Vec<(u32, Vec<u8>)>,
    waiting_lengths: Vec<usize>,
    /// The dictionary is trained when this many bytes of rows wait.
    sample_bytes: usize,
    trained: Option<Trained>,
}

/// The packer and its dictionary, once it is trained.
struct Trained {
    packer: BlockPacker,
    dictionary: Bytes,
}

enum BlockPacker {
    Pieces(Packer),
    /// By symbols; long blocks by LZ4.
    Symbols(Box<SymbolPacker>, Packer),
}

impl BlockPacker {
    /// Appends a block to `stored`, packed if that makes it smaller. Returns how, as a byte.
    fn pack(&mut self, raw: &[u8], stored: &mut Vec<u8>) -> u8 {
        let packer = match self {
            BlockPacker::Symbols(symbols, _) if symbols.pack(raw, stored) => return BY_SYMBOLS,
            BlockPacker::Symbols(_, packer) | BlockPacker::Pieces(packer) => packer,
        };
        match packer.pack(raw, stored) {
            (packing, true) => packing as u8 | WITH_DICTIONARY,
            (packing, false) => packing as u8,
        }
    }
}

impl Trained {
    fn untrained(codec: Codec) -> Trained {
        Trained {
            packer: BlockPacker::Pieces(Packer::new(codec, None)),
            dictionary: Bytes::new(),
        }
    }

    /// By LZ4, with a dictionary of some of the samples.
    fn lz4(samples: &[u8], lengths: &[usize]) -> Trained {
        let dictionary = Bytes::from(lz4_dictionary(samples, lengths));
        Trained {
            packer: BlockPacker::Pieces(Packer::lz4_behind(dictionary.clone())),
            dictionary,
        }
    }

    /// By the symbols of the samples.
    fn symbols(samples: &[u8], lengths: &[usize]) -> Trained {
        let symbols = SymbolPacker::train(samples, lengths);
        let dictionary = Bytes::from(symbols.table());
        let long = Packer::new(Codec::Lz4, None);
        Trained {
            packer: BlockPacker::Symbols(Box::new(symbols), long),
            dictionary,
        }
    }

    fn zstd(codec: Codec, samples: &[u8], lengths: &[usize]) -> Trained {
        let dictionary = Dictionary::train(samples, lengths, codec.dictionary_bytes());
        Trained {
            packer: BlockPacker::Pieces(Packer::new(codec, dictionary.as_ref())),
            dictionary: dictionary.map_or(Bytes::new(), |own| own.bytes().clone()),
        }
    }

    /// What blocks and the dictionary take, in bytes.
    fn bytes_of<'b>(&mut self, blocks: impl Iterator<Item = &'b [u8]>) -> usize {
        let mut stored = Vec::new();
        blocks.for_each(|block| {
            self.packer.pack(block, &mut stored);
        });
        stored.len() + self.dictionary.len()
    }
}

impl fmt::Debug for Trained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trained").finish_non_exhaustive()
    }
}

impl RowsWriter {
    /// `memory_max` bounds the rows that wait for a dictionary, in bytes.
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
                Codec::Lz4 => SAMPLES_PER_LZ4_DICTIONARY * LZ4_DICTIONARY_BYTES,
                Codec::Zstd { .. } => SAMPLES_PER_DICTIONARY * codec.dictionary_bytes(),
            }),
            trained: None,
        }
    }

    /// How many rows were added.
    pub(crate) fn rows(&self) -> u32 {
        self.rows
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

    /// Trains the dictionary, and writes the blocks that waited for it.
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
        let blocks = || waiting.iter().map(|(_, block)| block.as_slice());
        self.trained = Some(match self.codec {
            Codec::Lz4 if self.block_bytes <= SYMBOL_BLOCK_BYTES_MAX => {
                let mut lz4 = Trained::lz4(&samples, &lengths);
                let mut symbols = Trained::symbols(&samples, &lengths);
                let [of_lz4, of_symbols] =
                    [&mut lz4, &mut symbols].map(|one| one.bytes_of(blocks()) as f64);
                match of_symbols <= of_lz4 * SYMBOLS_WORTH {
                    true => symbols,
                    false => lz4,
                }
            }
            Codec::Lz4 => Trained::lz4(&samples, &lengths),
            codec => Trained::zstd(codec, &samples, &lengths),
        });
        for (first, block) in waiting {
            self.write_block(first, &block, out)?;
        }
        Ok(())
    }

    fn write_block(&mut self, first: u32, raw: &[u8], out: &mut impl BlockSink) -> Result<()> {
        let codec = self.codec;
        let trained = self
            .trained
            .get_or_insert_with(|| Trained::untrained(codec));
        let mut stored = Vec::new();
        let packing = trained.packer.pack(raw, &mut stored);
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
        assert!(self.waiting.is_empty(), "every block was written");
        assert!(
            ends.rows() == u64::from(self.rows) + 1,
            "there is an end for each row"
        );
        let blocks = self.firsts.0.rows();
        assert!(
            self.offsets.0.rows() == blocks,
            "there is an offset for each block"
        );
        assert!(
            self.lengths.0.rows() == blocks,
            "there is a length for each block"
        );
        let (mut directory, mut footer) = (spools.spool(), Vec::new());
        for (column, mut spool) in [self.ends, self.firsts, self.offsets, self.lengths] {
            column.finish(spool.bytes());
            spool.finish()?.copy(|piece| {
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
fn lz4_dictionary(samples: &[u8], lengths: &[usize]) -> Vec<u8> {
    let bytes_max = LZ4_DICTIONARY_BYTES.min(samples.len() / SAMPLES_PER_LZ4_DICTIONARY);
    let rows = 1 + bytes_max * lengths.len() / samples.len().max(1);
    let (step, mut start) = ((lengths.len() / rows).max(1), 0);
    let mut dictionary = Vec::with_capacity(bytes_max);
    for (row, length) in lengths.iter().enumerate() {
        if row % step == 0 {
            let row = samples.get(start..start + length).unwrap_or_default();
            let left = bytes_max - dictionary.len();
            dictionary.extend_from_slice(row.get(..left).unwrap_or(row));
        }
        start += length;
    }
    assert!(
        dictionary.len() <= bytes_max,
        "the dictionary keeps its bound"
    );
    dictionary
}
