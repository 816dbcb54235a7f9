//! Folding and combining the layers of a column in one block, as a merger does.
//!
//! # Invariants
//! 1. A value of the tree and an operand of its merger are both lists of layers, the oldest first.
//!    Putting an operand behind what it changes is all that merging has to do.
//! 2. Layers are written anew, as one, only where that pays: a value keeps its large first layer as
//!    long as what contains it is small.
//!
//! # Layout
//! ```text
//! for each layer | length (LEB128) | layer: `plain.rs` or `column_block.rs`, by its first byte |
//! ```

use super::layer::{ColumnLayer, ColumnLayers, push_layer};
use super::merge::{merge, rows_of};
use super::writer::ColumnBlockWriter;
use crate::IndexDamage;

/// An operand has at most this many layers.
const LAYERS_MAX: usize = 16;

/// Layers of fewer bytes than this are joined when they meet.
const SMALL_BYTES: usize = 1 << 10;

/// Layers that contain less than one in this number of the documents of a value's first layer stay
/// a layer of their own.
const CONTAINED_PART: u64 = 8;

impl ColumnBlockWriter {
    /// Appends the operand that gives the documents these values, and leaves others as they are.
    pub fn encode_operand(self, out: &mut Vec<u8>) {
        let mut layer = Vec::new();
        self.encode(false, &mut layer);
        if !layer.is_empty() {
            push_layer(&layer, out);
        }
    }
}

/// Appends the value that layers, the oldest first and with nothing below them, make.
///
/// # Errors
/// [`IndexDamage`] if one makes no sense.
pub fn fold_layers(encoded: &[u8], out: &mut Vec<u8>) -> Result<(), IndexDamage> {
    let mut layers = Vec::new();
    ColumnLayers::new(encoded).append_to(&mut layers)?;
    let Some((first, others)) = layers.split_first() else {
        return Ok(());
    };
    let below = rows_of(&ColumnLayer::new(first)?);
    let mut above = 0;
    for layer in others {
        above += rows_of(&ColumnLayer::new(layer)?);
    }
    if others.is_empty() || above >= below / CONTAINED_PART {
        let mut merged = Vec::new();
        merge(&layers, true, &mut merged)?;
        if !merged.is_empty() {
            push_layer(&merged, out);
        }
        return Ok(());
    }
    push_layer(first, out);
    append_joined(others, out)
}

/// Appends the operand that `operands`, the oldest first, are together.
///
/// # Errors
/// [`IndexDamage`] if one makes no sense.
pub fn combine_layers(operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), IndexDamage> {
    let mut layers = Vec::new();
    for operand in operands {
        ColumnLayers::new(operand).append_to(&mut layers)?;
    }
    if layers.len() > LAYERS_MAX {
        return append_joined(&layers, out);
    }
    // The newest ones, as long as they are small.
    let is_small = |layer: &&&[u8]| layer.len() < SMALL_BYTES;
    let small = layers.iter().rev().take_while(is_small).count();
    let (kept, small) = layers.split_at(layers.len() - small);
    kept.iter().for_each(|layer| push_layer(layer, out));
    append_joined(small, out)
}

/// Appends layers as one layer.
fn append_joined(layers: &[&[u8]], out: &mut Vec<u8>) -> Result<(), IndexDamage> {
    match layers {
        [] => {}
        [one] => push_layer(one, out),
        _ => {
            let mut merged = Vec::new();
            merge(layers, false, &mut merged)?;
            push_layer(&merged, out);
        }
    }
    Ok(())
}
