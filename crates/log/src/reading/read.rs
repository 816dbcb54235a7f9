//! Reads by position: of pending records, and of records in segments.

use crate::Result;
use crate::format::records::RecordBlock;
use crate::reading::segment::{Segment, segment_of};
use crate::shared::Shared;
use bytes::Bytes;
use quire_model::Position;
use std::sync::Arc;

impl Shared {
    /// The record at `position`: pending, or in one of `segments`.
    pub(crate) fn read(&self, segments: &[Arc<Segment>], position: Position) -> Result<Bytes> {
        self.check_accepted(position)?;
        match self.pending_record(position) {
            Some(record) => Ok(record),
            None => segment_of(segments, position)?.record(position, &self.directory.cache),
        }
    }

    /// The records at `positions`, in that order. They are read in disk order.
    pub(crate) fn read_many(
        &self,
        segments: &[Arc<Segment>],
        positions: &[Position],
    ) -> Result<Vec<Bytes>> {
        let at = |index: &usize| positions.get(*index).copied().unwrap_or_default();
        let mut order: Vec<usize> = (0..positions.len()).collect();
        order.sort_by_key(at);
        let mut records = vec![Bytes::new(); positions.len()];
        let mut rest = order.as_slice();
        let mut block: Option<RecordBlock> = None;
        while let Some((first, others)) = rest.split_first() {
            self.check_accepted(at(first))?;
            if let Some(record) = self.pending_record(at(first)) {
                if let Some(slot) = records.get_mut(*first) {
                    *slot = record;
                }
                rest = others;
                continue;
            }
            let segment = segment_of(segments, at(first))?;
            let ranges = segment.ranges_of(rest.iter().map(at))?;
            for (index, range) in rest.iter().zip(&ranges) {
                let found = match block.take().filter(|block| block.first() == range.first) {
                    Some(block) => block,
                    None => segment.block_at(*range, &self.directory.cache)?,
                };
                if let Some(slot) = records.get_mut(*index) {
                    *slot = segment.record_in(&found, at(index))?;
                }
                block = Some(found);
            }
            rest = rest.get(ranges.len()..).unwrap_or_default();
        }
        Ok(records)
    }
}
