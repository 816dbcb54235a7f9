//! [`FieldBlock`]: the layers of a field in one block of docids, as a reader has them.
//!
//! # Layout of a key
//! ```text
//! | field: the path, as the term of a string | block: docid / block length (4, big-endian) |
//! ```

use super::tree_postings::tree_error;
use crate::{Error, Result};
use quire_index::{ColumnBlock, ColumnLayer, ColumnLayers, DocSet, IndexDamage};
use quire_lsm::{SmallBytes, TreeSnapshot, ValueParts};
use quire_query::{TermRange, ordinals_between};
use std::ops::Range;

/// A block of a column has two to this power docids.
pub(crate) const COLUMN_BLOCK_BITS: u32 = 16;

/// Column blocks by key, as of one position.
pub(crate) trait ColumnBlocks: Send + Sync {
    /// What is kept under a key.
    ///
    /// # Errors
    /// Damage on disk, by file and offset.
    fn parts(&self, key: &[u8]) -> Result<Option<ValueParts>>;
}

impl ColumnBlocks for TreeSnapshot {
    fn parts(&self, key: &[u8]) -> Result<Option<ValueParts>> {
        self.get_parts(key).map_err(tree_error)
    }
}

/// The key of a block.
pub(crate) fn block_key(field: &[u8], block: u32) -> Vec<u8> {
    [field, &block.to_be_bytes()].concat()
}

/// A layer, and what it contains.
#[derive(Debug)]
struct Layer {
    bytes: SmallBytes,
    range: Range<usize>,
    contained: DocSet,
    /// Of these, the documents that no newer layer contains.
    live: DocSet,
    /// It is a packed one, of at least one document.
    is_packed: bool,
}

impl Layer {
    fn docs_bytes(&self) -> usize {
        self.contained.heap_bytes() + self.live.heap_bytes()
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }

    fn view(&self) -> std::result::Result<ColumnLayer<'_>, IndexDamage> {
        ColumnLayer::new(self.bytes())
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FieldBlock {
    /// The first docid of the block.
    pub(crate) first: u32,
    /// The oldest first.
    layers: Vec<Layer>,
    /// The documents that are live in layers above the oldest one.
    above: DocSet,
    /// The documents that are live in layers that are not packed.
    pub(crate) unpacked: DocSet,
    /// Documents whose values must be read from themselves.
    pub(crate) marked: DocSet,
}

pub(crate) fn damaged(damage: IndexDamage) -> Error {
    Error::Index {
        what: damage.to_string(),
    }
}

impl FieldBlock {
    /// The block of these parts, whose first docid is `first`.
    ///
    /// # Errors
    /// Bytes that make no sense.
    pub(crate) fn new(parts: Option<ValueParts>, first: u32) -> Result<FieldBlock> {
        let mut block = FieldBlock {
            first,
            ..FieldBlock::default()
        };
        let Some(ValueParts { base, operands }) = parts else {
            return Ok(block);
        };
        for bytes in base.into_iter().chain(operands) {
            let mut slices = Vec::new();
            ColumnLayers::new(&bytes)
                .append_to(&mut slices)
                .map_err(damaged)?;
            let start = bytes.as_ptr() as usize;
            let ranges = slices.iter().map(|slice| {
                let begin = slice.as_ptr() as usize - start;
                begin..begin + slice.len()
            });
            let ranges: Vec<Range<usize>> = ranges.collect();
            for range in ranges {
                block.push(bytes.clone(), range).map_err(damaged)?;
            }
        }
        block.find_live();
        Ok(block)
    }

    /// Finds which documents are live in each layer.
    fn find_live(&mut self) {
        let (mut newer, mut unpacked) = (DocSet::empty(), DocSet::empty());
        for (place, layer) in self.layers.iter_mut().enumerate().rev() {
            layer.live = &layer.contained - &newer;
            if place > 0 {
                newer |= &layer.contained;
            }
            if !layer.is_packed {
                unpacked |= &layer.live;
            }
        }
        (self.above, self.unpacked) = (newer, unpacked);
    }

    /// Memory that it keeps, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let layers = self.layers.iter();
        let of_layers =
            layers.map(|layer| size_of::<Layer>() + layer.range.len() + layer.docs_bytes());
        of_layers.sum::<usize>()
            + [&self.marked, &self.above, &self.unpacked]
                .map(DocSet::heap_bytes)
                .iter()
                .sum::<usize>()
    }

    fn push(
        &mut self,
        bytes: SmallBytes,
        range: Range<usize>,
    ) -> std::result::Result<(), IndexDamage> {
        let mut layer = Layer {
            bytes,
            range,
            contained: DocSet::empty(),
            live: DocSet::empty(),
            is_packed: false,
        };
        let (mut contained, mut marked) = (DocSet::empty(), DocSet::empty());
        let is_packed = match layer.view()? {
            ColumnLayer::Plain(plain) => {
                let docid = |low: u16| self.first + u32::from(low);
                contained.extend(plain.rows().map(|row| docid(row.low)));
                let rows = plain.rows().filter(|row| row.is_marked);
                marked.extend(rows.map(|row| docid(row.low)));
                false
            }
            ColumnLayer::Packed(block) => {
                block.add_contained(self.first, &mut contained);
                block.add_marked(self.first, &mut marked);
                true
            }
        };
        self.marked -= &contained;
        self.marked |= &marked;
        layer.contained = contained;
        layer.is_packed = is_packed;
        self.layers.push(layer);
        Ok(())
    }

