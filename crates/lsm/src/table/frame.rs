//! Frame: how a block is stored.
//!
//! # Layout (little-endian)
//! ```text
//! | contents …                     | codec (1) | crc (4) |     codec 0: as they are
//! | length (4) | LZ4 block …       | codec (1) | crc (4) |     codec 1
//! | contents … | 0 … | padding (1) | codec (1) | crc (4) |     codec 2: as they are, padded
//! | length (4) | zstd frame …      | codec (1) | crc (4) |     codec 3: in files of version 4
//! ```
//! The length of codecs 1 and 3 is that of the contents. `padding` counts the bytes of padding, 1
//! to 255, its own too.
//!
//! Padding fills up a page of the file, so that the next frame begins in another: see [`Fit`].
//!
//! The CRC-32C is of the file's salt (8), the frame's offset in the file (8), and all bytes before
//! the CRC. So a frame that was written to the wrong place, or left over from another file, does
//! not pass.

use crate::{BlockCodec, TableDamage};
use bytes::Bytes;
use quire_pack::{Packer, Packing, unpack};
use quire_seeded::{Bug, seeded};

/// Bytes after the contents.
pub(crate) const TRAILER_BYTES: usize = 5;

/// No block is longer than this, uncompressed: one entry of the greatest size, or the top index of
/// a vast table.
const CONTENTS_BYTES_MAX: usize = 256 << 20;

/// LZ4 cannot make a byte stand for more than this many.
const LZ4_RATIO_MAX: usize = 255;

const CODEC_NONE: u8 = 0;
const CODEC_LZ4: u8 = 1;
const CODEC_PADDED: u8 = 2;
const CODEC_ZSTD: u8 = 3;

/// A page of the system's memory of files, on most machines: what is in one costs one fault, and
/// one look into the processor's table of pages.
const PAGE_BYTES: usize = 4096;

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

/// How blocks of about `block_bytes`, stored as they are, fill the pages of a file: those of small
/// entries do not lie in two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fit {
    block_bytes: usize,
}

impl Fit {
    /// That of a tree's data blocks; `None` if they are packed, or longer than a page.
    pub(crate) fn of(codec: BlockCodec, block_bytes: usize) -> Option<Fit> {
        (codec == BlockCodec::None && block_bytes <= PAGE_BYTES).then_some(Fit { block_bytes })
    }

    /// The longest contents of a frame at `offset` that shares what is left of its page evenly with
    /// as many others as there is room for. If that is too little for any, it goes over into the
    /// next page.
    pub(crate) fn contents_bytes(self, offset: u64) -> usize {
        let mut left = left_of_page(offset);
        if left < self.block_bytes / 2 {
            left += PAGE_BYTES;
        }
        let frames = ((left + self.block_bytes / 2) / self.block_bytes).max(1);
        (left / frames).saturating_sub(TRAILER_BYTES)
    }

    /// The padding of a frame that would end at `offset`: what is left of the page, if no other
    /// will go there.
    fn padding(self, offset: u64) -> u8 {
        match left_of_page(offset) {
            left if left < PAGE_BYTES && left < self.block_bytes / 2 => {
                u8::try_from(left).unwrap_or(0)
            }
            _ => 0,
        }
    }
}

/// Bytes from `offset` to the end of its page.
fn left_of_page(offset: u64) -> usize {
    PAGE_BYTES - offset as usize % PAGE_BYTES
}

fn checksum(salt: u64, offset: u64, body: &[u8]) -> u32 {
    let place = (u128::from(offset) << 64 | u128::from(salt)).to_le_bytes();
    crc32c::crc32c_append(crc32c::crc32c(&place), body)
}

