//! Settings of new segments: how their blocks are packed, which may change while the log is open.

use crate::Codec;
use quire_model::Position;
use quire_pack::Dictionary;
use std::sync::Arc;

/// How new segments are made.
#[derive(Debug, Clone)]
pub(crate) struct SegmentSettings {
    pub(crate) block_bytes: usize,
    pub(crate) codec: Codec,
    /// The dictionary for new segments, and the base of the segment that it was trained on.
    pub(crate) trained: Option<(Arc<Dictionary>, Position)>,
}

impl SegmentSettings {
    pub(crate) fn new(block_bytes: usize, codec: Codec) -> SegmentSettings {
        SegmentSettings {
            block_bytes,
            codec,
            trained: None,
        }
    }

    /// The dictionary of a new segment.
    pub(crate) fn dictionary(&self) -> Option<Arc<Dictionary>> {
        let trained = self.trained.as_ref();
        trained.map(|(dictionary, _)| dictionary.clone())
    }

    pub(crate) fn set_dictionary(&mut self, dictionary: Arc<Dictionary>, from: Position) {
        let wanted = 1..=self.codec.dictionary_bytes();
        if wanted.contains(&dictionary.bytes().len()) {
            self.trained = Some((dictionary, from));
        }
    }
}
