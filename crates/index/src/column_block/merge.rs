//! Merging layers: of each document, what the newest layer says that contains it.

use super::block::ColumnBlock;
use super::encoded::Cell;
use super::format::{TERM_BYTES_MAX, damaged};
use super::join::{append, join};
use super::layer::ColumnLayer;
use super::writer::ColumnBlockWriter;
use crate::IndexDamage;

/// Terms of fewer ordinals than this are remembered, so that each is looked up once.
const REMEMBERED_MAX: u64 = 1 << 16;

/// How many documents a layer contains.
pub(super) fn rows_of(layer: &ColumnLayer<'_>) -> u64 {
    match layer {
        ColumnLayer::Plain(plain) => plain.rows().count() as u64,
        ColumnLayer::Packed(block) => block.rows().into(),
    }
}

/// The layers as blocks; none if one is plain.
pub(super) fn all_packed<'a>(layers: &[ColumnLayer<'a>]) -> Option<Vec<ColumnBlock<'a>>> {
    let packed = |layer: &ColumnLayer<'a>| match layer {
        ColumnLayer::Packed(block) => Some(*block),
        ColumnLayer::Plain(_) => None,
    };
    layers.iter().map(packed).collect()
}

/// Appends the layer that layers, the oldest first, make. With `is_bottom` nothing is below it, so
/// documents without values are left out; nothing is appended if none is left.
pub(super) fn merge(
    layers: &[&[u8]],
    is_bottom: bool,
    out: &mut Vec<u8>,
) -> Result<(), IndexDamage> {
    let layers = layers.iter().map(|layer| ColumnLayer::new(layer));
    let layers: Vec<ColumnLayer<'_>> = layers.collect::<Result<_, _>>()?;
    if let Some(blocks) = all_packed(&layers)
        && append(&blocks, is_bottom, out)?
    {
        return Ok(());
    }
    let layers = Layers::new(layers);
    match layers.join(is_bottom, out)? {
        true => Ok(()),
        false => layers.merge_values(is_bottom, out),
    }
}

/// Layers, and which documents come from which.
pub(super) struct Layers<'a> {
    layers: Vec<ColumnLayer<'a>>,
    /// The documents that they contain, ascending, each with the number of the newest layer that
    /// contains it.
    newest: Vec<(u16, u32)>,
    /// By layer: the documents that come from it, ascending.
    from: Vec<Vec<u32>>,
}

impl<'a> Layers<'a> {
    pub(super) fn new(layers: Vec<ColumnLayer<'a>>) -> Layers<'a> {
        let newest = newest_of(&layers);
        let mut from = vec![Vec::new(); layers.len()];
        for (low, layer) in &newest {
            if let Some(lows) = from.get_mut(*layer as usize) {
                lows.push(u32::from(*low));
            }
        }
        Layers {
            layers,
            newest,
            from,
        }
    }

    /// Joins them in bulk. False, and nothing appended, if that can't be.
    pub(super) fn join(&self, is_bottom: bool, out: &mut Vec<u8>) -> Result<bool, IndexDamage> {
        match all_packed(&self.layers) {
            Some(blocks) => join(&blocks, &self.newest, &self.from, is_bottom, out),
            None => Ok(false),
        }
    }

    /// Merges them value by value.
    pub(super) fn merge_values(
        &self,
        is_bottom: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), IndexDamage> {
        let mut writer = ColumnBlockWriter::new();
        for (layer, lows) in self.layers.iter().zip(&self.from) {
            match layer {
                ColumnLayer::Plain(plain) => {
                    let mut lows = lows.iter().copied().peekable();
                    for row in plain.rows() {
                        if lows.next_if_eq(&u32::from(row.low)).is_some() {
                            row.terms().for_each(|term| writer.push(term));
                            writer.end_document(row.low, row.is_marked);
                        }
                    }
                }
                ColumnLayer::Packed(block) => copy(block, lows, &mut writer)?,
            }
        }
        writer.encode(is_bottom, out);
        Ok(())
    }
}

/// The documents that layers contain, ascending, each with the number of the newest layer that
/// contains it.
fn newest_of(layers: &[ColumnLayer<'_>]) -> Vec<(u16, u32)> {
    let mut newest: Vec<(u16, u32)> = Vec::new();
    for (at, layer) in (0..).zip(layers) {
        let mut see = |low: u32| newest.push((low as u16, at));
        match layer {
            ColumnLayer::Plain(plain) => plain.rows().for_each(|row| see(row.low.into())),
            ColumnLayer::Packed(block) => block.each_low(see),
        }
    }
    // Those of a layer ascend: a stable sort merges what is sorted, and keeps the order of layers.
    newest.sort_by_key(|(low, _)| *low);
    newest.dedup_by(|newer, older| {
        let is_one = newer.0 == older.0;
        if is_one {
            *older = *newer;
        }
        is_one
    });
    newest
}

/// Hands documents of a block to a writer.
fn copy(
    block: &ColumnBlock<'_>,
    lows: &[u32],
    writer: &mut ColumnBlockWriter,
) -> Result<(), IndexDamage> {
    let numbers = block.numbers();
    let remembered = match numbers {
        None if block.ordinal_end() <= REMEMBERED_MAX => block.ordinal_end() as usize,
        _ => 0,
    };
    let mut cells: Vec<Option<Cell>> = vec![None; remembered];
    let mut term = Vec::new();
    let mut failed = Ok(());
    for batch in lows.chunks(1024) {
        let mut batch_lows = batch.iter();
        block.ordinals(batch, 0, |ordinals| {
            for ordinal in ordinals {
                if let Some(numbers) = &numbers {
                    writer.push_cell(Cell::of_number(numbers.number(*ordinal)));
                    continue;
                }
                if let Some(Some(cell)) = cells.get(*ordinal as usize) {
                    writer.push_cell(*cell);
                    continue;
                }
                term.clear();
                match block.term(*ordinal, &mut term) {
                    Ok(()) if term.len() <= TERM_BYTES_MAX => {
                        let cell = writer.push_term(&term);
                        if let Some(place) = cells.get_mut(*ordinal as usize) {
                            *place = Some(cell);
                        }
                    }
                    Ok(()) => failed = Err(damaged()),
                    Err(damage) => failed = Err(damage),
                }
            }
            if let Some(low) = batch_lows.next() {
                writer.end_document(*low as u16, block.is_marked(*low as u16));
            }
        })?;
    }
    failed
}
