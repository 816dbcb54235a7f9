//! Dictionary: the bytes that the records of a log have in common, so that zstd need not find them
//! again in every block.
//!
//! A segment whose blocks need a dictionary holds it, in a block of kind 4 right after the segment
//! header (see `block.rs`; `first` is the base of the segment, `records` and `positions` are 0). So
//! every segment can be copied, checked and read alone.
//!
//! # Invariants
//! 1. A segment has at most one dictionary, before its first record, and never gets another one.
//! 2. A dictionary is in memory once for all segments that hold the same bytes, as long as a
//!    segment that was read or is being written needs it.
//! 3. Many segments hold the same dictionary. If the bytes in one segment are damaged, those of
//!    another segment replace them, if they have the length and the checksum that the damaged block
//!    names.
//!
//! # Layout
//! The payload is in zstd's own format: a trained dictionary begins with its magic `37 A4 30 EC`,
//! anything else is raw content that frames refer back to.

use crate::format::block::{BLOCK_HEADER_BYTES, BlockHeader, BlockKind, Salt};
use crate::format::header::HEADER_BYTES;
use crate::{Error, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use quire_env::ReadFile;
use quire_model::Position;
use quire_pack::{Dictionary, Packing};
use std::sync::{Arc, Weak};

/// Bytes of the block that holds `dictionary`.
pub(crate) fn block_bytes(dictionary: &Dictionary) -> u64 {
    (BLOCK_HEADER_BYTES + dictionary.bytes().len()) as u64
}

/// Appends the block of a dictionary to `out`, for the place after the header of the segment that
/// begins with `base`.
pub(crate) fn encode_block(
    dictionary: &Dictionary,
    base: Position,
    durable: u64,
    salt: Salt,
    out: &mut Vec<u8>,
) {
    let length = dictionary.bytes().len() as u32;
    let header = BlockHeader {
        kind: BlockKind::Dictionary,
        packing: Packing::None,
        group_continues: false,
        with_dictionary: false,
        records: 0,
        positions: 0,
        raw_length: length,
        stored_length: length,
        first: base,
        durable,
        payload_crc: crc32c::crc32c(dictionary.bytes()),
    };
    out.extend_from_slice(&header.encode(salt, HEADER_BYTES as u64));
    out.extend_from_slice(dictionary.bytes());
}

/// The dictionaries of a log that are in memory.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries(Mutex<Vec<Weak<Dictionary>>>);

impl Dictionaries {
    /// The dictionary of these bytes; the one in memory, if there is one. `None` if zstd can't use
    /// them.
    pub(crate) fn get(&self, bytes: Bytes) -> Option<Arc<Dictionary>> {
        let mut loaded = self.0.lock();
        loaded.retain(|dictionary| dictionary.strong_count() > 0);
        let same = loaded
            .iter()
            .filter_map(Weak::upgrade)
            .find(|dictionary| *dictionary.bytes() == bytes);
        if same.is_some() {
            return same;
        }
        // A copy, so that it does not keep the whole block that was read in memory.
        let dictionary = Arc::new(Dictionary::new(Bytes::copy_from_slice(&bytes))?);
        loaded.push(Arc::downgrade(&dictionary));
        Some(dictionary)
    }

    /// The dictionary in the file of a segment; `None` if it has none.
    pub(crate) fn load(&self, file: &dyn ReadFile, salt: Salt) -> Result<Option<Arc<Dictionary>>> {
        let offset = HEADER_BYTES as u64;
        let damaged = |what| Error::corrupt(file.path(), offset, what, None);
        let read = |offset, length| {
            file.read_at(offset, length)
                .map_err(|error| match error.kind() {
                    quire_env::ErrorKind::UnexpectedEnd => {
                        damaged("file ends before its dictionary does")
                    }
                    _ => Error::Env(error),
                })
        };
        let bytes = read(offset, BLOCK_HEADER_BYTES)?;
        let header =
            BlockHeader::decode(&bytes, salt, offset).map_err(|fault| damaged(fault.what))?;
        if header.kind != BlockKind::Dictionary {
            return Ok(None);
        }
        let stored = read(
            offset + BLOCK_HEADER_BYTES as u64,
            header.stored_length as usize,
        )?;
        let found = match header.check_payload(&stored) {
            Ok(()) => self.get(stored).ok_or("dictionary that can't be used"),
            Err(fault) => self.with_checksum(&header).ok_or(fault.what),
        };
        found.map(Some).map_err(damaged)
    }

    /// The dictionary in memory whose length and checksum are those in `header`.
    fn with_checksum(&self, header: &BlockHeader) -> Option<Arc<Dictionary>> {
        let loaded = self.0.lock();
        let mut loaded = loaded.iter().filter_map(Weak::upgrade);
        loaded.find(|dictionary| {
            let bytes = dictionary.bytes();
            bytes.len() == header.raw_length as usize && crc32c::crc32c(bytes) == header.payload_crc
        })
    }
}
