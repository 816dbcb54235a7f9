//! Frame: how a block is stored.
//!
//! # Layout (little-endian)
//! ```text
//! | contents …                     | codec (1) | crc (4) |     codec 0: as they are
//! | length (4) | LZ4 block …       | codec (1) | crc (4) |     codec 1: length is that of the contents
//! ```
//! The CRC-32C is of the file's salt (8), the frame's offset in the file (8), and all bytes before the CRC. So a frame
//! that was written to the wrong place, or left over from another file, does not pass.

use crate::{Codec, Damage};
use bytes::Bytes;
use quire_planted::{Bug, planted};

/// Bytes after the contents.
pub(crate) const TRAILER_BYTES: usize = 5;

/// No block is longer than this, uncompressed: one entry of the greatest size, or the top index of a vast table.
const CONTENTS_BYTES_MAX: usize = 256 << 20;

/// LZ4 cannot make a byte stand for more than this many.
const LZ4_RATIO_MAX: usize = 255;

const CODEC_NONE: u8 = 0;
const CODEC_LZ4: u8 = 1;

/// Where a frame is: its offset in the file and its stored length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Handle {
    /// The first byte after it.
    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

fn checksum(salt: u64, offset: u64, body: &[u8]) -> u32 {
    let place = (u128::from(offset) << 64 | u128::from(salt)).to_le_bytes();
    crc32c::crc32c_append(crc32c::crc32c(&place), body)
}

/// Puts the frame of `contents`, to be stored at `offset`, in `out`, replacing what it held. Returns the CRC.
pub(crate) fn seal(
    salt: u64,
    offset: u64,
    contents: &[u8],
    codec: Codec,
    out: &mut Vec<u8>,
) -> u32 {
    out.clear();
    if codec == Codec::Lz4 {
        seal_lz4(contents, out);
    }
    if out.is_empty() {
        out.extend_from_slice(contents);
        out.push(CODEC_NONE);
    }
    let crc = checksum(salt, offset, out);
    out.extend_from_slice(&crc.to_le_bytes());
    crc
}

/// Compressed contents and their codec; nothing if that would not save an eighth.
fn seal_lz4(contents: &[u8], out: &mut Vec<u8>) {
    let Ok(length) = u32::try_from(contents.len()) else {
        return;
    };
    out.extend_from_slice(&length.to_le_bytes());
    out.resize(
        out.len() + lz4_flex::block::get_maximum_output_size(contents.len()),
        0,
    );
    let compressed = out
        .get_mut(4..)
        .and_then(|room| lz4_flex::block::compress_into(contents, room).ok());
    match compressed {
        Some(bytes) if bytes + 4 < contents.len() - contents.len() / 8 => {
            out.truncate(4 + bytes);
            out.push(CODEC_LZ4);
        }
        _ => out.clear(),
    }
}

/// The CRC of the frame `stored`, found at `offset`, once it is found right.
///
/// # Errors
/// [`Damage`] if it is not.
pub(crate) fn check(salt: u64, offset: u64, stored: &[u8]) -> Result<u32, Damage> {
    let (body, crc) = stored
        .split_last_chunk::<4>()
        .ok_or_else(|| too_short(stored))?;
    let (crc, found) = (u32::from_le_bytes(*crc), checksum(salt, offset, body));
    if crc != found && !planted(Bug::TableChecksumUnchecked) {
        return Err(Damage::new("block checksum", 0, crc, found));
    }
    Ok(crc)
}

fn too_short(stored: &[u8]) -> Damage {
    Damage::new("block length", 0, TRAILER_BYTES, stored.len())
}