/// Puts the frame of `contents`, to be stored at `offset`, in `out`, replacing what it held. What
/// is stored as it is, without a packer or because that would not save an eighth, is padded to
/// `fit`. Returns the CRC.
pub(crate) fn seal(
    salt: u64,
    offset: u64,
    contents: &[u8],
    packer: Option<&mut Packer>,
    fit: Option<Fit>,
    out: &mut Vec<u8>,
) -> u32 {
    out.clear();
    if let Some(packer) = packer {
        pack(contents, packer, out);
    }
    if out.is_empty() {
        out.extend_from_slice(contents);
        let end = offset + (contents.len() + TRAILER_BYTES) as u64;
        match fit.map_or(0, |fit| fit.padding(end)) {
            0 => out.push(CODEC_NONE),
            padding => {
                out.resize(contents.len() + usize::from(padding) - 1, 0);
                out.extend([padding, CODEC_PADDED]);
            }
        }
    }
    let crc = checksum(salt, offset, out);
    out.extend_from_slice(&crc.to_le_bytes());
    crc
}

/// Packed contents and their codec; nothing if that would not save an eighth.
fn pack(contents: &[u8], packer: &mut Packer, out: &mut Vec<u8>) {
    let Ok(length) = u32::try_from(contents.len()) else {
        return;
    };
    out.extend_from_slice(&length.to_le_bytes());
    let codec = match packer.pack(contents, out).0 {
        Packing::None => None,
        Packing::Lz4 => Some(CODEC_LZ4),
        Packing::Zstd => Some(CODEC_ZSTD),
    };
    match codec {
        Some(codec) if out.len() < contents.len() - contents.len() / 8 => out.push(codec),
        _ => out.clear(),
    }
}

/// The CRC of the frame `stored`, found at `offset`, once it is found right.
///
/// # Errors
/// [`TableDamage`] if it is not.
pub(crate) fn check(salt: u64, offset: u64, stored: &[u8]) -> Result<u32, TableDamage> {
    let (body, crc) = stored
        .split_last_chunk::<4>()
        .ok_or_else(|| too_short(stored))?;
    let (crc, found) = (u32::from_le_bytes(*crc), checksum(salt, offset, body));
    if crc != found && !seeded(Bug::TableChecksumUnchecked) {
        return Err(TableDamage::new("block checksum", 0, crc, found));
    }
    Ok(crc)
}

fn too_short(stored: &[u8]) -> TableDamage {
    TableDamage::new("block length", 0, TRAILER_BYTES, stored.len())
}

/// What a frame holds, once it was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body<'a> {
    AsStored(&'a [u8]),
    /// Length and packed contents.
    Packed(Packing, &'a [u8]),
}

/// A frame, open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) contents: Bytes,
    pub(crate) crc: u32,
    /// Whether the contents lie in the file as they are.
    pub(crate) as_stored: bool,
}

/// Opens the frame `stored`, found at `offset`. Uncompressed contents share `stored`'s memory.
///
/// # Errors
/// [`TableDamage`] for any bytes that [`seal`] did not put there.
pub(crate) fn open(salt: u64, offset: u64, stored: &Bytes) -> Result<Opened, TableDamage> {
    let crc = check(salt, offset, stored)?;
    let (contents, as_stored) = match body(stored)? {
        Body::AsStored(contents) => (stored.slice(..contents.len()), true),
        Body::Packed(packing, packed) => (open_packed(stored, packing, packed)?, false),
    };
    Ok(Opened {
        contents,
        crc,
        as_stored,
    })
}

/// As [`open`], of a frame whose contents are stored as they are: where they lie.
///
/// # Errors
/// [`TableDamage`] for any bytes that [`seal`] did not put there, and contents that are not stored
/// so.
pub(crate) fn open_as_stored(salt: u64, offset: u64, stored: &[u8]) -> Result<&[u8], TableDamage> {
    check(salt, offset, stored)?;
    match body(stored)? {
        Body::AsStored(contents) => Ok(contents),
        Body::Packed(Packing::Zstd, packed) => Err(wrong_codec(packed, CODEC_ZSTD)),
        Body::Packed(_, packed) => Err(wrong_codec(packed, CODEC_LZ4)),
    }
}

