//! Showing all that a tree of columns says, to compare it with the documents.

use super::column_blocks::{COLUMN_BLOCK_BITS, FieldBlock, damaged};
use super::column_merger::MergeColumns;
use super::tree_postings::tree_error;
use crate::Result;
use quire_index::DocSet;
use quire_lsm::{FoldedValue, SmallBytes, TreeSnapshot, ValueParts};
use quire_model::DocId;
use std::ops::{Bound, ControlFlow};

/// Shows each value: the beginning of its field's keys, the document, and the term; none for a
/// document whose values must be read from itself. The inner result says what makes no sense.
///
/// # Errors
/// Damage on disk, by file and offset.
pub(crate) fn each_column_value(
    tree: &TreeSnapshot,
    see: &mut dyn FnMut(&[u8], DocId, Option<&[u8]>),
) -> Result<std::result::Result<(), String>> {
    let scan = tree.scan(Bound::Unbounded, Bound::Unbounded);
    let mut scan = scan.map_err(tree_error)?;
    let visited = scan.visit_folded::<MergeColumns, String>(|key, value| {
        let layers = match value {
            FoldedValue::Stored(bytes) => bytes.to_vec(),
            FoldedValue::Folded(layers) => layers,
        };
        match show(key, layers, see) {
            Ok(()) => ControlFlow::Continue(()),
            Err(what) => ControlFlow::Break(what),
        }
    });
    Ok(match visited.map_err(tree_error)? {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(what) => Err(what),
    })
}

fn show(
    key: &[u8],
    layers: Vec<u8>,
    see: &mut dyn FnMut(&[u8], DocId, Option<&[u8]>),
) -> std::result::Result<(), String> {
    let (field, block) = key
        .split_last_chunk()
        .ok_or("a key of the columns is cut short")?;
    let block = u32::from_be_bytes(*block);
    let first = block.checked_shl(COLUMN_BLOCK_BITS);
    let first = first.filter(|first| first >> COLUMN_BLOCK_BITS == block);
    let first = first.ok_or("a block of the columns has no docids")?;
    let parts = ValueParts {
        base: Some(SmallBytes::from(layers)),
        operands: Vec::new(),
    };
    let block = FieldBlock::new(Some(parts), first).map_err(|error| error.to_string())?;
    block
        .marked
        .iter()
        .for_each(|doc| see(field, DocId(doc), None));
    let mut docs = DocSet::empty();
    docs.insert_range(first..first.saturating_add(1 << COLUMN_BLOCK_BITS));
    docs.insert(first | ((1 << COLUMN_BLOCK_BITS) - 1));
    let shown = block.each_term(&docs, &mut |doc, term| see(field, DocId(doc), Some(term)));
    shown.map_err(|damage| damaged(damage).to_string())
}
