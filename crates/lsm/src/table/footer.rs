//! Header and footer: the ends of a table file.
//!
//! # Layout (little-endian)
//! ```text
//! header  0                8          12         20    24
//!         | magic QUIRETBL | version  | salt     | crc |
//!
//! footer  0       8        16           24                  32        36    40               48
//!         | salt  | digest | top offset | properties offset | version | crc | magic QUIRETBL |
//! ```
//! - crc is CRC-32C of the bytes before it in the header or footer.
//! - salt is random, different for each file, and part of every frame's checksum.
//! - digest is XXH3-64 (seed: the salt) of the CRCs of all frames, 4 bytes each, in file order. The
//!   manifest keeps it, so a file with other contents is noticed by its footer alone.
//! - version is 3, or 4 if there may be frames in zstd, so that programs that know none say so; 2
//!   in files of older programs, which have no padded frames; 1 in yet older ones, which have no
//!   block in the fixed layout either, and filter pages of 64 lines. Else they are the same.
//! - Later versions keep the places of version, crc and magic in the footer.

use crate::{BlockCodec, Error, Result};
use quire_seeded::{Bug, seeded};
use std::path::Path;

/// The format written without zstd.
const VERSION: u32 = 3;
/// The format written with zstd, and the newest read.
const VERSION_ZSTD: u32 = 4;
/// The oldest read.
const VERSION_MIN: u32 = 1;

const MAGIC: [u8; 8] = *b"QUIRETBL";
pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const FOOTER_BYTES: usize = 48;
const _: () = assert!(HEADER_BYTES == 8 + 4 + 8 + 4);
const _: () = assert!(FOOTER_BYTES == 4 * 8 + 4 + 4 + 8);

/// What the footer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) salt: u64,
    pub(crate) digest: u64,
    pub(crate) top_offset: u64,
    pub(crate) properties_offset: u64,
    pub(crate) version: u32,
}

/// The `N` bytes at `at`. The caller's arrays are long enough; zeros stand for what is not there.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..)
        .and_then(|rest| rest.first_chunk())
        .copied()
        .unwrap_or([0; N])
}

/// The format of a file whose frames are packed so.
pub(crate) fn version_of(codec: BlockCodec) -> u32 {
    match codec {
        BlockCodec::None | BlockCodec::Lz4 => VERSION,
        BlockCodec::Zstd { .. } => VERSION_ZSTD,
    }
}

/// The header of a file with this salt.
pub(crate) fn encode_header(salt: u64, version: u32) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(version.to_le_bytes());
    out.extend(salt.to_le_bytes());
    out.extend(crc32c::crc32c(&out).to_le_bytes());
    out
}

/// The salt that a header holds.
///
/// # Errors
/// `Corrupt` or `UnsupportedVersion`, about `path`.
pub(crate) fn decode_header(header: &[u8; HEADER_BYTES], path: &Path) -> Result<u64> {
    let ends = Ends {
        path,
        offset: 0,
        bytes: header,
    };
    ends.check(0, 8, 20)?;
    Ok(u64::from_le_bytes(field(header, 12)))
}

impl Footer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        for number in [
            self.salt,
            self.digest,
            self.top_offset,
            self.properties_offset,
        ] {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.version.to_le_bytes());
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out.extend(MAGIC);
        out
    }

    /// The footer found at `offset` of `path`.
    ///
    /// # Errors
    /// `Corrupt` or `UnsupportedVersion`, about `path`; also for offsets that do not lie in order
    /// before the footer.
    pub(crate) fn decode(footer: &[u8; FOOTER_BYTES], offset: u64, path: &Path) -> Result<Footer> {
        let ends = Ends {
            path,
            offset,
            bytes: footer,
        };
        let version = ends.check(40, 32, 36)?;
        let number = |at| u64::from_le_bytes(field(footer, at));
        let decoded = Footer {
            salt: number(0),
            digest: number(8),
            top_offset: number(16),
            properties_offset: number(24),
            version,
        };
        let Footer {
            top_offset,
            properties_offset,
            ..
        } = decoded;
        if top_offset < HEADER_BYTES as u64 || top_offset > properties_offset {
            return Err(ends.corrupt("offset of the top index", 16, properties_offset, top_offset));
        }
        if properties_offset > offset {
            return Err(ends.corrupt("offset of the properties", 24, offset, properties_offset));
        }
        Ok(decoded)
    }
}

