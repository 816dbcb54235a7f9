//! [`Column`]: numbers by row, read in place. Each block of 4,096 rows has the encoding that takes
//! fewest bytes.
//!
//! # Invariants
//! 1. 0 says that a row has no value: it is never found, and a zone map leaves it out. So a column
//!    of codes holds code + 1.
//! 2. An entry of the directory is checked when its block is read, so opening a column takes
//!    constant time, and bytes that make no sense are an error. No allocation has a size that comes
//!    from the file.
//! 3. Blocks follow each other without a gap, so that a column can be written as its rows come.
//!
//! # Layout (little-endian)
//! ```text
//! | blocks, one after another | directory: 40 bytes for each block | rows (8) |
//! 0        8      16      24         32      36      38         39      40
//! | offset | base | least | greatest | slope | zeros | encoding | width |
//!   offset: of the block, from the start of the column
//!   least, greatest: of its values that are not 0; 0 if all are
//!   zeros: how many values are 0; numbers are packed at `width` bits (see `packed.rs`)
//!   encoding 0, line   a number r for each row i: its value is base + slope * i + r, modulo 2^64.
//!                      Constant: slope and width are 0. Frame of reference: slope is 0. Raw: base
//!                      is 0 and width 64
//!   encoding 1, gaps   r for each row: 0 stands for itself, another one for base + r
//!   encoding 2, runs   `slope` runs: the last row of each at 12 bits, padded to a byte, then r for
//!                      each; its rows are base + r
//! ```
//! Source of the frames: Goldstein, Ramakrishnan, Shaft 1998, "Compressing relations and indexes".

mod block;
#[cfg(test)]
mod tests;
mod writer;
mod zone;

pub use writer::ColumnWriter;
pub use zone::{BLOCK_ROWS, Encoding, Zone};

use crate::packed::{self, is_width, packed_bytes};
use crate::{DocSet, IndexDamage, le};
use block::{Block, keep};
use std::cell::Cell;
use std::ops::RangeInclusive;
use zone::{ENTRY_BYTES, FOOTER_BYTES, ROW_BITS, is_in};

/// Rows of a set that `retain` handles together. Clearing a larger buffer would take longer than
/// the work on a few rows.
const RETAIN_ROWS: usize = 256;

/// If no more of 64 rows are wanted, they are tested one by one.
const FEW_OF_WORD: u32 = 8;

/// How the numbers of a column are packed whose blocks are all packed alike: see
/// [`Column::frame`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    base: u64,
    width: u32,
}

/// What opening a column reads of it, and the directory's entry of its first block: kept, so that a
/// column that is opened again and again is not read for that.
#[derive(Debug, Clone, Copy)]
pub struct ColumnHead {
    rows: u64,
    directory: usize,
    first: Option<FirstBlock>,
}

/// The first block of a column, its entry checked.
#[derive(Debug, Clone, Copy)]
struct FirstBlock {
    zone: Zone,
    rows: usize,
    offset: usize,
}

/// A column in the bytes of a file. Copying it copies slices and numbers.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    bytes: &'a [u8],
    rows: u64,
    /// Where the directory begins.
    directory: usize,
    /// The first block, if it was read before.
    first: Option<&'a FirstBlock>,
}

