//! Footer: the block index of a segment, written when the segment is sealed or the log is closed,
//! followed by a trailer of 24 bytes that says where the footer is. A segment that ends with both
//! is opened without reading its blocks.
//!
//! # Invariants
//! 1. The footer begins where the last block of records ends.
//! 2. It is written when all blocks before it are durable, so a segment with a whole footer has no
//!    torn tail.
//! 3. It holds nothing that reading the blocks would not give, so a lost footer loses no record.
//!
//! # Layout (little-endian)
//! The footer is a block of kind 2 (see `block.rs`) with this payload:
//! ```text
//! 0      8         16          24
//! | next | records | raw bytes | entry 0 | entry 1 | … |     entry: | first, u32 | offset, u32 |
//!   next: the position after the last record; raw bytes: of all payloads, before compression
//!   first: position of the first record of a block, less the base of the segment
//!   offset: of the header of the block in the file
//! ```
//! The footer of a compacted segment has one more total, which reading the blocks would not give.
//! Such a segment was whole before it got its name, so one without its footer is damaged:
//! ```text
//! 0      8         16          24              32
//! | next | records | raw bytes | removed bytes | entry 0 | entry 1 | … |
//!   next: the position after the last one of the segment; records: those that are left
//!   removed bytes: of all records that compactions ever removed from the segment's positions
//! ```
//! The trailer:
//! ```text
//! 0               8               12    16      24
//! | footer offset | footer length | crc | magic |
//!   length: of header and payload
//!   crc: CRC-32C of the salt (see `block.rs`) with the offset of the trailer, then of bytes 0..12
//! ```

use crate::format::block::{BLOCK_HEADER_BYTES, BlockHeader, BlockKind, Salt};
use crate::format::index::{BlockEntry, BlockIndex, CompactionTotals};
use crate::format::le;
use crate::{ErrorKind, Result};
use quire_env::{AppendFile, Env, ReadFile};
use quire_model::Position;
use quire_pack::Packing;
use quire_seeded::{Bug, seeded};
use std::path::Path;

pub(crate) const TRAILER_BYTES: usize = 24;
const TOTALS_BYTES: usize = 24;
const COMPACTED_TOTALS_BYTES: usize = 32;
/// Bytes of one index entry.
pub(crate) const ENTRY_BYTES: usize = 8;
const MAGIC: [u8; 8] = *b"QLOGSEAL";
/// Bytes of footer and trailer of a segment with no blocks.
pub(crate) const FOOTER_FIXED_BYTES: usize = BLOCK_HEADER_BYTES + TOTALS_BYTES + TRAILER_BYTES;

/// Bytes of footer and trailer of a segment of `blocks` blocks.
pub(crate) fn footer_bytes(blocks: usize) -> u64 {
    (FOOTER_FIXED_BYTES + blocks * ENTRY_BYTES) as u64
}

/// Encodes footer and trailer of the segment whose blocks `index` lists.
pub(crate) fn encode(index: &BlockIndex, base: Position, salt: Salt) -> Vec<u8> {
    let offset = index.end();
    let entries = index.entries();
    assert!(
        index.next().0 - base.0 >= index.records(),
        "a footer counts no more records than positions"
    );
    let totals = match index.compaction() {
        None => TOTALS_BYTES,
        Some(_) => COMPACTED_TOTALS_BYTES,
    };
    let length = BLOCK_HEADER_BYTES + totals + entries.len() * ENTRY_BYTES;
    let mut out = vec![0; BLOCK_HEADER_BYTES];
    out.reserve_exact(length + TRAILER_BYTES - BLOCK_HEADER_BYTES);
    let short = u64::from(seeded(Bug::FooterOneRecordShort));
    out.extend_from_slice(&(index.next().0 - short).to_le_bytes());
    out.extend_from_slice(&(index.records() - short.min(index.records())).to_le_bytes());
    out.extend_from_slice(&index.raw_bytes().to_le_bytes());
    if let Some(compacted) = index.compaction() {
        out.extend_from_slice(&compacted.removed_bytes.to_le_bytes());
    }
    for entry in entries {
        out.extend_from_slice(&entry.first.to_le_bytes());
        out.extend_from_slice(&entry.offset.to_le_bytes());
    }
    let payload_length = (length - BLOCK_HEADER_BYTES) as u32;
    let header = BlockHeader {
        kind: BlockKind::Footer,
        packing: Packing::None,
        group_continues: false,
        with_dictionary: false,
        records: entries.len() as u32,
        positions: 0,
        raw_length: payload_length,
        stored_length: payload_length,
        first: base,
        durable: offset,
        payload_crc: crc32c::crc32c(&out[BLOCK_HEADER_BYTES..]),
    };
    out[..BLOCK_HEADER_BYTES].copy_from_slice(&header.encode(salt, offset));
    assert_eq!(out.len(), length, "a footer is as long as its trailer says");
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&(length as u32).to_le_bytes());
    let crc = salt.crc(offset + length as u64, &out[length..]);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&MAGIC);
    out
}

/// Replaces what follows the blocks of a segment with footer and trailer, and releases reserved
/// space. All its blocks are durable. Returns the length of the file. A segment without blocks gets
/// no footer: there is nothing to find in it.
pub(crate) fn write(
    mut file: Box<dyn AppendFile>,
    index: &BlockIndex,
    base: Position,
    salt: Salt,
) -> Result<u64> {
    if file.len() > index.end() {
        file.truncate(index.end())?;
    }
    if !index.entries().is_empty() {
        file.append(&encode(index, base, salt))?;
    }
    let length = file.len();
    file.truncate(length)?;
    file.sync()?;
    Ok(length)
}

