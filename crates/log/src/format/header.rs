//! Segment header: the first 48 bytes of a segment.
//!
//! # Invariants
//! 1. A segment gets its name when its first `born` bytes are durable: the header, its dictionary,
//!    and the blocks that it began with.
//! 2. A *compacted* segment, version 2 or 4, gets its name when all of it is durable. It replaces
//!    every segment that held its positions. Another segment with a base among those positions is
//!    one that it was made from, and that a crash kept from being removed.
//! 3. An *unsynced* segment, version 5 or 6, may get its name before the segments before it are
//!    durable. See `unsynced.rs`.
//!
//! # Layout (little-endian)
//! ```text
//! 0       8         12     16         32     40     44    48
//! | magic | version | positions | identity | base | born | crc |
//!   identity: the log's; base: the first position, as in the file's name
//!   version: 1, a segment as it was written; 2, a compacted one; 3 and 4, as 1 and 2, but with
//!     blocks in zstd and maybe a dictionary before them: a program that does not know zstd says
//!     so, and reports no damage; 5 and 6, as 1 and 3, an unsynced one
//!   positions: 0 in versions 1, 3, 5 and 6; in 2 and 4 the number of positions of the segment,
//!     with or without a record
//!   born: bytes of the file when it got its name: 48 if it began with no blocks and no
//!     dictionary; 48 in versions 2 and 4
//!   crc: CRC-32C of bytes 0..44
//! The size of the header and the offsets of magic, version and crc are the same in all versions.
//! ```

use crate::format::le;
use crate::{Error, LogIdentity, Result};
use quire_env::ReadFile;
use quire_model::Position;
use quire_seeded::{Bug, seeded};
use std::path::{Path, PathBuf};

pub(crate) const HEADER_BYTES: usize = 48;
const MAGIC: [u8; 8] = *b"QUIRELOG";
/// The format version of segments as they are written, and of all that is in them.
const VERSION_WRITTEN: u32 = 1;
/// The format version of compacted segments.
const VERSION_COMPACTED: u32 = 2;
/// As [`VERSION_WRITTEN`], for segments that may hold blocks in zstd.
const VERSION_WRITTEN_ZSTD: u32 = 3;
/// As [`VERSION_COMPACTED`], for segments that may hold blocks in zstd.
const VERSION_COMPACTED_ZSTD: u32 = 4;
/// As [`VERSION_WRITTEN`], for unsynced segments.
const VERSION_UNSYNCED: u32 = 5;
/// As [`VERSION_WRITTEN_ZSTD`], for unsynced segments.
const VERSION_UNSYNCED_ZSTD: u32 = 6;
const _: () = assert!(HEADER_BYTES == 8 + 4 + 4 + 16 + 8 + 4 + 4);

/// What a segment says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) identity: LogIdentity,
    pub(crate) base: Position,
    /// At most `u32::MAX`.
    pub(crate) born: u64,
    /// Of a compacted segment: the number of positions that it holds, from `base` on, with or
    /// without a record.
    pub(crate) positions: Option<u32>,
    /// The segment may hold blocks in zstd, and a dictionary.
    pub(crate) zstd: bool,
    /// The segments before it may not have been durable when it got its name. Never set in a
    /// compacted segment.
    pub(crate) unsynced: bool,
}

/// Why some bytes are not a valid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// Too short, or the checksum does not match: damaged, or never written whole.
    Invalid(&'static str),
    /// Whole, and of a version that this code does not know.
    Version(u32),
}

impl HeaderFault {
    /// The fault as an error about a file.
    pub(crate) fn into_error(self, path: &Path) -> Error {
        match self {
            HeaderFault::Invalid(what) => Error::corrupt(path, 0, what, None),
            HeaderFault::Version(found) => Error::UnsupportedVersion {
                path: path.to_path_buf(),
                found,
                supported: VERSION_UNSYNCED_ZSTD,
            },
        }
    }
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        assert!(
            self.born >= HEADER_BYTES as u64,
            "a segment is born with its header"
        );
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        let (version, positions) = match (self.positions, self.zstd) {
            (None, false) if self.unsynced => (VERSION_UNSYNCED, 0),
            (None, true) if self.unsynced => (VERSION_UNSYNCED_ZSTD, 0),
            (None, false) => (VERSION_WRITTEN, 0),
            (None, true) => (VERSION_WRITTEN_ZSTD, 0),
            (Some(positions), false) => (VERSION_COMPACTED, positions),
            (Some(positions), true) => (VERSION_COMPACTED_ZSTD, positions),
        };
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        bytes[12..16].copy_from_slice(&positions.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.identity.0);
        bytes[32..40].copy_from_slice(&self.base.0.to_le_bytes());
        bytes[40..44].copy_from_slice(&(self.born as u32).to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..44]);
        bytes[44..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<SegmentHeader, HeaderFault> {
        let short = HeaderFault::Invalid("segment header cut short");
        let checked = bytes.get(..44).ok_or(short)?;
        let crc = le::u32_at(bytes, 44).ok_or(short)?;
        if !checked.starts_with(&MAGIC) {
            return Err(HeaderFault::Invalid("not a log segment (wrong magic)"));
        }
        if crc != crc32c::crc32c(checked) && !seeded(Bug::LogChecksumUnchecked) {
            return Err(HeaderFault::Invalid("segment header checksum mismatch"));
        }
        let version = le::u32_at(bytes, 8).ok_or(short)?;
        let (positions, zstd) = match (version, le::u32_at(bytes, 12).ok_or(short)?) {
            (VERSION_WRITTEN | VERSION_UNSYNCED, 0) => (None, false),
            (VERSION_WRITTEN_ZSTD | VERSION_UNSYNCED_ZSTD, 0) => (None, true),
            (VERSION_COMPACTED, positions) if positions > 0 => (Some(positions), false),
            (VERSION_COMPACTED_ZSTD, positions) if positions > 0 => (Some(positions), true),
            _ => return Err(HeaderFault::Version(version)),
        };
        let identity = LogIdentity(le::bytes16_at(bytes, 16).ok_or(short)?);
        let base = Position(le::u64_at(bytes, 32).ok_or(short)?);
        let born = u64::from(le::u32_at(bytes, 40).ok_or(short)?);
        Ok(SegmentHeader {
            identity,
            base,
            born,
            positions,
            zstd,
            unsynced: matches!(version, VERSION_UNSYNCED | VERSION_UNSYNCED_ZSTD),
        })
    }

    /// The position after the last one of a compacted segment.
    pub(crate) fn compacted_end(&self) -> Option<Position> {
        self.positions
            .map(|positions| Position(self.base.0.saturating_add(u64::from(positions))))
    }
}

