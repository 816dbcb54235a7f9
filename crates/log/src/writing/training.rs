//! Training: the dictionary of new segments, and the calls that change how their blocks are packed.
//!
//! # Invariants
//! 1. New settings apply to segments begun afterwards: all blocks written to one segment are packed
//!    in one way.
//! 2. A dictionary is trained on the records of one sealed segment alone, so equal logs train equal
//!    dictionaries.

use crate::format::block::BLOCK_HEADER_BYTES;
use crate::format::index::BlockRange;
use crate::log::Log;
use crate::options::check_blocks;
use crate::reading::segment::Segment;
use crate::shared::Shared;
use crate::{Codec, Result};
use quire_pack::Dictionary;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A new dictionary is trained after this number of segments: often enough to follow the records as
/// they change, and seldom enough to cost next to nothing.
const SEGMENTS_PER_DICTIONARY: usize = 16;
/// A dictionary is trained on at most this number of times its own bytes, as zstd advises,
const SAMPLE_BYTES_PER_DICTIONARY_BYTE: usize = 100;
/// and on at most this number of bytes.
const SAMPLE_BYTES_MAX: usize = 16 << 20;
/// The most bytes of one record that are used.
const SAMPLE_RECORD_BYTES_MAX: usize = 16 << 10;

impl Log {
    /// Changes the size and the codec of blocks, from the next segment on. Existing blocks stay as
    /// they are until compaction rewrites them.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for what [`Log::open`] would
    /// refuse.
    pub fn set_blocks(&self, block_bytes: usize, codec: Codec) -> Result<()> {
        check_blocks(block_bytes, codec)?;
        let directory = &self.shared().directory;
        let changed = {
            let mut settings = directory.settings.lock();
            let changed = settings.codec.dictionary_bytes() != codec.dictionary_bytes();
            settings.block_bytes = block_bytes;
            settings.codec = codec;
            if changed {
                settings.trained = None;
                self.shared().training_due.store(true, Ordering::Release);
            }
            changed
        };
        if changed {
            directory.find_dictionary(&self.shared().segments.load());
        }
        Ok(())
    }

    /// Whether to call [`train_dictionary`](Log::train_dictionary): a segment was sealed since the
    /// last call, and new segments are to have a dictionary.
    pub fn dictionary_is_due(&self) -> bool {
        let shared = self.shared();
        shared.training_due.load(Ordering::Acquire)
            && shared.directory.settings.lock().codec.dictionary_bytes() > 0
    }

    /// Trains a dictionary on the newest sealed segment, if new segments are to have one and there
    /// is none yet or the last one is old. Returns whether it did. For the background: it reads
    /// some megabytes, and takes up to seconds of CPU time.
    ///
    /// # Errors
    /// Errors of reading the segment.
    pub fn train_dictionary(&self) -> Result<bool> {
        let shared = self.shared();
        shared.training_due.store(false, Ordering::Release);
        let (bytes, trained) = {
            let settings = shared.directory.settings.lock();
            let trained = settings.trained.as_ref();
            (
                settings.codec.dictionary_bytes(),
                trained.map(|(_, from)| *from),
            )
        };
        let segments = shared.segments.load_full();
        let sealed = segments.split_last().map_or(&[][..], |(_, sealed)| sealed);
        let is_young = trained.is_some_and(|from| {
            let after = sealed.partition_point(|segment| segment.base() <= from);
            sealed.len() - after < SEGMENTS_PER_DICTIONARY
        });
        let Some(newest) = sealed.last() else {
            return Ok(false);
        };
        if bytes == 0 || is_young {
            return Ok(false);
        }
        let Some(dictionary) = shared.train(newest, bytes)? else {
            return Ok(false);
        };
        shared
            .directory
            .settings
            .lock()
            .set_dictionary(dictionary, newest.base());
        Ok(true)
    }
}

impl Shared {
    /// Trains a dictionary of at most `bytes` on records sampled from all of `segment`.
    fn train(&self, segment: &Segment, bytes: usize) -> Result<Option<Arc<Dictionary>>> {
        let sample_bytes_max = (SAMPLE_BYTES_PER_DICTIONARY_BYTE * bytes).min(SAMPLE_BYTES_MAX);
        let (mut samples, mut lengths) = (Vec::new(), Vec::new());
        for range in spread(segment, sample_bytes_max) {
            let read = segment.file().read_at(range.offset, range.length);
            let stored = read.map_err(|error| segment.read_error(error, range))?;
            let block = segment.decode(range, &stored)?;
            let mut next = block.first();
            while let Some((position, record)) = block.next_record(next) {
                let length = record.len().min(SAMPLE_RECORD_BYTES_MAX);
                if samples.len() + length > sample_bytes_max {
                    break;
                }
                samples.extend_from_slice(record.get(..length).unwrap_or_default());
                lengths.push(length);
                next = position.next();
            }
        }
        let dictionary = Dictionary::train(&samples, &lengths, bytes);
        Ok(dictionary.and_then(|dictionary| {
            let bytes = dictionary.bytes().clone();
            self.directory.dictionaries.get(bytes)
        }))
    }
}

/// Blocks spread evenly over a segment, of about `raw_bytes` in all.
fn spread(segment: &Segment, raw_bytes: usize) -> Vec<BlockRange> {
    let index = segment.index().read();
    let blocks = index.entries().len();
    let block_bytes = index.raw_bytes() / (blocks as u64).max(1) + BLOCK_HEADER_BYTES as u64;
    let wanted = (raw_bytes as u64 / block_bytes).max(1) as usize;
    let step = (blocks / wanted).max(1);
    let starts = index.entries().iter().step_by(step);
    starts
        .filter_map(|entry| index.find_at(entry.offset.into()))
        .collect()
}
