//! Merging layers: of each document, what the newest layer says that contains it.

use super::block::ColumnBlock;
use super::format::{BLOCK_LOWS, TERM_BYTES_MAX, damaged};
use super::layer::ColumnLayer;
use super::writer::{Cell, ColumnBlockWriter};
use crate::{DocSet, IndexDamage};

/// Terms of fewer ordinals than this are remembered, so that each is looked up once.
const REMEMBERED_MAX: u64 = 1 << 16;

/// How many documents a layer contains.
pub(super) fn rows_of(layer: &ColumnLayer<'_>) -> u64 {
    match layer {
        ColumnLayer::Plain(plain) => plain.rows().count() as u64,
        ColumnLayer::Packed(block) => block.rows().into(),
    }
}

/// Appends the layer that layers, the oldest first, make. With `is_bottom` nothing is below it, so
/// documents without values are left out; nothing is appended if none is left.
pub(super) fn merge(
    layers: &[&[u8]],
    is_bottom: bool,
    out: &mut Vec<u8>,
) -> Result<(), IndexDamage> {
    let decoded = layers.iter().map(|layer| ColumnLayer::new(layer));
    let decoded: Vec<ColumnLayer<'_>> = decoded.collect::<Result<_, _>>()?;
    // Of each low, the newest layer that contains it, counted from 1.
    let mut newest = vec![0u16; BLOCK_LOWS];
    let mut from = vec![Vec::new(); decoded.len()];
    for (at, layer) in (1..).zip(&decoded) {
        each_low(layer, &mut |low| {
            if let Some(place) = newest.get_mut(low as usize) {
                *place = at;
            }
        });
    }
    for (low, at) in (0u32..).zip(&newest) {
        if let Some(lows) = at
            .checked_sub(1)
            .and_then(|at| from.get_mut(usize::from(at)))
        {
            lows.push(low);
        }
    }
    let mut writer = ColumnBlockWriter::new();
    for (layer, lows) in decoded.iter().zip(&from) {
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

fn each_low(layer: &ColumnLayer<'_>, see: &mut dyn FnMut(u32)) {
    match layer {
        ColumnLayer::Plain(plain) => plain.rows().for_each(|row| see(row.low.into())),
        ColumnLayer::Packed(block) => {
            let mut docs = DocSet::empty();
            block.add_contained(0, &mut docs);
            docs.iter().for_each(see);
        }
    }
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
