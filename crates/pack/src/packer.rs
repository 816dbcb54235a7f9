//! Packing pieces, and unpacking them.
//!
//! # Invariants
//! 1. Unpacking allocates the raw length that a checked header says, and no more: whatever a piece
//!    claims to hold, one that holds anything else is refused.
//! 2. Contexts of zstd that are kept for later are few: they take some 160 KiB each.

use crate::{Codec, Dictionary};
use bytes::Bytes;
use parking_lot::Mutex;
use std::fmt;
use zstd::zstd_safe::{CCtx, CDict, DCtx, compress_bound, get_frame_content_size};

/// How a piece is stored, as its header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Packing {
    /// As it is.
    None = 0,
    /// In the block format of LZ4.
    Lz4 = 1,
    /// A frame of zstd that says its raw length.
    Zstd = 2,
}

impl Packing {
    /// The packing that this byte of a header names.
    #[must_use]
    pub fn decode(byte: u8) -> Option<Packing> {
        match byte {
            0 => Some(Packing::None),
            1 => Some(Packing::Lz4),
            2 => Some(Packing::Zstd),
            _ => None,
        }
    }
}

/// The room for compression from which it is allocated anew.
const FRESH_BYTES: usize = 1 << 20;

/// Packs pieces, one after another.
pub struct Packer {
    codec: Codec,
    zstd: Option<Zstd>,
    /// What LZ4 may refer back to before a piece.
    front: Bytes,
}

struct Zstd {
    context: CCtx<'static>,
    level: i32,
    dictionary: Option<CDict<'static>>,
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer")
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

impl Packer {
    /// For pieces in `codec`; zstd uses the dictionary, which their reader needs too.
    #[must_use]
    pub fn new(codec: Codec, dictionary: Option<&Dictionary>) -> Packer {
        let zstd = match codec {
            Codec::None | Codec::Lz4 => None,
            Codec::Zstd { level, .. } => CCtx::try_create().map(|context| Zstd {
                context,
                level: level.into(),
                dictionary: dictionary
                    .and_then(|dictionary| CDict::try_create(dictionary.bytes(), level.into())),
            }),
        };
        Packer {
            codec,
            zstd,
            front: Bytes::new(),
        }
    }

    /// For pieces in LZ4 as if each stood behind `front`, which their reader needs too. LZ4 refers
    /// back 64 KiB at most.
    #[must_use]
    pub fn lz4_behind(front: Bytes) -> Packer {
        Packer {
            front,
            ..Packer::new(Codec::Lz4, None)
        }
    }

    /// Appends `raw` to `out`, packed if that makes it smaller. Says how, and whether with the
    /// dictionary.
    pub fn pack(&mut self, raw: &[u8], out: &mut Vec<u8>) -> (Packing, bool) {
        let start = out.len();
        let packed = match self.codec {
            Codec::None => None,
            Codec::Lz4 => {
                let bytes_max = lz4_flex::block::get_maximum_output_size(raw.len());
                lengthen(out, bytes_max);
                let room = &mut out[start..];
                let length = match self.front.is_empty() {
                    true => lz4_flex::block::compress_into(raw, room),
                    false => lz4_flex::block::compress_into_with_dict(raw, room, &self.front),
                };
                let is_behind = !self.front.is_empty();
                length.ok().map(|length| (length, Packing::Lz4, is_behind))
            }
            Codec::Zstd { .. } => self.zstd.as_mut().and_then(|zstd| {
                lengthen(out, compress_bound(raw.len()));
                let room = &mut out[start..];
                let (context, dictionary) = (&mut zstd.context, &zstd.dictionary);
                let length = match dictionary {
                    Some(dictionary) => context.compress_using_cdict(room, raw, dictionary),
                    None => context.compress(room, raw, zstd.level),
                };
                Some((length.ok()?, Packing::Zstd, dictionary.is_some()))
            }),
        };
        match packed {
            Some((length, packing, with_dictionary)) if length < raw.len() => {
                out.truncate(start + length);
                (packing, with_dictionary)
            }
            _ => {
                out.truncate(start);
                out.extend_from_slice(raw);
                (Packing::None, false)
            }
        }
    }
}

/// Appends `bytes` zeros. For many, the memory is new: the system gives it page by page as it is
/// written to, so that what compression leaves out takes none.
fn lengthen(out: &mut Vec<u8>, bytes: usize) {
    if bytes < FRESH_BYTES {
        out.resize(out.len() + bytes, 0);
        return;
    }
    let mut longer = vec![0; out.len() + bytes];
    longer[..out.len()].copy_from_slice(out);
    *out = longer;
}

/// The `raw_length` bytes that were packed as `stored`; `None` if it holds anything else. That many
/// are allocated: the caller has checked the number, or has a limit.
#[must_use]
pub fn unpack(
    packing: Packing,
    stored: Bytes,
    raw_length: usize,
    dictionary: Option<&Dictionary>,
) -> Option<Bytes> {
    let mut raw = match packing {
        Packing::None => return (stored.len() == raw_length).then_some(stored),
        Packing::Zstd if get_frame_content_size(&stored).ok()? != Some(raw_length as u64) => {
            return None;
        }
        Packing::Lz4 | Packing::Zstd => vec![0; raw_length],
    };
    let length = match packing {
        Packing::Zstd => unpack_zstd(&stored, &mut raw, dictionary),
        _ => lz4_flex::block::decompress_into(&stored, &mut raw).ok(),
    };
    (length == Some(raw_length)).then(|| Bytes::from(raw))
}

/// Fills `raw` with what was packed by LZ4 behind `front`; `None` if `stored` holds anything else.
#[must_use]
pub fn unpack_lz4_behind(front: &[u8], stored: &[u8], raw: &mut [u8]) -> Option<()> {
    let length = match front.is_empty() {
        true => lz4_flex::block::decompress_into(stored, raw),
        false => lz4_flex::block::decompress_into_with_dict(stored, raw, front),
    };
    (length.ok() == Some(raw.len())).then_some(())
}

/// Contexts that nobody uses now.
static SPARE: Mutex<Vec<DCtx<'static>>> = Mutex::new(Vec::new());
/// This many are kept.
const SPARE_MAX: usize = 16;

fn unpack_zstd(stored: &[u8], raw: &mut [u8], dictionary: Option<&Dictionary>) -> Option<usize> {
    let spare = SPARE.lock().pop();
    let mut context = spare.or_else(DCtx::try_create)?;
    let length = match dictionary {
        Some(dictionary) => context.decompress_using_ddict(raw, stored, dictionary.decoder()),
        None => context.decompress(raw, stored),
    };
    let mut spare = SPARE.lock();
    if spare.len() < SPARE_MAX {
        spare.push(context);
    }
    length.ok()
}
