//! [`ColumnChanges`]: the new values of many documents, turned into one change of each block.
//!
//! # Invariants
//! 1. A document is given once for each field whose values changed, with all that it has there now.
//! 2. A block is known by a number of the field, which the caller chooses, and by its place.

use super::key::is_long;
use quire_index::ColumnBlockWriter;
use quire_model::DocId;
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug)]
pub(crate) struct ColumnChanges {
    /// By field, then by block.
    blocks: Vec<BTreeMap<u32, ColumnBlockWriter>>,
    block_bits: u32,
    bytes: usize,
}

impl ColumnChanges {
    /// Of blocks of 2^`block_bits` docids, up to 2^16.
    pub(crate) fn new(block_bits: u32) -> ColumnChanges {
        assert!(block_bits <= 16, "a low has 16 bits");
        ColumnChanges {
            blocks: Vec::new(),
            block_bits,
            bytes: 0,
        }
    }

    /// Takes the values that a document has now in a field: none if it has none any more. One with
    /// a long value is marked. Numbers of fields are small.
    pub(crate) fn add<'t>(
        &mut self,
        field: u32,
        docid: DocId,
        terms: impl Iterator<Item = &'t [u8]>,
    ) {
        let (block, low) = split(docid, self.block_bits);
        let place = field as usize;
        if self.blocks.len() <= place {
            self.blocks.resize_with(place + 1, BTreeMap::new);
        }
        let Some(of_field) = self.blocks.get_mut(place) else {
            return;
        };
        let writer = of_field.entry(block).or_insert_with(|| {
            self.bytes += size_of::<ColumnBlockWriter>();
            ColumnBlockWriter::new()
        });
        let before = writer.bytes();
        let mut has_long = false;
        terms.for_each(|term| match is_long(term) {
            true => has_long = true,
            false => writer.push(term),
        });
        writer.end_document(low, has_long);
        self.bytes += writer.bytes() - before;
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Shows the operand of each block, by the number of the field and the place of the block.
    pub(crate) fn each_operand(self, mut see: impl FnMut(u32, u32, &[u8])) {
        let mut operand = Vec::new();
        for (field, blocks) in (0..).zip(self.blocks) {
            for (block, writer) in blocks {
                operand.clear();
                writer.encode_operand(&mut operand);
                see(field, block, &operand);
            }
        }
    }
}

/// The block of a docid, and the docid less the first one of the block.
fn split(docid: DocId, block_bits: u32) -> (u32, u16) {
    let low = docid.0 & ((1 << block_bits) - 1);
    (docid.0 >> block_bits, low as u16)
}
