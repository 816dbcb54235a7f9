//! [`NewDocuments`]: the values of documents that were not there before, turned into postings and
//! column blocks.
//!
//! Nothing leaves a posting, and no value is compared with another one: it is looked up once, in
//! its field's terms, for posting and column.
//!
//! # Invariants
//! 1. A document is given once, and is not there before the batch.
//! 2. A field whose terms are long, or many, is refused: it is to be taken otherwise.

use super::Indexer;
use super::key::{self, PRESENT, SEVERAL};
use super::values::{Slot, Terms};
use quire_index::{BLOCK_LOWS, InvertedBlock, TERM_BYTES_MAX, VALUES_MAX, encode_added};
use quire_model::{DocId, ValueRef};

/// A block has the docids of a cluster.
const _: () = assert!(BLOCK_LOWS == 1 << 16 && TERM_BYTES_MAX == key::TERM_BYTES_MAX);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct NewDocuments {
    /// By slot: the clusters, in the order in which they came.
    fields: Vec<Vec<(u16, InvertedBlock)>>,
}

/// Takes what new documents change in trees.
pub(crate) trait NewChanges {
    /// Documents enter a posting, of this key and by this operand.
    fn posting(&mut self, key: &[u8], operand: &[u8]);
    /// Documents have values in a field now.
    fn column(&mut self, slot: Slot, block: u32, operand: &[u8]);
}

impl NewDocuments {
    /// Takes what a document has in a field. False if it is refused.
    pub(crate) fn add(&mut self, slot: Slot, docid: DocId, terms: Terms<'_>) -> bool {
        if terms.len() > VALUES_MAX || terms.has_long() {
            return false;
        }
        if let Some(block) = self.block(slot, docid) {
            block.add(docid.0 as u16, terms.iter());
        }
        true
    }

    /// Takes the one value that each of some documents has in a field. Returns those that are
    /// refused.
    pub(crate) fn add_single<'v>(
        &mut self,
        slot: Slot,
        values: &[(DocId, ValueRef<'v>)],
    ) -> Vec<(DocId, ValueRef<'v>)> {
        let mut refused = Vec::new();
        for of_cluster in values.chunk_by(|(a, _), (b, _)| a.0 >> 16 == b.0 >> 16) {
            let first = of_cluster.first().map(|(docid, _)| *docid);
            let Some(block) = first.and_then(|first| self.block(slot, first)) else {
                continue;
            };
            for (docid, value) in of_cluster {
                if !block.add_one(docid.0 as u16, *value) {
                    refused.push((*docid, *value));
                }
            }
        }
        refused
    }

    /// The block of a field that has a document.
    fn block(&mut self, slot: Slot, docid: DocId) -> Option<&mut InvertedBlock> {
        let cluster = (docid.0 >> 16) as u16;
        if self.fields.len() <= slot.index() {
            self.fields.resize_with(slot.index() + 1, Vec::new);
        }
        let clusters = self.fields.get_mut(slot.index())?;
        // Mostly the one that came last.
        let at = clusters.iter().rposition(|(of, _)| *of == cluster);
        let at = at.unwrap_or_else(|| {
            clusters.push((cluster, InvertedBlock::new()));
            clusters.len() - 1
        });
        clusters.get_mut(at).map(|(_, block)| block)
    }

    /// About how many bytes of memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let blocks = self.fields.iter().flatten();
        let of_blocks = blocks.map(|(_, block)| size_of::<InvertedBlock>() + block.bytes());
        of_blocks.sum()
    }

    /// Shows all changes, field by field in the order of keys. The values were taken by this
    /// indexer.
    pub(crate) fn write(self, indexer: &Indexer, changes: &mut impl NewChanges) {
        let of_slots = (0..).map(Slot).zip(self.fields);
        let mut fields: Vec<_> = of_slots
            .filter_map(|(slot, clusters)| Some((indexer.field(slot)?, slot, clusters)))
            .collect();
        fields.sort_unstable_by(|(a, ..), (b, ..)| a.key.cmp(&b.key));
        let (mut key, mut operand) = (Vec::new(), Vec::new());
        for (field, slot, mut clusters) in fields {
            clusters.sort_unstable_by_key(|(cluster, _)| *cluster);
            key.clear();
            key.extend_from_slice(&field.key);
            for (cluster, block) in clusters {
                if block.is_empty() {
                    continue;
                }
                let inverted = block.finish();
                let mut posting = |suffix: &[u8], lows: &[u16]| {
                    if lows.is_empty() {
                        return;
                    }
                    key.truncate(field.key.len());
                    key.extend_from_slice(suffix);
                    key::push_cluster(&mut key, cluster);
                    operand.clear();
                    encode_added(lows, &mut operand);
                    changes.posting(&key, &operand);
                };
                posting(&[PRESENT], &inverted.present());
                inverted.each_posting(&mut posting);
                posting(&[SEVERAL], &inverted.several());
                operand.clear();
                inverted.encode_operand(&mut operand);
                if !operand.is_empty() {
                    changes.column(slot, cluster.into(), &operand);
                }
            }
        }
    }
}
