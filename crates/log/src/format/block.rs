//! Block: the unit of writing, checking and reading; a header of 48 bytes, then its payload.
//!
//! # Invariants
//! 1. The header has a checksum of its own, so its lengths can be trusted before the payload is
//!    read.
//! 2. Header checksums are salted with the identity of the log, the base of the segment and the
//!    offset of the block. So a block of another log, another segment or another offset is not
//!    valid here, nor is one inside a record of a user.
//! 3. Every byte of the file before `durable` was synced before the block was written.
//! 4. A group of records lies in one block, or starts at the beginning of a block and continues
//!    through the next ones. Every block of a group but the last is flagged so. The last may hold
//!    other groups after the end of this one.
//!
//! # Layout (little-endian)
//! ```text
//! 0       4      5       6            8         12     16           20              24
//! | magic | kind | codec | flags, dictionary | records | positions | raw length | stored length |
//! 24      32        40            44           48
//! | first | durable | payload crc | header crc | payload: stored length bytes |
//!   kind: 1 records, 2 footer, 3 records with gaps between their positions (in compacted
//!     segments), 4 dictionary
//!   codec: 0 none, 1 LZ4 block format, 2 a frame of zstd
//!   flags, one byte: bit 0, the last group continues in the next block
//!   dictionary, one byte: 1 if zstd needs the segment's (see `dictionary.rs`), 0 if it needs none
//!   records: their number
//!   positions: last position - first position + 1: as records, unless there are gaps
//!   raw length: of the payload before compression; first: position of the first record
//!   durable: offset in this file below which all was known durable when the block was written
//!   payload crc: CRC-32C of the payload as stored
//!   header crc: CRC-32C of the salt (identity, base as u64, the offset of the block as u64), then
//!     of bytes 0..44
//! ```
//! A footer has the number of its entries in `records`, 0 in `positions`, and the segment's base in
//! `first`. Codec 2 and kind 4 are only in segments whose header says so.

use crate::LogIdentity;
use crate::format::le;
use crate::options::{BLOCK_BYTES_MAX, RECORD_BYTES_MAX};
use bytes::Bytes;
use quire_model::Position;
use quire_pack::DICTIONARY_BYTES_MAX;
use quire_pack::Dictionary;
use quire_pack::{Packing, unpack};
use quire_seeded::{Bug, seeded};

pub(crate) const BLOCK_HEADER_BYTES: usize = 48;
const _: () = assert!(BLOCK_HEADER_BYTES == 4 + 1 + 1 + 2 + 4 * 4 + 8 + 8 + 4 + 4);
/// The flag of a block whose last group continues in the next block.
const GROUP_CONTINUES: u8 = 1;
pub(crate) const BLOCK_MAGIC: [u8; 4] = [0xB1, b'Q', b'L', 0x0C];
/// The most raw bytes of a block of records: the largest record alone, with its table.
pub(crate) const BLOCK_RAW_MAX: usize = RECORD_BYTES_MAX + 12;
const _: () = assert!(BLOCK_RAW_MAX > 2 * BLOCK_BYTES_MAX);

/// What makes a checksum specific to one segment of one log: the salt is folded into every
/// checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Salt(u32);

impl Salt {
    pub(crate) fn new(identity: LogIdentity, base: Position) -> Salt {
        Salt(crc32c::crc32c_append(
            crc32c::crc32c(&identity.0),
            &base.0.to_le_bytes(),
        ))
    }

    /// Checksum of `bytes` that begin at `offset` of the segment.
    pub(crate) fn crc(self, offset: u64, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c_append(self.0, &offset.to_le_bytes()), bytes)
    }
}

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum BlockKind {
    Records = 1,
    Footer = 2,
    Sparse = 3,
    Dictionary = 4,
}

/// A block's header, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) kind: BlockKind,
    pub(crate) packing: Packing,
    /// The last group of records continues in the next block.
    pub(crate) group_continues: bool,
    /// The payload can't be unpacked without the segment's dictionary.
    pub(crate) with_dictionary: bool,
    pub(crate) records: u32,
    pub(crate) positions: u32,
    pub(crate) raw_length: u32,
    pub(crate) stored_length: u32,
    pub(crate) first: Position,
    pub(crate) durable: u64,
    pub(crate) payload_crc: u32,
}

/// Why some bytes are not a valid block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockFault {
    pub(crate) what: &'static str,
    /// False if a write cut short by a crash may look so. True if the checksums hold and the
    /// content is wrong.
    pub(crate) certain: bool,
}

impl BlockFault {
    /// A fault that a torn write may have left.
    pub(crate) fn torn(what: &'static str) -> BlockFault {
        BlockFault {
            what,
            certain: false,
        }
    }

    /// A fault under checksums that hold.
    pub(crate) fn certain(what: &'static str) -> BlockFault {
        BlockFault {
            what,
            certain: true,
        }
    }
}