/// The bytes of a header or footer, for errors.
struct Ends<'a> {
    path: &'a Path,
    offset: u64,
    bytes: &'a [u8],
}

impl Ends<'_> {
    /// Checks magic, checksum, version, which stand at these places. Returns the version.
    fn check(&self, magic_at: usize, version_at: usize, crc_at: usize) -> Result<u32> {
        let magic: [u8; 8] = field(self.bytes, magic_at);
        if magic != MAGIC {
            let number = u64::from_be_bytes;
            return Err(self.corrupt(
                "magic of a table file",
                magic_at,
                number(MAGIC),
                number(magic),
            ));
        }
        let crc = u32::from_le_bytes(field(self.bytes, crc_at));
        let found = crc32c::crc32c(self.bytes.get(..crc_at).unwrap_or_default());
        if crc != found && !seeded(Bug::TableChecksumUnchecked) {
            return Err(self.corrupt(
                "checksum of header or footer",
                crc_at,
                u64::from(crc),
                u64::from(found),
            ));
        }
        match u32::from_le_bytes(field(self.bytes, version_at)) {
            version @ VERSION_MIN..=VERSION_ZSTD => Ok(version),
            found => Err(Error::UnsupportedVersion {
                path: self.path.to_path_buf(),
                found,
                newest: VERSION_ZSTD,
            }),
        }
    }

    fn corrupt(&self, what: &'static str, at: usize, expected: u64, found: u64) -> Error {
        Error::Corrupt {
            path: self.path.to_path_buf(),
            what,
            offset: self.offset + at as u64,
            expected,
            found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn ends_come_back_and_every_flipped_bit_is_refused() {
        let path = Path::new("t");
        let header: [u8; HEADER_BYTES] = encode_header(77, VERSION).try_into().unwrap();
        assert_eq!(decode_header(&header, path).unwrap(), 77);
        let footer = Footer {
            salt: 77,
            digest: 3,
            top_offset: 24,
            properties_offset: 90,
            version: 1,
        };
        let bytes: [u8; FOOTER_BYTES] = footer.encode().try_into().unwrap();
        assert_eq!(Footer::decode(&bytes, 90, path).unwrap(), footer);
        for bit in 0..8 * FOOTER_BYTES {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                Footer::decode(&damaged, 90, path).unwrap_err().kind(),
                ErrorKind::Corrupt,
                "bit {bit}"
            );
        }
        for bit in 0..8 * HEADER_BYTES {
            let mut damaged = header;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                decode_header(&damaged, path).unwrap_err().kind(),
                ErrorKind::Corrupt,
                "bit {bit}"
            );
        }
    }

    #[test]
    fn another_version_is_named_and_offsets_out_of_order_are_refused() {
        let path = Path::new("t");
        let mut header = encode_header(77, VERSION);
        header[8] = 9;
        let crc = crc32c::crc32c(&header[..20]).to_le_bytes();
        header[20..].copy_from_slice(&crc);
        let error = decode_header(&header.try_into().unwrap(), path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
        for (top_offset, properties_offset) in [(0, 50), (60, 50), (24, 91)] {
            let footer = Footer {
                salt: 0,
                digest: 0,
                top_offset,
                properties_offset,
                version: VERSION,
            };
            let bytes: [u8; FOOTER_BYTES] = footer.encode().try_into().unwrap();
            assert!(Footer::decode(&bytes, 90, path).is_err());
        }
    }
}
