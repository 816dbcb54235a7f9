//! [`ColumnLayers`]: the layers of a column in one block, as a tree keeps them.

use super::block::ColumnBlock;
use super::plain::{PLAIN, PlainLayer};
use crate::{IndexDamage, varint};

/// A layer.
#[derive(Debug, Clone, Copy)]
#[expect(
    clippy::large_enum_variant,
    reason = "a column has few layers, and nearly all are packed: a box would be one more step"
)]
pub enum ColumnLayer<'a> {
    /// Terms as they are.
    Plain(PlainLayer<'a>),
    /// Encoded.
    Packed(ColumnBlock<'a>),
}

impl<'a> ColumnLayer<'a> {
    /// The layer that `bytes` hold, all of them.
    ///
    /// # Errors
    /// [`IndexDamage`] if they are none.
    pub fn new(bytes: &'a [u8]) -> Result<ColumnLayer<'a>, IndexDamage> {
        Ok(match bytes.first() {
            Some(&PLAIN) => ColumnLayer::Plain(PlainLayer::new(bytes)?),
            _ => ColumnLayer::Packed(ColumnBlock::new(bytes)?),
        })
    }
}

/// The encoded layers of a value or an operand, the oldest first.
#[derive(Debug, Clone, Copy)]
pub struct ColumnLayers<'a>(&'a [u8]);

impl<'a> ColumnLayers<'a> {
    /// Those that `bytes` hold.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> ColumnLayers<'a> {
        ColumnLayers(bytes)
    }

    /// Appends each to `out`, the oldest first.
    ///
    /// # Errors
    /// [`IndexDamage`] if a length makes no sense.
    pub fn append_to(&self, out: &mut Vec<&'a [u8]>) -> Result<(), IndexDamage> {
        let mut left = self.0;
        while !left.is_empty() {
            let layer = varint::take(&mut left).and_then(|length| left.split_at_checked(length));
            let (layer, rest) = layer.ok_or(IndexDamage::new("layers of a column", 0))?;
            out.push(layer);
            left = rest;
        }
        Ok(())
    }
}

/// Appends a layer with its length.
pub(super) fn push_layer(layer: &[u8], out: &mut Vec<u8>) {
    varint::put(out, layer.len());
    out.extend_from_slice(layer);
}