    /// Of some documents, those whose values each layer has: the layer's place, the documents, and
    /// whether it is packed. Others have no values, or are marked.
    pub(crate) fn by_layer(&self, docs: &DocSet) -> Vec<(usize, DocSet, bool)> {
        let wanted = docs - &self.marked;
        self.live_in(&wanted, |_| true)
    }

    /// The same of the packed layers alone, of documents that are not marked.
    pub(crate) fn by_packed_layer(&self, docs: &DocSet) -> Vec<(usize, DocSet)> {
        let found = self.live_in(docs, |layer| layer.is_packed);
        found
            .into_iter()
            .map(|(place, own, _)| (place, own))
            .collect()
    }

    /// The documents that are live in layers above the oldest one.
    pub(crate) fn above(&self) -> &DocSet {
        &self.above
    }

    fn live_in(
        &self,
        docs: &DocSet,
        is_wanted: impl Fn(&Layer) -> bool,
    ) -> Vec<(usize, DocSet, bool)> {
        let mut found = Vec::new();
        let mut find = |place: usize, docs: &DocSet| {
            let layer = self.layers.get(place).filter(|layer| is_wanted(layer));
            let own = layer.map(|layer| (docs & &layer.live, layer.is_packed));
            if let Some((own, is_packed)) = own.filter(|(own, _)| !own.is_empty()) {
                found.push((place, own, is_packed));
            }
        };
        // Mostly few are above: one look says so, instead of one at each layer.
        let above = docs & &self.above;
        if !above.is_empty() {
            (1..self.layers.len())
                .rev()
                .for_each(|place| find(place, &above));
        }
        find(0, docs);
        found
    }

    /// A packed layer.
    ///
    /// # Errors
    /// Bytes that make no sense.
    pub(crate) fn packed(&self, place: usize) -> std::result::Result<ColumnBlock<'_>, IndexDamage> {
        ColumnBlock::new(self.layers.get(place).map_or(&[], Layer::bytes))
    }

    /// The place of the oldest packed layer.
    pub(crate) fn oldest(&self) -> Option<usize> {
        self.layers.iter().position(|layer| layer.is_packed)
    }

    /// Shows the terms of documents that are not marked, ascending, each once.
    ///
    /// # Errors
    /// Bytes that make no sense.
    pub(crate) fn each_term(
        &self,
        docs: &DocSet,
        see: &mut dyn FnMut(u32, &[u8]),
    ) -> std::result::Result<(), IndexDamage> {
        for (place, own, _) in self.by_layer(docs) {
            let Some(layer) = self.layers.get(place) else {
                continue;
            };
            match layer.view()? {
                ColumnLayer::Plain(plain) => {
                    for row in plain.rows() {
                        let doc = self.first + u32::from(row.low);
                        if own.contains(doc) {
                            row.terms().for_each(|term| see(doc, term));
                        }
                    }
                }
                ColumnLayer::Packed(block) => {
                    let docs: Vec<u32> = own.iter().collect();
                    let (mut term, mut failed) = (Vec::new(), Ok(()));
                    for docs in docs.chunks(1024) {
                        let mut left = docs.iter();
                        block.ordinals(docs, self.first, |ordinals| {
                            let Some(doc) = left.next() else { return };
                            for ordinal in ordinals {
                                term.clear();
                                match block.term(*ordinal, &mut term) {
                                    Ok(()) => see(*doc, &term),
                                    Err(damage) => failed = Err(damage),
                                }
                            }
                        })?;
                    }
                    failed?;
                }
            }
        }
        Ok(())
    }

    /// Makes the bits of the block's documents, `bits` from its first one on, those that have a
    /// value which a test accepts; all terms between two bounds are accepted. Marked ones do not.
    ///
    /// # Errors
    /// Bytes that make no sense.
    pub(crate) fn paint(
        &self,
        range: &TermRange,
        bits: &mut [u64],
    ) -> std::result::Result<(), IndexDamage> {
        for (place, layer) in self.layers.iter().enumerate() {
            if place > 0 {
                for doc in &layer.contained {
                    let low = (doc - self.first) as usize;
                    if let Some(word) = bits.get_mut(low / 64) {
                        *word &= !(1 << (low % 64));
                    }
                }
            }
            match layer.view()? {
                ColumnLayer::Packed(block) => {
                    let of = |term: &[u8]| block.ordinal_of(term);
                    block.add_in_range(
                        ordinals_between(range.bounds(), block.ordinal_end(), of)?,
                        bits,
                    )?;
                }
                ColumnLayer::Plain(plain) => {
                    for row in plain.rows() {
                        let low = usize::from(row.low);
                        if row.terms().any(|term| range.contains(term))
                            && let Some(word) = bits.get_mut(low / 64)
                        {
                            *word |= 1 << (low % 64);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
