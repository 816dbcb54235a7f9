//! [`ColumnBlock`]: a packed layer, read where it lies.

use super::format::{
    BLOCK_LOWS, HAS_NULL, HEADER_BYTES, LISTED, MANY, PACKED, VALUES_MAX, damaged,
};
use super::numbers::Numbers;
use crate::{Column, Dictionary, DocSet, IndexDamage, le};
use std::cell::Cell;
use std::ops::{ControlFlow, Range};

/// Rows are read together with those between if they are at least one in this number of all.
const DENSE_PART: usize = 8;

/// Which documents have rows.
#[derive(Debug, Clone, Copy)]
enum Rows<'a> {
    /// Those from a low on.
    From(u32),
    /// Those of these lows, ascending.
    Listed(&'a [[u8; 2]]),
}

/// What an ordinal stands for.
#[derive(Debug, Clone, Copy)]
enum Values<'a> {
    Dictionary(Dictionary<'a>),
    Numbers(Numbers),
}

/// A packed layer. Copying it copies slices.
#[derive(Debug, Clone, Copy)]
pub struct ColumnBlock<'a> {
    rows: Rows<'a>,
    row_count: u32,
    marked: &'a [[u8; 2]],
    least: &'a [u8],
    greatest: &'a [u8],
    starts: Option<Column<'a>>,
    codes: Column<'a>,
    values: Values<'a>,
}

fn low_of(low: &[u8; 2]) -> u32 {
    u16::from_le_bytes(*low).into()
}