/// The contents of the frame `stored`, found at `offset`, and its CRC. Uncompressed contents share `stored`'s memory.
///
/// # Errors
/// [`Damage`] for any bytes that [`seal`] did not put there.
pub(crate) fn open(salt: u64, offset: u64, stored: &Bytes) -> Result<(Bytes, u32), Damage> {
    let crc = check(salt, offset, stored)?;
    let (codec, contents) = split(stored)?;
    match codec {
        CODEC_NONE => Ok((stored.slice(..contents.len()), crc)),
        CODEC_LZ4 => Ok((open_lz4(contents)?, crc)),
        _ => Err(Damage::new("block codec", contents.len(), CODEC_LZ4, codec)),
    }
}

/// As [`open`], of a frame whose contents are stored as they are: where they lie.
///
/// # Errors
/// [`Damage`] for any bytes that [`seal`] did not put there, and for contents that are not stored so.
pub(crate) fn open_as_stored(salt: u64, offset: u64, stored: &[u8]) -> Result<&[u8], Damage> {
    check(salt, offset, stored)?;
    match split(stored)? {
        (CODEC_NONE, contents) => Ok(contents),
        (codec, contents) => Err(Damage::new(
            "block codec",
            contents.len(),
            CODEC_NONE,
            codec,
        )),
    }
}

/// The codec of a frame, and its contents as they are stored.
fn split(stored: &[u8]) -> Result<(u8, &[u8]), Damage> {
    let body = stored.get(..stored.len().saturating_sub(4));
    let split = body.unwrap_or_default().split_last();
    let (&codec, contents) = split.ok_or_else(|| too_short(stored))?;
    Ok((codec, contents))
}

fn open_lz4(contents: &[u8]) -> Result<Bytes, Damage> {
    let (length, compressed) = contents
        .split_first_chunk::<4>()
        .ok_or_else(|| Damage::new("compressed block", 0, 4u64, contents.len()))?;
    let length = u32::from_le_bytes(*length) as usize;
    let length_max = compressed
        .len()
        .saturating_mul(LZ4_RATIO_MAX)
        .min(CONTENTS_BYTES_MAX);
    if length > length_max {
        return Err(Damage::new(
            "length of a compressed block",
            0,
            length_max,
            length,
        ));
    }
    let mut out = vec![0; length];
    match lz4_flex::block::decompress_into(compressed, &mut out) {
        Ok(found) if found == length => Ok(Bytes::from(out)),
        Ok(found) => Err(Damage::new(
            "length of a compressed block",
            0,
            length,
            found,
        )),
        Err(_) => Err(Damage::new("compressed block", 4, length, 0u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn contents_come_back_and_every_other_byte_place_or_salt_is_refused(
            contents in prop_oneof![vec(any::<u8>(), 0..80), vec(0u8..2, 0..400)],
            lz4: bool, salt: u64, offset in 0u64..1 << 40,
        ) {
            let codec = if lz4 { Codec::Lz4 } else { Codec::None };
            let mut stored = Vec::new();
            let crc = seal(salt, offset, &contents, codec, &mut stored);
            let stored = Bytes::from(stored);
            prop_assert!(stored.len() <= contents.len() + TRAILER_BYTES);
            prop_assert_eq!(open(salt, offset, &stored), Ok((Bytes::from(contents), crc)));
            prop_assert!(open(salt ^ 1, offset, &stored).is_err());
            prop_assert!(open(salt, offset + 1, &stored).is_err());
            for at in 0..stored.len() {
                let mut damaged = stored.to_vec();
                damaged[at] ^= 1 << (at % 8);
                prop_assert!(open(salt, offset, &Bytes::from(damaged)).is_err());
                prop_assert!(open(salt, offset, &stored.slice(..at)).is_err());
            }
        }

        #[test]
        fn a_made_up_frame_with_a_right_checksum_is_refused_or_opened_but_never_panics(
            body in vec(any::<u8>(), 0..60), codec in 0u8..3,
        ) {
            let mut stored = body;
            stored.push(codec);
            stored.extend(checksum(1, 2, &stored).to_le_bytes());
            let _ = open(1, 2, &Bytes::from(stored));
        }
    }
}