/// What is in the frame `stored`, before its CRC.
fn body(stored: &[u8]) -> Result<Body<'_>, TableDamage> {
    let body = stored.get(..stored.len().saturating_sub(4));
    let split = body.unwrap_or_default().split_last();
    let (&codec, contents) = split.ok_or_else(|| too_short(stored))?;
    match codec {
        CODEC_NONE => Ok(Body::AsStored(contents)),
        CODEC_LZ4 => Ok(Body::Packed(Packing::Lz4, contents)),
        CODEC_ZSTD => Ok(Body::Packed(Packing::Zstd, contents)),
        CODEC_PADDED => {
            let padding = contents.last().copied().filter(|&padding| padding > 0);
            let end = padding.and_then(|padding| contents.len().checked_sub(padding.into()));
            let contents = end.and_then(|end| contents.get(..end));
            let wrong =
                || TableDamage::new("padding of a block", 0, stored.len(), padding.unwrap_or(0));
            Ok(Body::AsStored(contents.ok_or_else(wrong)?))
        }
        _ => Err(wrong_codec(contents, codec)),
    }
}

fn wrong_codec(contents: &[u8], codec: u8) -> TableDamage {
    TableDamage::new("block codec", contents.len(), CODEC_ZSTD, codec)
}

fn open_packed(stored: &Bytes, packing: Packing, packed: &[u8]) -> Result<Bytes, TableDamage> {
    let (length, packed) = packed
        .split_first_chunk::<4>()
        .ok_or_else(|| TableDamage::new("compressed block", 0, 4u64, packed.len()))?;
    let length = u32::from_le_bytes(*length) as usize;
    let length_max = match packing {
        Packing::Lz4 => CONTENTS_BYTES_MAX.min(packed.len().saturating_mul(LZ4_RATIO_MAX)),
        Packing::None | Packing::Zstd => CONTENTS_BYTES_MAX,
    };
    if length > length_max {
        let what = "length of a compressed block";
        return Err(TableDamage::new(what, 0, length_max, length));
    }
    unpack(packing, stored.slice_ref(packed), length, None)
        .ok_or_else(|| TableDamage::new("compressed block", 4, length, 0u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::any_codec;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn contents_come_back_and_every_other_byte_place_or_salt_is_refused(
            contents in prop_oneof![vec(any::<u8>(), 0..80), vec(0u8..2, 0..400)],
            codec in any_codec(),
            salt: u64,
            offset in 0u64..1 << 40,
            fit in proptest::option::of(1usize..4096),
        ) {
            let fit = fit.map(|block_bytes| Fit { block_bytes });
            let mut stored = Vec::new();
            let crc = seal(salt, offset, &contents, codec.packer().as_mut(), fit, &mut stored);
            let stored = Bytes::from(stored);
            let padding = stored.len().saturating_sub(contents.len() + TRAILER_BYTES);
            let end = offset as usize + stored.len();
            prop_assert!(padding < 256 && (padding == 0 || end.is_multiple_of(PAGE_BYTES)));
            let opened = open(salt, offset, &stored).unwrap();
            prop_assert_eq!((&opened.contents[..], opened.crc), (&contents[..], crc));
            let in_place = open_as_stored(salt, offset, &stored).ok();
            prop_assert_eq!(in_place, opened.as_stored.then_some(&contents[..]));
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
            body in vec(any::<u8>(), 0..60), codec in 0u8..5,
        ) {
            let mut stored = body;
            stored.push(codec);
            stored.extend(checksum(1, 2, &stored).to_le_bytes());
            let _ = open(1, 2, &Bytes::from(stored));
        }

        #[test]
        fn frames_of_small_entries_fill_pages_and_lie_in_one(
            entry_bytes in 1usize..120,
            block_bytes in 512usize..2048,
        ) {
            let (fit, mut offset, mut unused) = (Fit { block_bytes }, 24, 0);
            let mut stored = Vec::new();
            while offset < 1 << 18 {
                let entries = (fit.contents_bytes(offset) / entry_bytes).max(1);
                seal(1, offset, &vec![7; entries * entry_bytes], None, Some(fit), &mut stored);
                let end = offset + stored.len() as u64;
                prop_assert!(offset / PAGE_BYTES as u64 == (end - 1) / PAGE_BYTES as u64);
                unused += stored.len() - entries * entry_bytes;
                offset = end;
            }
            prop_assert!(unused < (1 << 18) / 12);
        }
    }
}
