//! Dictionary: what the records of a log have in common, so that zstd need not find it anew in every block.
//!
//! A segment whose blocks need one holds it, as a block of kind 4 right after the segment's header (see `block.rs`; its
//! `first` is the segment's base, and `records` and `span` are 0). So every segment can be copied, checked and read alone.
//!
//! # Invariants
//! 1. A segment has at most one, before its first record, and never another one later.
//! 2. Dictionaries of the same bytes are in memory once, as long as a segment that was read or is written needs them.
//! 3. Many segments hold the same one. Where its bytes are damaged, those of another segment are as good if they have the
//!    checksum and the length that its header says.
//!
//! # Layout
//! The payload is in zstd's own format: a trained dictionary begins with its magic `37 A4 30 EC`, anything else is raw content
//! that frames refer back to.

use crate::block::{BLOCK_HEADER_BYTES, BlockHeader, BlockKind, Salt};
use crate::codec::Packing;
use crate::header::HEADER_BYTES;
use crate::{Error, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use quire_env::ReadFile;
use quire_model::Position;
use std::fmt;
use std::sync::{Arc, Weak};
use zstd::zstd_safe::{DDict, train_from_buffer};

/// A dictionary, ready to be used.
pub(crate) struct Dictionary {
    bytes: Bytes,
    decoder: DDict<'static>,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary")
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl Dictionary {
    /// `None` if zstd can't use these bytes.
    pub(crate) fn new(bytes: Bytes) -> Option<Dictionary> {
        let decoder = DDict::try_create(&bytes)?;
        Some(Dictionary { bytes, decoder })
    }

    /// Trains one of at most `bytes_max` on records that lie one after another in `samples`, and have these lengths. Of too few
    /// records, their last bytes are it. The same records make the same dictionary. `None` if there is nothing to learn.
    pub(crate) fn train(samples: &[u8], lengths: &[usize], bytes_max: usize) -> Option<Dictionary> {
        let mut trained = Vec::with_capacity(bytes_max);
        let bytes = match train_from_buffer(&mut trained, samples, lengths) {
            Ok(_) => Bytes::from(trained),
            Err(_) => {
                let start = samples.len().saturating_sub(bytes_max);
                Bytes::copy_from_slice(samples.get(start..)?)
            }
        };
        match bytes.is_empty() {
            true => None,
            false => Dictionary::new(bytes),
        }
    }

    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn decoder(&self) -> &DDict<'static> {
        &self.decoder
    }

    /// Bytes of the block that holds it.
    pub(crate) fn block_bytes(&self) -> u64 {
        (BLOCK_HEADER_BYTES + self.bytes.len()) as u64
    }

    /// Appends its block to `out`, as it follows the header of the segment that begins with `base`.
    pub(crate) fn encode(&self, base: Position, durable: u64, salt: Salt, out: &mut Vec<u8>) {
        let length = self.bytes.len() as u32;
        let header = BlockHeader {
            kind: BlockKind::Dictionary,
            packing: Packing::None,
            goes_on: false,
            with_dictionary: false,
            records: 0,
            span: 0,
            raw_length: length,
            stored_length: length,
            first: base,
            durable,
            payload_crc: crc32c::crc32c(&self.bytes),
        };
        out.extend_from_slice(&header.encode(salt, HEADER_BYTES as u64));
        out.extend_from_slice(&self.bytes);
    }
}

/// The dictionaries of a log that are in memory.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries(Mutex<Vec<Weak<Dictionary>>>);

impl Dictionaries {
    /// The dictionary of these bytes: the one in memory, if there is one. `None` if zstd can't use them.
    pub(crate) fn get(&self, bytes: Bytes) -> Option<Arc<Dictionary>> {
        let mut loaded = self.0.lock();
        loaded.retain(|dictionary| dictionary.strong_count() > 0);
        let same = loaded
            .iter()
            .filter_map(Weak::upgrade)
            .find(|dictionary| dictionary.bytes == bytes);
        if same.is_some() {
            return same;
        }
        // Without the block that the bytes were read with.
        let dictionary = Arc::new(Dictionary::new(Bytes::copy_from_slice(&bytes))?);
        loaded.push(Arc::downgrade(&dictionary));
        Some(dictionary)
    }

    /// The dictionary of a segment's file; `None` if it has none.
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

    /// The dictionary in memory that is the one that was written under `header`.
    fn with_checksum(&self, header: &BlockHeader) -> Option<Arc<Dictionary>> {
        let loaded = self.0.lock();
        let mut loaded = loaded.iter().filter_map(Weak::upgrade);
        loaded.find(|dictionary| {
            let bytes = dictionary.bytes();
            bytes.len() == header.raw_length as usize && crc32c::crc32c(bytes) == header.payload_crc
        })
    }
}