impl<'a> Column<'a> {
    /// The column that `bytes` hold, all of them. Takes constant time.
    ///
    /// # Errors
    /// [`IndexDamage`] if they are too short for the rows that they say they have.
    pub fn new(bytes: &'a [u8]) -> Result<Column<'a>, IndexDamage> {
        let damaged = || IndexDamage::new("column", bytes.len());
        let footer = bytes.len().checked_sub(FOOTER_BYTES).ok_or_else(damaged)?;
        let rows = le::u64_at(bytes, footer).ok_or_else(damaged)?;
        let blocks = usize::try_from(rows.div_ceil(BLOCK_ROWS as u64)).map_err(|_| damaged())?;
        let directory = blocks
            .checked_mul(ENTRY_BYTES)
            .and_then(|directory| footer.checked_sub(directory))
            .ok_or_else(damaged)?;
        Ok(Column {
            bytes,
            rows,
            directory,
            first: None,
        })
    }

    /// What is to be kept of it, for [`with_head`](Self::with_head).
    #[must_use]
    pub fn head(&self) -> ColumnHead {
        let first = self.block(0).ok().map(|Block { zone, rows, bytes }| {
            let offset = self.bytes.len() - bytes.len();
            FirstBlock { zone, rows, offset }
        });
        ColumnHead {
            rows: self.rows,
            directory: self.directory,
            first,
        }
    }

    /// The column that has this head, in the same bytes.
    #[inline]
    #[must_use]
    pub fn with_head(bytes: &'a [u8], head: &'a ColumnHead) -> Column<'a> {
        debug_assert!(head.directory <= bytes.len(), "a head is of these bytes");
        Column {
            bytes,
            rows: head.rows,
            directory: head.directory,
            first: head.first.as_ref(),
        }
    }

