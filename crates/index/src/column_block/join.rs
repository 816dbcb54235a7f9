//! Joining layers in bulk, where each document has one value at most and all layers stand for
//! values in the same way: ordinals become others, and no value is looked at for each document.
//!
//! # Invariants
//! 1. What it appends says what [`merge`](super::merge) would append. Where it can't, or where
//!    another encoding may be smaller, nothing is appended.
//! 2. Nothing that is allocated is larger than the documents and the terms that are there.

use super::block::ColumnBlock;
use super::encoded::{Cell, Different, Encoded, dictionary_of, is_smaller_as_dictionary};
use super::format::{TERM_BYTES_MAX, damaged};
use super::numbers::Numbers;
use super::terms::prefix;
use super::writer::{ColumnBlockWriter, PACKED_ROWS_MIN, Row, TERMS_BYTES_MAX, push_range};
use crate::IndexDamage;
use std::ops::{ControlFlow, Range};

/// An ordinal that stands for no value.
const NONE: u64 = u64::MAX;

/// Appends the layer that layers make. `newest` has the lows ascending, each with the number of the
/// newest layer that contains it, and `from` the lows of each layer that come from it. False, and
/// nothing appended, if they are to be merged otherwise.
pub(super) fn join(
    blocks: &[ColumnBlock<'_>],
    newest: &[(u16, u32)],
    from: &[Vec<u32>],
    is_bottom: bool,
    out: &mut Vec<u8>,
) -> Result<bool, IndexDamage> {
    if blocks
        .iter()
        .any(|block| block.has_many() || block.has_marked())
    {
        return Ok(false);
    }
    let mut ordinals = Vec::with_capacity(blocks.len());
    for (block, lows) in blocks.iter().zip(from) {
        let mut own = Vec::new();
        block.ends(lows, 0, false, &mut own)?;
        ordinals.push(own);
    }
    let mut by_block: Vec<&mut [u64]> = ordinals.iter_mut().map(Vec::as_mut_slice).collect();
    let Some(values) = join_values(blocks, &mut by_block)? else {
        return Ok(false);
    };
    let mut writer = ColumnBlockWriter::new();
    let mut all = Vec::with_capacity(newest.len());
    let mut left: Vec<_> = ordinals.iter().map(|own| own.iter()).collect();
    for (low, layer) in newest {
        let next = left.get_mut(*layer as usize).and_then(Iterator::next);
        let start = all.len() as u32;
        match next.copied().unwrap_or(NONE) {
            NONE if is_bottom => continue,
            NONE => {}
            ordinal => all.push(ordinal),
        }
        writer.rows.push(Row {
            low: *low,
            is_marked: false,
            start,
            end: all.len() as u32,
        });
    }
    if writer.rows.len() < PACKED_ROWS_MIN {
        return Ok(false);
    }
    writer.encode_ordinals(is_bottom, &values, &all, out);
    Ok(true)
}

/// As [`join`], of layers one behind the other without a gap: as when documents are only added. No
/// list of documents is made.
pub(super) fn append(
    blocks: &[ColumnBlock<'_>],
    is_bottom: bool,
    out: &mut Vec<u8>,
) -> Result<bool, IndexDamage> {
    let lows: Option<Vec<Range<u32>>> = blocks.iter().map(ColumnBlock::neighbours).collect();
    let lows = lows.unwrap_or_default();
    let (Some(first), Some(last)) = (lows.first(), lows.last()) else {
        return Ok(false);
    };
    if !lows.is_sorted_by(|before, after| before.end == after.start) {
        return Ok(false);
    }
    let (first, end) = (first.start, last.end);
    let mut ordinals = vec![0; (end - first) as usize];
    if ordinals.len() < PACKED_ROWS_MIN {
        return Ok(false);
    }
    let mut by_block = Vec::with_capacity(blocks.len());
    let mut left = ordinals.as_mut_slice();
    for block in blocks {
        let (own, others) = left.split_at_mut(block.rows() as usize);
        block.first_ordinals(own)?;
        by_block.push(own);
        left = others;
    }
    // At the bottom, documents without a value are left out.
    if is_bottom && by_block.iter().any(|own| own.contains(&NONE)) {
        return Ok(false);
    }
    let Some(values) = join_values(blocks, &mut by_block)? else {
        return Ok(false);
    };
    let mut codes = ordinals;
    codes
        .iter_mut()
        .for_each(|code| *code = code.wrapping_add(1));
    push_range(first as u16, &values, &codes, out);
    Ok(true)
}

/// What the ordinals of each layer stand for once they have become those of all layers together.
/// None if the layers are to be merged otherwise.
fn join_values(
    blocks: &[ColumnBlock<'_>],
    ordinals: &mut [&mut [u64]],
) -> Result<Option<Encoded>, IndexDamage> {
    let numbers: Option<Vec<Numbers>> = blocks.iter().map(ColumnBlock::numbers).collect();
    match numbers {
        Some(numbers) => Ok(join_numbers(&numbers, ordinals)),
        None => join_dictionaries(blocks, ordinals),
    }
}

/// As [`join_values`], of layers of numbers. None if they are of different kinds, or a dictionary
/// would be smaller.
fn join_numbers(numbers: &[Numbers], ordinals: &mut [&mut [u64]]) -> Option<Encoded> {
    let kind = numbers.first()?.kind;
    if numbers.iter().any(|numbers| numbers.kind != kind) {
        return None;
    }
    let (mut least, mut greatest, mut has_null, mut count) = (u64::MAX, 0, false, 0);
    let mut different = Different::default();
    for (numbers, own) in numbers.iter().zip(&*ordinals) {
        for ordinal in own.iter().filter(|ordinal| **ordinal != NONE) {
            count += 1;
            match numbers.key(*ordinal) {
                Some(key) => {
                    (least, greatest) = (least.min(key), greatest.max(key));
                    different.add(key);
                }
                None => has_null = true,
            }
        }
    }
    let length = greatest.checked_sub(least)?.checked_add(2)?;
    if is_smaller_as_dictionary(&different, length, count) {
        return None;
    }
    let joined = Numbers {
        kind,
        base: least,
        has_null,
        end: length - 1 + u64::from(has_null),
    };
    for (numbers, own) in numbers.iter().zip(ordinals) {
        for ordinal in own.iter_mut().filter(|ordinal| **ordinal != NONE) {
            let key = numbers.key(*ordinal);
            *ordinal = key.map_or(0, |key| joined.ordinal_of_key(key));
        }
    }
    Some(Encoded::Numbers(joined))
}

/// A term of a layer's dictionary, in the bytes of all of them.
struct Term {
    prefix: u64,
    start: u32,
    end: u32,
    layer: u32,
    ordinal: u32,
}

/// As [`join_values`], of layers with dictionaries. None if all values are numbers, which may
/// need no dictionary, or the terms are too many.
fn join_dictionaries(
    blocks: &[ColumnBlock<'_>],
    ordinals: &mut [&mut [u64]],
) -> Result<Option<Encoded>, IndexDamage> {
    let (mut bytes, mut terms) = (Vec::new(), Vec::new());
    let mut places = Vec::with_capacity(blocks.len());
    for (layer, (block, own)) in (0..).zip(blocks.iter().zip(&*ordinals)) {
        // Each value of a dictionary is that of a row.
        let end = block.ordinal_end();
        if block.numbers().is_some() || end > block.rows().into() {
            return Ok(None);
        }
        let mut is_used = vec![false; end as usize];
        for ordinal in own.iter().filter(|ordinal| **ordinal != NONE) {
            *is_used.get_mut(*ordinal as usize).ok_or_else(damaged)? = true;
        }
        let used: Vec<u64> = (0..end)
            .zip(&is_used)
            .filter_map(|(ordinal, is_used)| is_used.then_some(ordinal))
            .collect();
        let mut left = used.iter();
        block.each_term(&used, &mut |term| {
            let start = bytes.len() as u32;
            bytes.extend_from_slice(term);
            terms.push(Term {
                prefix: prefix(term),
                start,
                end: bytes.len() as u32,
                layer,
                ordinal: left.next().map_or(0, |ordinal| *ordinal as u32),
            });
            match term.len() > TERM_BYTES_MAX || bytes.len() > TERMS_BYTES_MAX {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        if left.next().is_some() || bytes.len() > TERMS_BYTES_MAX {
            return Ok(None);
        }
        places.push(vec![0u32; end as usize]);
    }
    let of = |term: &Term| bytes.get(term.start as usize..term.end as usize);
    // Those of a layer ascend: a stable sort merges what is sorted.
    terms.sort_by(|a, b| a.prefix.cmp(&b.prefix).then_with(|| of(a).cmp(&of(b))));
    let mut sorted: Vec<&[u8]> = Vec::with_capacity(terms.len());
    for term in &terms {
        let own = of(term).unwrap_or_default();
        if sorted.last() != Some(&own) {
            sorted.push(own);
        }
        let place = places.get_mut(term.layer as usize);
        if let Some(place) = place.and_then(|places| places.get_mut(term.ordinal as usize)) {
            *place = sorted.len() as u32 - 1;
        }
    }
    let is_number = |term: &&[u8]| Cell::of_term(term).is_some();
    if sorted.iter().rev().all(is_number) {
        return Ok(None);
    }
    for (places, own) in places.iter().zip(ordinals) {
        for ordinal in own.iter_mut().filter(|ordinal| **ordinal != NONE) {
            let place = places.get(*ordinal as usize);
            *ordinal = place.copied().unwrap_or(0).into();
        }
    }
    Ok(Some(dictionary_of(|| sorted.iter().copied())))
}
