//! [`LiveColumns`]: the column blocks of a live shard, read when they are first needed.

use super::column_blocks::{ColumnBlocks, FieldBlock, block_key};
use super::key;
use super::shared_reads::SharedReads;
use crate::Result;
use parking_lot::Mutex;
use quire_index::DocSet;
use quire_query::Path;
use std::collections::HashMap;
use std::sync::Arc;

/// Fewer documents than this of a layer are read into memory.
const LAYER_DOCS_MIN: u64 = 64;

/// The columns of a shard.
pub(crate) struct LiveColumns<'v> {
    blocks: &'v dyn ColumnBlocks,
    pub(crate) block_bits: u32,
    /// Layers with fewer documents than this are read into memory.
    pub(crate) layer_docs_min: u64,
    read: Mutex<HashMap<Path, Vec<Option<Arc<FieldBlock>>>>>,
    /// Where they are read for other queries too.
    pub(crate) shared: Option<Arc<SharedReads>>,
}

impl<'v> LiveColumns<'v> {
    /// Of blocks with 2^`block_bits` docids.
    pub(crate) fn new(blocks: &'v dyn ColumnBlocks, block_bits: u32) -> LiveColumns<'v> {
        LiveColumns {
            blocks,
            block_bits,
            layer_docs_min: LAYER_DOCS_MIN,
            read: Mutex::default(),
            shared: None,
        }
    }

    /// A block of a field.
    pub(crate) fn block(&self, path: &Path, block: u32) -> Result<Arc<FieldBlock>> {
        let place = block as usize;
        let known = self.read.lock();
        if let Some(Some(known)) = known.get(path).and_then(|blocks| blocks.get(place)) {
            return Ok(Arc::clone(known));
        }
        drop(known);
        let read = self.shared_block(path, block)?;
        let mut known = self.read.lock();
        let blocks = match known.get_mut(path) {
            Some(blocks) => blocks,
            None => known.entry(path.clone()).or_default(),
        };
        if blocks.len() <= place {
            blocks.resize(place + 1, None);
        }
        if let Some(slot) = blocks.get_mut(place) {
            *slot = Some(Arc::clone(&read));
        }
        Ok(read)
    }

    fn shared_block(&self, path: &Path, block: u32) -> Result<Arc<FieldBlock>> {
        let shared = self.shared.as_deref();
        if let Some(read) = shared.and_then(|shared| shared.block(path, block)) {
            return Ok(read);
        }
        let parts = self
            .blocks
            .parts(&block_key(&key::field(path.as_str()), block))?;
        let read = Arc::new(FieldBlock::new(parts, block << self.block_bits)?);
        if let Some(shared) = shared {
            shared.keep_block(path, block, &read);
        }
        Ok(read)
    }

    /// The numbers of the blocks that have docids of a set.
    pub(crate) fn blocks_of(&self, docs: &DocSet) -> Vec<u32> {
        let (mut blocks, mut left) = (Vec::new(), docs.iter());
        while let Some(doc) = left.next() {
            let block = doc >> self.block_bits;
            blocks.push(block);
            match (block + 1).checked_mul(1 << self.block_bits) {
                Some(next) => left.advance_to(next),
                None => break,
            }
        }
        blocks
    }

    /// The docids of a block.
    pub(crate) fn docids(&self, block: u32) -> DocSet {
        let mut docs = DocSet::empty();
        let first = block << self.block_bits;
        let length = (1u32 << self.block_bits) - 1;
        docs.insert_range(first..first.saturating_add(length));
        docs.insert(first.saturating_add(length));
        docs
    }
}