impl BlockHeader {
    pub(crate) fn encode(&self, salt: Salt, offset: u64) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC);
        bytes[4] = self.kind as u8;
        bytes[5] = self.packing as u8;
        bytes[6] = if self.group_continues {
            GROUP_CONTINUES
        } else {
            0
        };
        bytes[7] = u8::from(self.with_dictionary);
        bytes[8..12].copy_from_slice(&self.records.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.positions.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.raw_length.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.stored_length.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.durable.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = salt.crc(offset, &bytes[..44]);
        bytes[44..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes and checks the header at `offset` of a segment. The lengths of a decoded header are
    /// within the limits of the format.
    pub(crate) fn decode(bytes: &[u8], salt: Salt, offset: u64) -> Result<BlockHeader, BlockFault> {
        let checked = bytes
            .get(..44)
            .ok_or(BlockFault::torn("block header cut short"))?;
        if !checked.starts_with(&BLOCK_MAGIC) {
            return Err(BlockFault::torn(
                "no block where one should begin (wrong magic)",
            ));
        }
        if le::u32_at(bytes, 44) != Some(salt.crc(offset, checked))
            && !seeded(Bug::LogChecksumUnchecked)
        {
            return Err(BlockFault::torn("block header checksum mismatch"));
        }
        BlockHeader::fields(checked)
            .ok_or(BlockFault::certain("block header with impossible values"))
    }

    fn fields(bytes: &[u8]) -> Option<BlockHeader> {
        let (flags, dictionary) = (le::u8_at(bytes, 6)?, le::u8_at(bytes, 7)?);
        let header = BlockHeader {
            kind: match le::u8_at(bytes, 4)? {
                1 => BlockKind::Records,
                2 => BlockKind::Footer,
                3 => BlockKind::Sparse,
                4 => BlockKind::Dictionary,
                _ => return None,
            },
            packing: Packing::decode(le::u8_at(bytes, 5)?)?,
            group_continues: flags == GROUP_CONTINUES,
            with_dictionary: dictionary == 1,
            records: le::u32_at(bytes, 8)?,
            positions: le::u32_at(bytes, 12)?,
            raw_length: le::u32_at(bytes, 16)?,
            stored_length: le::u32_at(bytes, 20)?,
            first: Position(le::u64_at(bytes, 24)?),
            durable: le::u64_at(bytes, 32)?,
            payload_crc: le::u32_at(bytes, 40)?,
        };
        let sizes_hold = match header.packing {
            Packing::None => header.stored_length == header.raw_length,
            Packing::Lz4 | Packing::Zstd => header.stored_length < header.raw_length,
        };
        let dictionary_holds = match dictionary {
            0 => true,
            _ => dictionary == 1 && header.packing == Packing::Zstd,
        };
        let records_hold = header.records > 0
            && header.raw_length as usize <= BLOCK_RAW_MAX
            && header
                .first
                .0
                .checked_add(u64::from(header.positions))
                .is_some();
        let kind_holds = match header.kind {
            BlockKind::Records => records_hold && header.positions == header.records,
            BlockKind::Sparse => {
                records_hold && header.positions >= header.records && !header.group_continues
            }
            BlockKind::Footer => {
                header.packing == Packing::None && header.positions == 0 && !header.group_continues
            }
            BlockKind::Dictionary => {
                header.packing == Packing::None
                    && header.records == 0
                    && header.positions == 0
                    && !header.group_continues
                    && (1..=DICTIONARY_BYTES_MAX).contains(&(header.raw_length as usize))
            }
        };
        (flags <= GROUP_CONTINUES && dictionary_holds && sizes_hold && kind_holds).then_some(header)
    }

    /// The position after the last record.
    pub(crate) fn next(&self) -> Position {
        Position(self.first.0.saturating_add(u64::from(self.positions)))
    }

    /// The last position.
    pub(crate) fn last(&self) -> Position {
        Position(self.next().0.saturating_sub(1))
    }

    /// Bytes in the file, header and payload.
    pub(crate) fn file_bytes(&self) -> u64 {
        BLOCK_HEADER_BYTES as u64 + u64::from(self.stored_length)
    }

    /// Checks that `stored` is the payload that was written under this header.
    pub(crate) fn check_payload(&self, stored: &[u8]) -> Result<(), BlockFault> {
        if stored.len() != self.stored_length as usize {
            return Err(BlockFault::torn("block payload cut short"));
        }
        if crc32c::crc32c(stored) != self.payload_crc && !seeded(Bug::LogChecksumUnchecked) {
            return Err(BlockFault::torn("block payload checksum mismatch"));
        }
        Ok(())
    }

    /// Decompresses a payload that was checked, with the dictionary of the segment if it needs
    /// that. Allocates `raw_length` bytes at most.
    pub(crate) fn decompress(
        &self,
        stored: Bytes,
        dictionary: Option<&Dictionary>,
    ) -> Result<Bytes, BlockFault> {
        let dictionary = match self.with_dictionary {
            false => None,
            true if dictionary.is_some() => dictionary,
            true => {
                return Err(BlockFault::certain(
                    "block whose dictionary is missing or damaged",
                ));
            }
        };
        unpack(self.packing, stored, self.raw_length as usize, dictionary)
            .ok_or(BlockFault::certain("block payload does not decompress"))
    }
}

/// Checks that `bytes` are a whole block that was written at `offset`.
pub(crate) fn check_block(bytes: &[u8], salt: Salt, offset: u64) -> Result<(), BlockFault> {
    let header = BlockHeader::decode(bytes, salt, offset)?;
    header.check_payload(bytes.get(BLOCK_HEADER_BYTES..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Codec;
    use quire_pack::Packer;

    #[test]
    fn frame_that_holds_another_length_than_the_header_says_is_refused() {
        let zstd = Codec::Zstd {
            level: 3,
            dictionary_bytes: 0,
        };
        let mut frame = Vec::new();
        let raw = [7; 1 << 20];
        assert_eq!(
            Packer::new(zstd, None).pack(&raw, &mut frame),
            (Packing::Zstd, false)
        );
        let unpack = |length| unpack(Packing::Zstd, frame.clone().into(), length, None);
        assert_eq!(unpack(raw.len()).unwrap(), raw.as_slice());
        for wrong in [0, 100, raw.len() - 1, raw.len() + 1] {
            assert_eq!(unpack(wrong), None, "{wrong}");
        }
    }
}