    /// How many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.rows.div_ceil(BLOCK_ROWS as u64) as usize
    }

    /// What the directory says of a block.
    ///
    /// # Errors
    /// [`IndexDamage`] if there is no such block, or its entry makes no sense.
    pub fn zone(&self, block: usize) -> Result<Zone, IndexDamage> {
        Ok(self.block(block)?.zone)
    }

    #[inline]
    fn block(&self, index: usize) -> Result<Block<'a>, IndexDamage> {
        if let (0, Some(FirstBlock { zone, rows, offset })) = (index, self.first) {
            return Ok(Block {
                zone: *zone,
                rows: *rows,
                bytes: self.bytes.get(*offset..).unwrap_or_default(),
            });
        }
        self.block_of_directory(index)
    }

    fn block_of_directory(&self, index: usize) -> Result<Block<'a>, IndexDamage> {
        let at = self
            .directory
            .saturating_add(index.saturating_mul(ENTRY_BYTES));
        self.read_block(index, at)
            .ok_or(IndexDamage::new("directory of a column", at))
    }

    fn read_block(&self, index: usize, at: usize) -> Option<Block<'a>> {
        let entry = self.bytes.get(at..)?.first_chunk::<ENTRY_BYTES>()?;
        let left = self.rows.checked_sub((index * BLOCK_ROWS) as u64)?;
        let rows = left.min(BLOCK_ROWS as u64) as usize;
        let (offset, zone) = Zone::decode(entry)?;
        let offset = usize::try_from(offset).ok()?;
        let length = match zone.encoding {
            _ if !is_width(zone.width) => return None,
            Encoding::Line | Encoding::Gaps => packed_bytes(rows, zone.width),
            Encoding::Runs => {
                let runs = zone.slope as usize;
                if runs == 0 || runs > rows {
                    return None;
                }
                packed_bytes(runs, ROW_BITS) + packed_bytes(runs, zone.width)
            }
        };
        (offset.checked_add(length)? <= self.directory).then_some(())?;
        Some(Block {
            zone,
            rows,
            bytes: self.bytes.get(offset..)?,
        })
    }

    /// The value of a row.
    ///
    /// # Errors
    /// [`IndexDamage`] if there is no such row, or its block makes no sense.
    #[inline]
    pub fn get(&self, row: u64) -> Result<u64, IndexDamage> {
        if let Some(first) = self.first
            && first.zone.encoding == Encoding::Line
            && row < first.rows as u64
        {
            let bytes = self.bytes.get(first.offset..).unwrap_or_default();
            let number = packed::get(bytes, first.zone.width, row as usize);
            return Ok(first.zone.line(row as usize, number));
        }
        self.get_any(row)
    }

    fn get_any(&self, row: u64) -> Result<u64, IndexDamage> {
        if row >= self.rows {
            return Err(IndexDamage::new("row of a column", self.directory));
        }
        let block = self.block((row / BLOCK_ROWS as u64) as usize)?;
        Ok(block.get(row as usize % BLOCK_ROWS))
    }

    /// By how much the next row's value is greater than that of a row; 0 if it is less.
    ///
    /// # Errors
    /// As [`get`](Self::get), of either row.
    #[inline]
    pub fn step(&self, row: u64) -> Result<u64, IndexDamage> {
        let at = row as usize % BLOCK_ROWS;
        if at + 1 == BLOCK_ROWS || row.saturating_add(1) >= self.rows {
            let next = self.get(row.saturating_add(1))?;
            return Ok(next.saturating_sub(self.get(row)?));
        }
        let block = self.block((row / BLOCK_ROWS as u64) as usize)?;
        Ok(block.get(at + 1).saturating_sub(block.get(at)))
    }

    /// Fills `out` with the values from `row` on.
    ///
    /// # Errors
    /// As [`get`](Self::get); `out` then holds anything.
    pub fn read(&self, row: u64, out: &mut [u64]) -> Result<(), IndexDamage> {
        let (mut row, mut out) = (row, out);
        while !out.is_empty() {
            let block = self.block((row / BLOCK_ROWS as u64) as usize)?;
            let start = row as usize % BLOCK_ROWS;
            let count = block.rows.saturating_sub(start).min(out.len());
            if count == 0 {
                return Err(IndexDamage::new("row of a column", self.directory));
            }
            let (now, later) = out.split_at_mut(count);
            block.read(start, now);
            (row, out) = (row + count as u64, later);
        }
        Ok(())
    }

    /// Replaces `out` by the value of each of `rows`. Fast where neighbours are of one block.
    ///
    /// # Errors
    /// As [`get`](Self::get); `out` then holds anything.
    pub fn gather(&self, rows: &[u32], out: &mut Vec<u64>) -> Result<(), IndexDamage> {
        out.clear();
        for rows in by_block(rows) {
            let block = self.block_of(rows)?;
            let inside = rows.iter().map(|row| *row as usize % BLOCK_ROWS);
            if !block.has(rows) {
                return Err(IndexDamage::new("row of a column", self.directory));
            }
            match block.zone.encoding {
                Encoding::Line => out.extend(inside.map(|row| block.line(row, block.number(row)))),
                Encoding::Gaps => out.extend(inside.map(|row| block.gap(block.number(row)))),
                Encoding::Runs => {
                    // Neighbours are often of one run.
                    let (mut run, mut value) = (0..0, 0);
                    for row in inside {
                        if !run.contains(&row) {
                            (run, value) = block.run_of(row);
                        }
                        out.push(value);
                    }
                }
            }
        }
        Ok(())
    }

    /// The block that rows of one block are of.
    fn block_of(&self, rows: &[u32]) -> Result<Block<'a>, IndexDamage> {
        self.block(rows.first().map_or(0, |row| *row as usize / BLOCK_ROWS))
    }

    /// How many values are below `wanted`, of a column whose values ascend. Reads a few blocks.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn lower_bound(&self, wanted: u64) -> Result<u64, IndexDamage> {
        let (mut low, mut high) = (0, self.blocks());
        while low < high {
            let middle = (low + high) / 2;
            match self.block(middle)?.zone.greatest < wanted {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        if low == self.blocks() {
            return Ok(self.rows);
        }
        let block = self.block(low)?;
        let (mut first, mut end) = (0, block.rows);
        while first < end {
            let middle = (first + end) / 2;
            match block.get(middle) < wanted {
                true => first = middle + 1,
                false => end = middle,
            }
        }
        Ok((low * BLOCK_ROWS + first) as u64)
    }

    /// The rows, as bits, whose values are in `range`; 0 never is. Blocks whose zone map says all
    /// or none are not read.
    ///
    /// # Errors
    /// [`IndexDamage`] if a block makes no sense.
    pub fn scan(&self, range: RangeInclusive<u64>) -> Result<Vec<u64>, IndexDamage> {
        let mut bits = Vec::with_capacity(self.blocks() * (BLOCK_ROWS / 64));
        for index in 0..self.blocks() {
            self.block(index)?.scan(&range, &mut bits);
        }
        Ok(bits)
    }

    /// How many values, or runs, a [scan](Self::scan) reads: those of blocks that the zone map
    /// can't decide.
    ///
    /// # Errors
    /// [`IndexDamage`] if an entry of the directory makes no sense.
    pub fn scan_cost(&self, range: &RangeInclusive<u64>) -> Result<u64, IndexDamage> {
        let mut cost = 0;
        for index in 0..self.blocks() {
            let block = self.block(index)?;
            cost += match (block.zone.decides(range), block.zone.encoding) {
                (Some(_), _) => 0,
                (None, Encoding::Runs) => u64::from(block.zone.slope),
                (None, _) => block.rows as u64,
            };
        }
        Ok(cost)
    }

    /// What all blocks have in common, if they are packed alike, one behind the other: the numbers
    /// of all rows are then one array. Reads the directory.
    ///
    /// # Errors
    /// [`IndexDamage`] if an entry of the directory makes no sense.
    pub fn frame(&self) -> Result<Option<Frame>, IndexDamage> {
        let mut frame = None;
        for index in 0..self.blocks() {
            let block = self.block(index)?;
            let Zone { base, width, .. } = block.zone;
            let own = Frame { base, width };
            let behind_the_last = packed_bytes(index * BLOCK_ROWS, width);
            let is_next = self.bytes.len().checked_sub(block.bytes.len()) == Some(behind_the_last);
            if !block.is_frame() || !is_next || *frame.get_or_insert(own) != own {
                return Ok(None);
            }
        }
        Ok(frame)
    }

    /// Keeps of `rows`, which ascend, those whose values are in `range`; 0 never is. `frame` is
    /// that of this column, if it has one.
    ///
    /// # Errors
    /// [`IndexDamage`] if a block makes no sense.
    pub fn keep(
        &self,
        range: &RangeInclusive<u64>,
        frame: Option<Frame>,
        rows: &mut Vec<u32>,
    ) -> Result<(), IndexDamage> {
        if rows
            .last()
            .is_some_and(|last| u64::from(*last) >= self.rows)
        {
            return Err(IndexDamage::new("row of a column", self.directory));
        }
        let low = (*range.start()).max(1);
        let Some(distance) = range.end().checked_sub(low) else {
            rows.clear();
            return Ok(());
        };
        let is_wanted = |value: u64| value.wrapping_sub(low) <= distance;
        if let Some(Frame { base, width }) = frame {
            let value = |row: u32| base.wrapping_add(packed::get(self.bytes, width, row as usize));
            keep_in_place(rows, |row| is_wanted(value(row)));
            return Ok(());
        }
        let mut failed = Ok(());
        let mut now: Option<(usize, Block<'_>)> = None;
        // Neighbours are often of one run.
        let (mut run, mut is_run_wanted) = (0..0, false);
        keep_in_place(rows, |row| {
            if run.contains(&(row as usize)) {
                return is_run_wanted;
            }
            let index = row as usize / BLOCK_ROWS;
            let block = match now {
                Some((at, block)) if at == index => block,
                _ => match self.block(index) {
                    Ok(block) => now.insert((index, block)).1,
                    Err(damage) => {
                        failed = Err(damage);
                        return false;
                    }
                },
            };
            let inside = row as usize % BLOCK_ROWS;
            if block.zone.encoding != Encoding::Runs {
                return is_wanted(block.get(inside));
            }
            let (rows, value) = block.run_of(inside);
            let start = row as usize - inside;
            run = start + rows.start..start + rows.end;
            is_run_wanted = is_wanted(value);
            is_run_wanted
        });
        failed
    }

    /// The same of rows as bits: 64 neighbours each, the first a multiple of 64 and the bits of
    /// those that are wanted. Words without a bit are left out. Where many of 64 are wanted, all
    /// are compared at once.
    ///
    /// # Errors
    /// As [`keep`](Self::keep).
    pub fn keep_words(
        &self,
        range: &RangeInclusive<u64>,
        frame: Frame,
        words: &mut Vec<(u32, u64)>,
    ) -> Result<(), IndexDamage> {
        let last = words.last().map(|(first, bits)| {
            u64::from(*first) + u64::from(u64::BITS - 1).saturating_sub(bits.leading_zeros().into())
        });
        if last.is_some_and(|last| last >= self.rows) {
            return Err(IndexDamage::new("row of a column", self.directory));
        }
        let Frame { base, width } = frame;
        let low = (*range.start()).max(1);
        // Numbers are not negative, and a value is its number and the base.
        let numbers = match (*range.end()).checked_sub(base) {
            Some(high) if *range.end() >= low => low.saturating_sub(base)..=high,
            _ => {
                words.clear();
                return Ok(());
            }
        };
        words.retain_mut(|(first, bits)| {
            if bits.count_ones() > FEW_OF_WORD {
                let at = *first as usize / 8 * width as usize;
                let group = self.bytes.get(at..).unwrap_or_default();
                let (low, high) = (*numbers.start(), *numbers.end());
                if let Some(found) = packed::group_in_range(group, width, low, high) {
                    *bits &= found;
                    return *bits != 0;
                }
            }
            let mut left = *bits;
            while left != 0 {
                let row = *first + left.trailing_zeros();
                let number = packed::get(self.bytes, width, row as usize);
                if !numbers.contains(&number) {
                    *bits &= !(left & left.wrapping_neg());
                }
                left &= left - 1;
            }
            *bits != 0
        });
        Ok(())
    }

    /// Keeps in `set` the rows whose values are in `range`; 0 never is. Reads blocks in which `set`
    /// has rows that the zone map can't decide.
    ///
    /// # Errors
    /// [`IndexDamage`] if a block makes no sense; `set` is then as it was.
    pub fn retain(&self, range: &RangeInclusive<u64>, set: &mut DocSet) -> Result<(), IndexDamage> {
        let (mut batch, mut values) = ([0; RETAIN_ROWS], Vec::new());
        let (mut left, mut kept) = (set.iter(), Vec::new());
        loop {
            let count = left.next_many(&mut batch);
            let batch = batch.get(..count).unwrap_or_default();
            if batch.is_empty() {
                break;
            }
            for rows in by_block(batch) {
                let block = self.block_of(rows)?;
                match block.zone.decides(range) {
                    Some(true) => kept.extend_from_slice(rows),
                    Some(false) => {}
                    None if block.is_frame() && block.has(rows) => {
                        block.keep_of_frame(rows, range, &mut kept);
                    }
                    None => {
                        self.gather(rows, &mut values)?;
                        keep(
                            rows,
                            values.iter().map(|value| is_in(*value, range)),
                            &mut kept,
                        );
                    }
                }
            }
        }
        *set = kept.into_iter().collect();
        Ok(())
    }
}

/// Keeps the rows for which `is_wanted` gives true. Without branches, which the processor often
/// could not predict.
fn keep_in_place(rows: &mut Vec<u32>, mut is_wanted: impl FnMut(u32) -> bool) {
    let mut kept = 0;
    let cells = Cell::from_mut(rows.as_mut_slice()).as_slice_of_cells();
    for row in cells.iter().map(Cell::get) {
        if let Some(to) = cells.get(kept) {
            to.set(row);
        }
        kept += usize::from(is_wanted(row));
    }
    rows.truncate(kept);
}

/// Rows, in slices of one block each.
fn by_block(rows: &[u32]) -> impl Iterator<Item = &[u32]> {
    let block = |row: u32| row as usize / BLOCK_ROWS;
    rows.chunk_by(move |a, b| block(*a) == block(*b))
}
