//! [`RowsWriter`]: rows become blocks and a directory.

use super::block::{HEADER_BYTES, WITH_DICTIONARY, checksum};
use crate::Result;
use crate::block_sink::BlockSink;
use crate::spool::{Spool, Spooled, Spools};
use bytes::Bytes;
use quire_index::ColumnWriter;
use quire_pack::{Codec, Dictionary, Packer};
use std::fmt;

/// A dictionary of zstd is trained on rows of this many times its bytes, if there is memory.
const SAMPLES_PER_DICTIONARY: usize = 100;

/// Bytes of the dictionary of LZ4. A longer one makes packing slower, and text hardly smaller.
const LZ4_DICTIONARY_BYTES: usize = 4 << 10;
/// A dictionary of LZ4 is chosen from rows of this many times its bytes.
const SAMPLES_PER_LZ4_DICTIONARY: usize = 16;

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
    packer: Packer,
    dictionary: Bytes,
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
        self.trained = Some(match self.codec {
            Codec::Lz4 => {
                let dictionary = Bytes::from(lz4_dictionary(&samples, &lengths));
                Trained {
                    packer: Packer::lz4_behind(dictionary.clone()),
                    dictionary,
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
