//! Segments of a live shard: documents by the layers of column blocks that have their values.
//!
//! # Invariants
//! 1. Each wanted document is in one segment.
//! 2. A document that changed since the index is in the segment of the layer of changes that it is
//!    live in.
//! 3. Of the others, one that is marked, or that is in a plain or small layer of one of the fields,
//!    is in the one segment that is made in memory for the query, with all its values.

use super::column::{LayerColumn, ListedBuilder};
use super::column_blocks::{FieldBlock, damaged};
use super::shard::LiveShard;
use crate::{Error, Result};
use quire_index::{DocSet, term};
use quire_query::{
    Batches, Column, End, Ordinals, Path, Segment, Shard, TermRange, ordinals_between,
};
use smallvec::SmallVec;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Documents of one block, and the place of the layer of each field that has their values.
type Class = (DocSet, SmallVec<[Option<usize>; 2]>);

impl LiveShard<'_> {
    /// See [`Shard::segments`](quire_query::Shard::segments).
    pub(crate) fn segments_of(&self, paths: &[&Path], docs: &DocSet) -> Result<Vec<Segment<'_>>> {
        let mut segments = Vec::new();
        let mut listed = DocSet::empty();
        let unchanged = docs - self.changed_docs();
        let blocks = self.columns.blocks_of(&unchanged);
        for block in blocks.iter().copied() {
            let fields = paths.iter().map(|path| self.columns.block(path, block));
            let fields: Vec<Arc<FieldBlock>> = fields.collect::<Result<_>>()?;
            let of_block = match blocks.len() {
                1 => unchanged.clone(),
                _ => &unchanged & &self.columns.docids(block),
            };
            let mut classes: Vec<Class> = vec![(of_block, SmallVec::new())];
            for field in &fields {
                let mut split = Vec::with_capacity(classes.len());
                for (mut left, layers) in classes {
                    for apart in [&field.marked, &field.unpacked] {
                        let own = &left & apart;
                        if !own.is_empty() {
                            left -= &own;
                            listed |= &own;
                        }
                    }
                    let docs_min = self.columns.layer_docs_min;
                    // As no layer above the oldest one has enough of them, none needs a look.
                    let above = &left & field.above();
                    if !above.is_empty() && above.len() < docs_min {
                        left -= &above;
                        listed |= &above;
                    }
                    for (place, own) in field.by_packed_layer(&left) {
                        match own.len() == left.len() {
                            true => left = DocSet::empty(),
                            false => left -= &own,
                        }
                        match own.len() >= docs_min {
                            true => {
                                let mut layers = layers.clone();
                                layers.push(Some(place));
                                split.push((own, layers));
                            }
                            false => listed |= &own,
                        }
                    }
                    if !left.is_empty() {
                        let mut layers = layers.clone();
                        layers.push(None);
                        split.push((left, layers));
                    }
                }
                classes = split;
            }
            for (docs, layers) in classes {
                let columns = fields.iter().zip(layers).map(|(field, place)| {
                    let column = LayerColumn::new(Arc::clone(field), place?, self.damage_slot());
                    Some(Box::new(column) as Box<dyn Column + '_>)
                });
                segments.push(Segment {
                    columns: columns.collect(),
                    docs: Some(docs),
                });
            }
        }
        if !listed.is_empty() {
            segments.push(self.listed(paths, listed)?);
        }
        self.push_changed(paths, docs, &mut segments);
        Ok(segments)
    }

    /// Adds a segment of each layer of changes.
    fn push_changed(&self, paths: &[&Path], docs: &DocSet, segments: &mut Vec<Segment<'_>>) {
        for layer in self.all_changed().layers() {
            let own = docs & layer.live();
            if own.is_empty() {
                continue;
            }
            let columns = paths.iter().map(|path| {
                let column = layer.column(path);
                let has_values = column.zone().is_some();
                has_values.then(|| Box::new(column) as Box<dyn Column + '_>)
            });
            segments.push(Segment {
                columns: columns.collect(),
                docs: Some(own),
            });
        }
    }

    /// The segment of documents whose values are brought into memory.
    ///
    /// # Errors
    /// `ValuesTooLarge` if those of marked documents, which are read, are more than may be.
    pub(crate) fn listed(&self, paths: &[&Path], docs: DocSet) -> Result<Segment<'_>> {
        let mut columns: Vec<Option<Box<dyn Column + '_>>> = Vec::with_capacity(paths.len());
        let bytes_max = self.values_bytes_max;
        let mut left = Some(bytes_max);
        for path in paths {
            let mut builder = ListedBuilder::default();
            let unchanged = &docs - self.changed_docs();
            let mut marked = DocSet::empty();
            let blocks = self.columns.blocks_of(&unchanged);
            for block in &blocks {
                marked |= &self.columns.block(path, *block)?.marked;
            }
            marked &= &unchanged;
            self.read(&marked, &mut |doc, document| {
                path.visit(document.root(), &mut |value| {
                    let taken = builder.add(doc, |bytes| term::encode(value, bytes));
                    left = left.and_then(|left| left.checked_sub(taken));
                    match left {
                        Some(_) => ControlFlow::Continue(()),
                        None => ControlFlow::Break(()),
                    }
                })
            })?;
            if left.is_none() {
                return Err(Error::ValuesTooLarge { bytes_max });
            }
            for block in blocks {
                let block = self.columns.block(path, block)?;
                let see = &mut |doc: u32, term: &[u8]| builder.add_term(doc, term);
                block.each_term(&unchanged, see).map_err(damaged)?;
            }
            for layer in self.all_changed().layers() {
                let see = &mut |doc: u32, term: &[u8]| builder.add_term(doc, term);
                layer.column(path).each_term(&(&docs & layer.live()), see);
            }
            let column = builder.finish();
            columns.push(column.zone().is_some().then(|| Box::new(column) as Box<_>));
        }
        Ok(Segment {
            docs: Some(docs),
            columns,
        })
    }

    /// Those of some documents that have a value in a range, tested one by one.
    pub(crate) fn retained(
        &self,
        path: &Path,
        range: &TermRange,
        docs: &DocSet,
    ) -> quire_query::Result<DocSet> {
        let mut kept = DocSet::empty();
        let (mut ends, mut ordinals) = (Vec::new(), Ordinals::default());
        let segments = self.segments_of(&[path], docs);
        for segment in segments.map_err(|error| self.failed(error))? {
            let docs = segment.docs.as_ref().unwrap_or(docs);
            let Some(Some(column)) = segment.columns.first() else {
                continue;
            };
            let end = column.ordinal_end();
            let wanted = ordinals_between(range.bounds(), end, |term| column.ordinal_of(term))?;
            let mut batches = Batches::new(docs);
            while let Some(docs) = batches.next_batch() {
                if column.has_many() {
                    column.ordinals(docs, &mut ordinals)?;
                    let is_in = |own: &[u64]| own.iter().any(|one| wanted.contains(one));
                    let found = docs.iter().zip(ordinals.iter());
                    kept.extend(found.filter(|(_, own)| is_in(own)).map(|(doc, _)| *doc));
                } else {
                    column.ends(docs, End::Smallest, &mut ends)?;
                    let found = docs.iter().zip(&ends);
                    let is_in = |(_, one): &(&u32, &u64)| wanted.contains(*one);
                    kept.extend(found.filter(is_in).map(|(doc, _)| *doc));
                }
            }
        }
        Ok(kept)
    }

    /// The documents that did not change with a value in a range, by the columns; and those that
    /// must be read to know.
    pub(crate) fn in_range(&self, path: &Path, range: &TermRange) -> Result<(DocSet, DocSet)> {
        let bits_of_block = 1usize << self.columns.block_bits;
        let block_count = (self.doc_end() as usize).div_ceil(bits_of_block);
        // A block has a word at least.
        let words_of_block = bits_of_block.div_ceil(64);
        let mut bits = vec![0u64; block_count * words_of_block];
        let mut marked = DocSet::empty();
        for (block, bits) in (0u32..).zip(bits.chunks_mut(words_of_block)) {
            let block = self.columns.block(path, block)?;
            marked |= &block.marked;
            block.paint(range, bits).map_err(damaged)?;
        }
        Ok((DocSet::from_bits(&bits), marked))
    }
}