/// As [`write`], for a segment without space reserved for its footer: if the disk is full, the
/// segment stays without one.
pub(crate) fn write_if_room(
    env: &dyn Env,
    path: &Path,
    index: &BlockIndex,
    base: Position,
    salt: Salt,
) -> Result<u64> {
    match write(env.open_append(path)?, index, base, salt) {
        Err(error) if error.kind() == ErrorKind::NoSpace => {
            let mut file = env.open_append(path)?;
            file.truncate(index.end())?;
            file.sync()?;
            Ok(file.len())
        }
        written => written,
    }
}

/// Reads the index of a segment of `file_bytes` from its footer; `None` if it has no whole and
/// consistent one.
pub(crate) fn load(
    file: &dyn ReadFile,
    file_bytes: u64,
    base: Position,
    salt: Salt,
) -> Result<Option<BlockIndex>> {
    let Some(trailer_offset) = file_bytes.checked_sub(TRAILER_BYTES as u64) else {
        return Ok(None);
    };
    let trailer = file.read_at(trailer_offset, TRAILER_BYTES)?;
    let Some((offset, length)) = decode_trailer(&trailer, trailer_offset, salt) else {
        return Ok(None);
    };
    let footer = file.read_at(offset, length)?;
    Ok(decode(&footer, offset, base, salt))
}

fn decode_trailer(trailer: &[u8], trailer_offset: u64, salt: Salt) -> Option<(u64, usize)> {
    let checked = trailer.get(..12)?;
    let crc = le::u32_at(trailer, 12)?;
    let right = crc == salt.crc(trailer_offset, checked) || seeded(Bug::LogChecksumUnchecked);
    if !trailer.ends_with(&MAGIC) || !right {
        return None;
    }
    let offset = le::u64_at(trailer, 0)?;
    let length = le::u32_at(trailer, 8)?;
    // The footer ends where the trailer begins, so its length is bounded by the file's.
    (offset.checked_add(u64::from(length))? == trailer_offset).then_some((offset, length as usize))
}

/// Decodes the footer at `offset`; `None` if the bytes are not a whole and consistent footer.
pub(crate) fn decode(footer: &[u8], offset: u64, base: Position, salt: Salt) -> Option<BlockIndex> {
    let header = BlockHeader::decode(footer, salt, offset).ok()?;
    let payload = footer.get(BLOCK_HEADER_BYTES..)?;
    header.check_payload(payload).ok()?;
    decode_payload(&header, payload, offset, base)
}

/// As [`decode`], of a payload whose checksum holds.
pub(crate) fn decode_payload(
    header: &BlockHeader,
    payload: &[u8],
    offset: u64,
    base: Position,
) -> Option<BlockIndex> {
    let (next, records) = (le::u64_at(payload, 0)?, le::u64_at(payload, 8)?);
    let raw_bytes = le::u64_at(payload, 16)?;
    let entries_bytes = (header.records as usize).checked_mul(ENTRY_BYTES)?;
    let (totals, table) = payload.split_at_checked(payload.len().checked_sub(entries_bytes)?)?;
    let compacted = match totals.len() {
        TOTALS_BYTES => None,
        COMPACTED_TOTALS_BYTES => Some(CompactionTotals {
            records,
            removed_bytes: le::u64_at(totals, 24)?,
        }),
        _ => return None,
    };
    let entries: Vec<BlockEntry> = table
        .chunks_exact(ENTRY_BYTES)
        .map(|entry| {
            Some(BlockEntry {
                first: le::u32_at(entry, 0)?,
                offset: le::u32_at(entry, 4)?,
            })
        })
        .collect::<Option<_>>()?;
    let agrees = header.kind == BlockKind::Footer
        && header.first == base
        && match compacted {
            None => next.checked_sub(base.0) == Some(records),
            Some(_) => next.checked_sub(base.0) >= Some(records),
        };
    if !agrees {
        return None;
    }
    BlockIndex::from_parts(base, entries, offset, Position(next), raw_bytes, compacted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogIdentity;
    use crate::format::header::HEADER_BYTES;

    #[test]
    fn footer_comes_back_and_any_changed_byte_is_refused() {
        let (base, salt) = (Position(5), Salt::new(LogIdentity([3; 16]), Position(5)));
        let mut written = BlockIndex::new(base, HEADER_BYTES as u64);
        assert!(written.push(3, 100, 200) && written.push(1, 60, 20));
        assert_eq!(
            encode(&written, base, salt).len(),
            FOOTER_FIXED_BYTES + 2 * ENTRY_BYTES
        );
        let mut compacted = BlockIndex::compacted(base, 500);
        assert!(compacted.push_at(Position(9), 3, 8, 100, 200));
        compacted.finish_compacted(Position(40), 12345);
        for index in [written, compacted] {
            check(&index, base, salt);
        }
    }

    fn check(index: &BlockIndex, base: Position, salt: Salt) {
        let bytes = encode(index, base, salt);
        let read = |bytes: &[u8]| {
            let split = bytes.len() - TRAILER_BYTES;
            let (offset, length) =
                decode_trailer(&bytes[split..], index.end() + split as u64, salt)?;
            assert_eq!(length, split);
            decode(&bytes[..split], offset, base, salt)
        };
        assert_eq!(read(&bytes), Some(index.clone()));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            assert_eq!(read(&changed), None, "byte {at}");
        }
    }
}