/// The path of the segment whose first record has position `base`.
pub fn segment_path(dir: &Path, base: Position) -> PathBuf {
    dir.join(format!("{:020}.log", base.0))
}

/// The base in a file name; `None` if the name does not end as that of a segment does.
///
/// # Errors
/// [`Error::Corrupt`] if it does and is not 20 digits: a renamed or duplicated segment.
pub(crate) fn parse_segment_name(dir: &Path, name: &str) -> Result<Option<Position>> {
    let Some(digits) = name.strip_suffix(".log") else {
        return Ok(None);
    };
    let odd = || Error::corrupt(&dir.join(name), 0, "not a segment's name", None);
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(odd());
    }
    match digits.parse() {
        Ok(0) | Err(_) => Err(odd()),
        Ok(base) => Ok(Some(Position(base))),
    }
}

/// Reads and checks the header of the segment that the file's name says begins at `base`.
pub(crate) fn read_header(
    file: &dyn ReadFile,
    base: Position,
    identity: Option<LogIdentity>,
) -> Result<SegmentHeader> {
    let path = file.path();
    let length = file.len()?.min(HEADER_BYTES as u64) as usize;
    let bytes = file.read_at(0, length)?;
    let header = SegmentHeader::decode(&bytes).map_err(|fault| fault.into_error(path))?;
    if let Some(expected) = identity
        && header.identity != expected
    {
        return Err(Error::Foreign {
            path: path.to_path_buf(),
            expected: expected.to_string(),
            found: header.identity.to_string(),
        });
    }
    if header.base != base {
        let what = "segment renamed or duplicated: its name is not that of its first record";
        return Err(Error::corrupt(
            path,
            0,
            what,
            Some((header.base, header.base)),
        ));
    }
    Ok(header)
}

/// As [`read_header`]; `None` if the header is damaged.
pub(crate) fn read_whole_header(
    file: &dyn ReadFile,
    base: Position,
    identity: Option<LogIdentity>,
) -> Result<Option<SegmentHeader>> {
    match read_header(file, base, identity) {
        Ok(header) => Ok(Some(header)),
        Err(Error::Env(error)) => Err(Error::Env(error)),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_comes_back_and_any_changed_byte_is_refused() {
        let written = [false, true].map(|unsynced| (None, unsynced));
        let kinds = written.into_iter().chain([(Some(3_000_000_000), false)]);
        for ((positions, unsynced), zstd) in kinds.flat_map(|kind| [(kind, false), (kind, true)]) {
            let header = SegmentHeader {
                identity: LogIdentity([9; 16]),
                base: Position(77),
                born: 4_000_000_000,
                positions,
                zstd,
                unsynced,
            };
            let bytes = header.encode();
            assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
            for at in 0..bytes.len() {
                let mut changed = bytes;
                changed[at] ^= 0x10;
                assert!(SegmentHeader::decode(&changed).is_err(), "byte {at}");
                assert!(SegmentHeader::decode(&bytes[..at]).is_err(), "cut at {at}");
            }
        }
    }

    #[test]
    fn newer_version_is_named_as_such() {
        let mut bytes = SegmentHeader {
            identity: LogIdentity([9; 16]),
            base: Position(1),
            born: 48,
            positions: None,
            zstd: false,
            unsynced: false,
        }
        .encode();
        bytes[8] = 7;
        let crc = crc32c::crc32c(&bytes[..44]);
        bytes[44..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&bytes), Err(HeaderFault::Version(7)));
    }

    #[test]
    fn names_of_segments_are_exact() {
        let dir = Path::new("/d");
        let path = segment_path(dir, Position(42));
        assert_eq!(path, dir.join("00000000000000000042.log"));
        assert!(matches!(
            parse_segment_name(dir, "00000000000000000042.log"),
            Ok(Some(Position(42)))
        ));
        assert!(matches!(parse_segment_name(dir, "LOCK"), Ok(None)));
        for odd in [
            "42.log",
            "00000000000000000000.log",
            "99999999999999999999.log",
            "0000000000000000004x.log",
        ] {
            assert!(parse_segment_name(dir, odd).is_err(), "{odd}");
        }
    }
}