impl<'a> ColumnBlock<'a> {
    /// The layer that `bytes` hold, all of them. Takes constant time.
    ///
    /// # Errors
    /// [`IndexDamage`] if its parts do not fit.
    pub fn new(bytes: &'a [u8]) -> Result<ColumnBlock<'a>, IndexDamage> {
        Self::parse(bytes).ok_or_else(damaged)
    }

    fn parse(bytes: &'a [u8]) -> Option<ColumnBlock<'a>> {
        let header = bytes.first_chunk::<HEADER_BYTES>()?;
        let [PACKED, flags, kind, scale, ..] = *header else {
            return None;
        };
        let u16_at = |at: usize| {
            Some(usize::from(u16::from_le_bytes(
                *header.get(at..)?.first_chunk()?,
            )))
        };
        let u32_at = |at: usize| le::u32_at(header, at);
        let (first, row_count, marked) = (u16_at(4)? as u32, u32_at(6)?, u32_at(10)? as usize);
        if first + row_count.min(BLOCK_LOWS as u32 + 1) > BLOCK_LOWS as u32 {
            return None;
        }
        let mut rest = bytes.get(HEADER_BYTES..)?;
        let mut take = |count: usize| {
            let (part, behind) = rest.split_at_checked(count)?;
            rest = behind;
            Some(part)
        };
        let (least, greatest) = (take(u16_at(38)?)?, take(u16_at(40)?)?);
        let lists = take(u32_at(22)? as usize)?.as_chunks::<2>().0;
        let (starts, codes) = (take(u32_at(26)? as usize)?, take(u32_at(30)? as usize)?);
        let dictionary = take(u32_at(34)? as usize)?;
        let (lows, marked) = lists.split_at_checked(lists.len().checked_sub(marked)?)?;
        let rows = match flags & LISTED != 0 {
            true if lows.len() == row_count as usize => Rows::Listed(lows),
            false if lows.is_empty() => Rows::From(first),
            _ => return None,
        };
        let codes = Column::new(codes).ok()?;
        let starts = match flags & MANY != 0 {
            true => Some(Column::new(starts).ok()?),
            false => None,
        };
        let is_right = match &starts {
            None => codes.rows() == row_count.into(),
            Some(starts) => starts.rows() == u64::from(row_count) + 1,
        };
        let values = match kind {
            0 => Values::Dictionary(Dictionary::new(dictionary).ok()?),
            _ => {
                let has_null = flags & HAS_NULL != 0;
                let base = le::u64_at(header, 14)?;
                Values::Numbers(Numbers::decode(
                    kind,
                    scale,
                    base,
                    has_null,
                    le::u64_at(header, 42)?,
                )?)
            }
        };
        is_right.then_some(ColumnBlock {
            rows,
            row_count,
            marked,
            least,
            greatest,
            starts,
            codes,
            values,
        })
    }

    /// The least and the greatest term, or wider bounds; none if no document has a value here.
    #[must_use]
    pub fn zone(&self) -> Option<(&'a [u8], &'a [u8])> {
        (!self.least.is_empty()).then_some((self.least, self.greatest))
    }

    /// Whether a document may have several values.
    #[must_use]
    pub fn has_many(&self) -> bool {
        self.starts.is_some()
    }

    /// How many documents it contains.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.row_count
    }

    /// More than any ordinal.
    #[must_use]
    pub fn ordinal_end(&self) -> u64 {
        match &self.values {
            Values::Dictionary(dictionary) => dictionary.len(),
            Values::Numbers(numbers) => numbers.end,
        }
    }

    /// The numbers that ordinals stand for, if they are no indexes in a dictionary.
    #[must_use]
    pub fn numbers(&self) -> Option<Numbers> {
        match &self.values {
            Values::Numbers(numbers) => Some(*numbers),
            Values::Dictionary(_) => None,
        }
    }

    /// Whether some document is marked.
    pub(super) fn has_marked(&self) -> bool {
        !self.marked.is_empty()
    }

    /// The lows of the documents that it contains, if they are neighbours and each has one value at
    /// most, which need not be read elsewhere.
    pub(super) fn neighbours(&self) -> Option<Range<u32>> {
        match self.rows {
            Rows::From(low) if self.starts.is_none() && self.marked.is_empty() => {
                Some(low..low + self.row_count)
            }
            _ => None,
        }
    }

    /// Fills `out` with an ordinal for each of the first documents that it contains, each of which
    /// has one value at most; `u64::MAX` without.
    ///
    /// # Errors
    /// [`IndexDamage`] for bytes that make no sense.
    pub(super) fn first_ordinals(&self, out: &mut [u64]) -> Result<(), IndexDamage> {
        self.codes.read(0, out)?;
        out.iter_mut().for_each(|code| *code = code.wrapping_sub(1));
        Ok(())
    }

    /// Shows the lows of the documents that it contains, ascending.
    pub(super) fn each_low(&self, see: impl FnMut(u32)) {
        match self.rows {
            Rows::From(low) => (low..low + self.row_count).for_each(see),
            Rows::Listed(lows) => lows.iter().map(low_of).for_each(see),
        }
    }

    /// Adds the documents that it contains to a set; `first` is the first docid of the block.
    pub fn add_contained(&self, first: u32, docs: &mut DocSet) {
        match self.rows {
            Rows::From(low) => docs.insert_range(first + low..first + low + self.row_count),
            Rows::Listed(lows) => docs.extend(lows.iter().map(|low| first + low_of(low))),
        }
    }

    /// Adds the documents that are marked to a set.
    pub fn add_marked(&self, first: u32, docs: &mut DocSet) {
        docs.extend(self.marked.iter().map(|low| first + low_of(low)));
    }

    /// Whether a document is marked.
    #[must_use]
    pub fn is_marked(&self, low: u16) -> bool {
        let found = self
            .marked
            .binary_search_by_key(&low, |low| u16::from_le_bytes(*low));
        found.is_ok()
    }

    /// The low of a row.
    fn low(&self, row: u32) -> Option<u32> {
        match self.rows {
            Rows::From(first) => Some(first + row),
            Rows::Listed(lows) => lows.get(row as usize).map(low_of),
        }
    }

    /// Replaces `rows` by those of documents, ascending, all contained.
    fn rows_of(&self, docs: &[u32], first: u32, rows: &mut Vec<u32>) -> Result<(), IndexDamage> {
        rows.clear();
        match self.rows {
            Rows::From(low) => rows.extend(docs.iter().map(|doc| doc.wrapping_sub(first + low))),
            Rows::Listed(lows) => {
                let mut at = 0;
                for doc in docs {
                    let left = lows.get(at..).unwrap_or_default();
                    // Most are near the one before.
                    let mut step = 1;
                    let is_before = |low: &[u8; 2]| first + low_of(low) < *doc;
                    while left.get(step).is_some_and(is_before) {
                        step *= 2;
                    }
                    let near = left.get(..left.len().min(step + 1)).unwrap_or_default();
                    at += near.partition_point(is_before);
                    rows.push(at as u32);
                    if lows.get(at).is_none_or(|low| first + low_of(low) != *doc) {
                        return Err(damaged());
                    }
                }
            }
        }
        // A document before the first row has wrapped to a row behind the last.
        let is_row = |row: Option<&u32>| row.is_none_or(|row| *row < self.row_count);
        match is_row(rows.first()) && is_row(rows.last()) {
            true => Ok(()),
            false => Err(damaged()),
        }
    }

    /// Replaces `out` by one ordinal for each of `docs`, ascending, which it contains: of the least
    /// value, or of the greatest; `u64::MAX` without any. `first` is the block's first docid.
    ///
    /// # Errors
    /// [`IndexDamage`] for bytes that make no sense, and for documents that are not contained.
    pub fn ends(
        &self,
        docs: &[u32],
        first: u32,
        is_greatest: bool,
        out: &mut Vec<u64>,
    ) -> Result<(), IndexDamage> {
        let mut rows = Vec::new();
        self.rows_of(docs, first, &mut rows)?;
        if self.starts.is_none() {
            self.single(&rows, out)?;
            out.iter_mut().for_each(|code| *code = code.wrapping_sub(1));
            return Ok(());
        }
        out.clear();
        self.each_row(&rows, |codes| {
            let code = if is_greatest {
                codes.last()
            } else {
                codes.first()
            };
            out.push(code.copied().unwrap_or(0).wrapping_sub(1));
        })
    }

    /// Shows the ordinals of each of `docs`, ascending, which it contains: document by document,
    /// those of one ascending.
    ///
    /// # Errors
    /// As of [`ends`](Self::ends).
    pub fn ordinals(
        &self,
        docs: &[u32],
        first: u32,
        mut see: impl FnMut(&[u64]),
    ) -> Result<(), IndexDamage> {
        let mut rows = Vec::new();
        self.rows_of(docs, first, &mut rows)?;
        if self.starts.is_some() {
            return self.each_row(&rows, |codes| {
                codes
                    .iter_mut()
                    .for_each(|code| *code = code.wrapping_sub(1));
                see(codes);
            });
        }
        let mut codes = Vec::new();
        self.single(&rows, &mut codes)?;
        for code in codes {
            match code.checked_sub(1) {
                Some(ordinal) => see(&[ordinal]),
                None => see(&[]),
            }
        }
        Ok(())
    }

    /// The codes of rows that have at most one each; 0 without.
    fn single(&self, rows: &[u32], out: &mut Vec<u64>) -> Result<(), IndexDamage> {
        let (Some(start), Some(last)) = (rows.first(), rows.last()) else {
            out.clear();
            return Ok(());
        };
        let length = (last - start) as usize + 1;
        if length > DENSE_PART * rows.len() {
            return self.codes.gather(rows, out);
        }
        out.clear();
        out.resize(length, 0);
        self.codes.read((*start).into(), out)?;
        if length > rows.len() {
            let codes = Cell::from_mut(out.as_mut_slice()).as_slice_of_cells();
            for (to, row) in codes.iter().zip(rows) {
                // As rows ascend, none is read that was written.
                to.set(codes.get((row - start) as usize).map_or(0, Cell::get));
            }
            out.truncate(rows.len());
        }
        Ok(())
    }

    /// Shows the codes of each row of a block whose documents may have several.
    fn each_row(&self, rows: &[u32], mut see: impl FnMut(&mut [u64])) -> Result<(), IndexDamage> {
        let Some(starts) = &self.starts else {
            return Ok(());
        };
        let mut codes = Vec::new();
        if let (Some(start), Some(last)) = (rows.first(), rows.last())
            && (last - start) as usize + 1 == rows.len()
        {
            // Neighbours, as when all documents are read.
            let mut ends = vec![0; rows.len() + 1];
            starts.read((*start).into(), &mut ends)?;
            let (first, end) = (ends.first().copied(), ends.last().copied());
            let (first, end) = (first.unwrap_or(0), end.unwrap_or(0));
            let count = end.checked_sub(first).ok_or_else(damaged)?;
            if count > (rows.len() * VALUES_MAX) as u64 || !ends.is_sorted() {
                return Err(damaged());
            }
            codes.resize(count as usize, 0);
            self.codes.read(first, &mut codes)?;
            let mut left = codes.as_mut_slice();
            for (start, end) in ends.iter().zip(ends.iter().skip(1)) {
                let (own, rest) = left.split_at_mut((end - start) as usize);
                see(own);
                left = rest;
            }
            return Ok(());
        }
        let mut ends = [0; 2];
        for row in rows {
            starts.read((*row).into(), &mut ends)?;
            let count = ends[1].checked_sub(ends[0]).ok_or_else(damaged)?;
            if count > VALUES_MAX as u64 {
                return Err(damaged());
            }
            codes.clear();
            codes.resize(count as usize, 0);
            self.codes.read(ends[0], &mut codes)?;
            see(&mut codes);
        }
        Ok(())
    }

    /// Appends the term that an ordinal stands for.
    ///
    /// # Errors
    /// [`IndexDamage`] if there is no such ordinal, or the bytes make no sense.
    pub fn term(&self, ordinal: u64, out: &mut Vec<u8>) -> Result<(), IndexDamage> {
        match &self.values {
            Values::Dictionary(dictionary) => dictionary.append_value(ordinal, out),
            Values::Numbers(numbers) => {
                numbers.append_term(ordinal, out);
                Ok(())
            }
        }
    }

    /// Shows the terms that ordinals stand for, ascending, until `see` breaks.
    ///
    /// # Errors
    /// As of [`term`](Self::term).
    pub fn each_term(
        &self,
        ordinals: &[u64],
        see: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), IndexDamage> {
        match &self.values {
            Values::Dictionary(dictionary) => dictionary.each_value(ordinals, see),
            Values::Numbers(numbers) => {
                let mut term = Vec::new();
                for ordinal in ordinals {
                    term.clear();
                    numbers.append_term(*ordinal, &mut term);
                    if see(&term).is_break() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// The least ordinal that stands for `term` or a greater one, or would if there were one: the
    /// ordinals of lesser terms are below it.
    ///
    /// # Errors
    /// [`IndexDamage`] for bytes that make no sense.
    pub fn ordinal_of(&self, term: &[u8]) -> Result<u64, IndexDamage> {
        match &self.values {
            Values::Dictionary(dictionary) => Ok(dictionary.search(term)?.0),
            Values::Numbers(numbers) => Ok(numbers.ordinal_of(term)),
        }
    }

    /// Sets the bits of the documents that have a value whose ordinal is in a range: bit `i` of
    /// word `w` stands for low `64 * w + i`. `bits` has all lows of the block.
    ///
    /// # Errors
    /// [`IndexDamage`] for bytes that make no sense.
    pub fn add_in_range(&self, ordinals: Range<u64>, bits: &mut [u64]) -> Result<(), IndexDamage> {
        let last = ordinals.end.min(self.ordinal_end());
        if ordinals.start >= last {
            return Ok(());
        }
        let found = self.codes.scan(ordinals.start + 1..=last)?;
        if let (None, Rows::From(low)) = (&self.starts, self.rows)
            && low.is_multiple_of(64)
        {
            let words = bits.get_mut(low as usize / 64..).unwrap_or_default();
            words
                .iter_mut()
                .zip(&found)
                .for_each(|(to, from)| *to |= from);
            return Ok(());
        }
        let mut set = |row: u32| {
            let low = self.low(row).ok_or_else(damaged)?;
            let word = bits.get_mut(low as usize / 64).ok_or_else(damaged)?;
            *word |= 1 << (low % 64);
            Ok(())
        };
        let positions = found
            .iter()
            .enumerate()
            .flat_map(|(at, word)| ones(*word).map(move |bit| at as u64 * 64 + bit));
        let Some(starts) = &self.starts else {
            return positions.into_iter().try_for_each(|row| set(row as u32));
        };
        let mut all = vec![0; self.row_count as usize + 1];
        starts.read(0, &mut all)?;
        for position in positions {
            let row = all.partition_point(|start| *start <= position);
            set(row.checked_sub(1).ok_or_else(damaged)? as u32)?;
        }
        Ok(())
    }
}

/// The places of the bits of a word that are set, ascending.
fn ones(word: u64) -> impl Iterator<Item = u64> {
    let mut left = word;
    std::iter::from_fn(move || {
        let bit = (left != 0).then(|| u64::from(left.trailing_zeros()))?;
        left &= left - 1;
        Some(bit)
    })
}
