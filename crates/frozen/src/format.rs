//! The ends of a file: a header, which says what it is, and a trailer, which is written last and
//! read first.
//!
//! # Invariants
//! 1. A valid trailer means a whole file: it is written last.
//! 2. Every byte is under a checksum: the header's own, a section's (in the table), a block's of
//!    rows (before it), the table's (in the trailer), or the trailer's own.
//!
//! # Layout (little-endian)
//! ```text
//! | header (16) | blocks of rows, sections … | table | trailer (48) |
//!
//! header   | magic (8) | version (4) | crc of bytes 0..12 (4) |
//! trailer  0              8              16          20          24            32
//!          | table offset | table length | table crc | documents | file length |
//!          32        36          40      48
//!          | version | crc 0..36 | magic |
//!   checksums are CRC-32C; lengths in bytes; magic is B1 'Q' 'F' 'R' 'O' 'Z' 'E' 'N'
//! ```

use crate::le;
use quire_seeded::{Bug, seeded};

const MAGIC: [u8; 8] = *b"\xB1QFROZEN";
/// The format that is written, and the newest that is read.
pub(crate) const VERSION: u32 = 4;
/// The oldest that is read.
pub(crate) const VERSION_MIN: u32 = 2;
pub(crate) const HEADER_BYTES: usize = 16;
pub(crate) const TRAILER_BYTES: usize = 48;

/// The header of a file of a version.
pub(crate) fn header(version: u32) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    let parts = [&MAGIC[..], &version.to_le_bytes()].concat();
    let crc = crc32c::crc32c(&parts).to_le_bytes();
    for (to, from) in out.iter_mut().zip(parts.iter().chain(&crc)) {
        *to = *from;
    }
    out
}

/// Whether bytes are the first of a frozen partition of any version, as far as they go.
pub(crate) fn is_start(bytes: &[u8]) -> bool {
    let length = bytes.len().min(MAGIC.len());
    length > 0 && bytes.get(..length) == MAGIC.get(..length)
}

/// Whether bytes are the last of a frozen partition of any version.
pub(crate) fn is_end(bytes: &[u8]) -> bool {
    bytes.ends_with(&MAGIC)
}

/// Whether bytes have the checksum that they were written with.
pub(crate) fn is_right(written: u32, found: u32) -> bool {
    written == found || seeded(Bug::FrozenChecksumUnchecked)
}

/// Where the table is, and its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) version: u32,
    pub(crate) table_offset: u64,
    pub(crate) table_bytes: u64,
    pub(crate) table_crc: u32,
    pub(crate) documents: u32,
}

/// Why bytes are no trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTrailer {
    Damaged(&'static str),
    Version(u32),
}

impl Trailer {
    pub(crate) fn encode(self) -> [u8; TRAILER_BYTES] {
        let file_bytes = self.table_offset + self.table_bytes + TRAILER_BYTES as u64;
        let mut bytes = Vec::with_capacity(TRAILER_BYTES);
        bytes.extend_from_slice(&self.table_offset.to_le_bytes());
        bytes.extend_from_slice(&self.table_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.table_crc.to_le_bytes());
        bytes.extend_from_slice(&self.documents.to_le_bytes());
        bytes.extend_from_slice(&file_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes.extend_from_slice(&MAGIC);
        assert!(bytes.len() == TRAILER_BYTES, "the trailer is 48 bytes");
        let mut out = [0; TRAILER_BYTES];
        out.copy_from_slice(&bytes);
        out
    }

    /// The trailer that a file of `file_bytes` ends with.
    pub(crate) fn decode(bytes: &[u8], file_bytes: u64) -> Result<Trailer, NoTrailer> {
        if bytes.get(40..) != Some(&MAGIC[..]) {
            return Err(NoTrailer::Damaged("end of a frozen partition"));
        }
        let crc = bytes.get(..36).map(crc32c::crc32c);
        let crc = crc.zip(le::u32_at(bytes, 36));
        if !crc.is_some_and(|(found, written)| is_right(written, found)) {
            return Err(NoTrailer::Damaged("trailer"));
        }
        let parse = || {
            let trailer = Trailer {
                version: le::u32_at(bytes, 32)?,
                table_offset: le::u64_at(bytes, 0)?,
                table_bytes: le::u64_at(bytes, 8)?,
                table_crc: le::u32_at(bytes, 16)?,
                documents: le::u32_at(bytes, 20)?,
            };
            Some((trailer, le::u64_at(bytes, 24)?))
        };
        let (trailer, length) = parse().ok_or(NoTrailer::Damaged("trailer"))?;
        if !(VERSION_MIN..=VERSION).contains(&trailer.version) {
            return Err(NoTrailer::Version(trailer.version));
        }
        let end = trailer.table_offset.checked_add(trailer.table_bytes);
        let end = end.and_then(|end| end.checked_add(TRAILER_BYTES as u64));
        if length != file_bytes || end != Some(file_bytes) {
            return Err(NoTrailer::Damaged("length of a frozen partition"));
        }
        Ok(trailer)
    }
}
