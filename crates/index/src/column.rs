//! Column: numbers by row, in blocks of 4,096 that are each encoded in the way that takes fewest
//! bytes, read in place.
//!
//! # Invariants
//! 1. 0 says that a row has no value: it is never found, and a zone map leaves it out. So a column
//!    of codes holds code + 1.
//! 2. An entry of the directory is checked when its block is read, so a column is opened in
//!    constant time, and bytes that make no sense are an error. Nothing is allocated for what a
//!    file says.
//! 3. Blocks follow each other without a gap, so that a column can be written as its rows come.
//!
//! # Layout (little-endian)
//! ```text
//! | blocks, one after another | directory: 40 bytes for each block | rows (8) |
//! 0        8      16      24         32      36      38         39      40
//! | offset | base | least | greatest | slope | zeros | encoding | width |
//!   offset: of the block, from the start of the column; least, greatest: of its values that are not 0; 0 if all are
//!   zeros: how many values are 0; numbers are packed at `width` bits (see `packed.rs`)
//!   encoding 0, line   a number r for each row i: its value is base + slope * i + r, modulo 2^64. Constant: slope and width
//!                      are 0. Frame of reference: slope is 0. Raw: base is 0 and width 64
//!   encoding 1, gaps   r for each row: 0 stands for itself, another one for base + r
//!   encoding 2, runs   `slope` runs: the last row of each at 12 bits, padded to a byte, then r for each; its rows are base + r
//! ```
//! Source of the frames: Goldstein, Ramakrishnan, Shaft 1998, "Compressing relations and indexes".

use crate::packed::{
    GROUP, get, group_in_range, is_width, pack, packed_bytes, unpack, unpack_group, width_of,
};
use crate::{Damage, DocSet, le};
use std::ops::RangeInclusive;

/// Rows of a block; the last one of a column may have fewer.
pub const BLOCK_ROWS: usize = 4096;
const ENTRY_BYTES: usize = 40;
const FOOTER_BYTES: usize = 8;
/// Bits of a row's number within a block.
const ROW_BITS: u32 = 12;
/// Rows of a set that are looked at together. Room for more takes longer to clear than a few rows
/// take.
const RETAIN_ROWS: usize = 256;
const _: () = assert!(1 << ROW_BITS == BLOCK_ROWS && BLOCK_ROWS.is_multiple_of(64));

/// How a block is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Encoding {
    /// Each value is its distance from a line: constant values, frames of reference, ascending
    /// numbers.
    Line = 0,
    /// Each value is its distance from the least one, or none.
    Gaps = 1,
    /// Runs of equal values.
    Runs = 2,
}

impl Encoding {
    fn decode(byte: u8) -> Option<Encoding> {
        match byte {
            0 => Some(Encoding::Line),
            1 => Some(Encoding::Gaps),
            2 => Some(Encoding::Runs),
            _ => None,
        }
    }
}

/// What the directory says of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone {
    /// The least value that is not 0; 0 if there is none.
    pub least: u64,
    /// The greatest value.
    pub greatest: u64,
    /// Rows without a value.
    pub zeros: u32,
    /// How it is encoded.
    pub encoding: Encoding,
    /// Bits of a packed number.
    pub width: u32,
    base: u64,
    slope: u32,
}

/// Writes a column, block by block.
#[derive(Debug, Default)]
pub struct ColumnWriter {
    waiting: Vec<u64>,
    directory: Vec<u8>,
    rows: u64,
    written: u64,
}

impl ColumnWriter {
    /// An empty column.
    #[must_use]
    pub fn new() -> ColumnWriter {
        ColumnWriter::default()
    }

    /// Rows so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds a row; appends a block to `out` if it is full.
    pub fn push(&mut self, value: u64, out: &mut Vec<u8>) {
        self.waiting.push(value);
        self.rows += 1;
        if self.waiting.len() == BLOCK_ROWS {
            self.end_block(out);
        }
    }

    /// Appends what is left of the column to `out`.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        if !self.waiting.is_empty() {
            self.end_block(out);
        }
        out.extend_from_slice(&self.directory);
        out.extend_from_slice(&self.rows.to_le_bytes());
    }

    fn end_block(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        let zone = encode_block(&self.waiting, out);
        let directory = &mut self.directory;
        for number in [self.written, zone.base, zone.least, zone.greatest] {
            directory.extend_from_slice(&number.to_le_bytes());
        }
        directory.extend_from_slice(&zone.slope.to_le_bytes());
        directory.extend_from_slice(&(zone.zeros as u16).to_le_bytes());
        directory.extend_from_slice(&[zone.encoding as u8, zone.width as u8]);
        self.written += (out.len() - start) as u64;
        self.waiting.clear();
    }
}

/// Appends the block of `values`, 1 to 4,096, to `out`, in the encoding that takes fewest bytes.
fn encode_block(values: &[u64], out: &mut Vec<u8>) -> Zone {
    let present = || values.iter().copied().filter(|value| *value != 0);
    let (least, greatest) = (present().min().unwrap_or(0), present().max().unwrap_or(0));
    let zeros = values.len() - present().count();
    let zone = |encoding, base, slope, width| Zone {
        least,
        greatest,
        zeros: zeros as u32,
        encoding,
        width,
        base,
        slope,
    };

    let floor = if zeros > 0 { 0 } else { least };
    let mut best = zone(Encoding::Line, floor, 0, width_of(greatest - floor));
    let mut bytes = packed_bytes(values.len(), best.width);
    if zeros > 0 && least > 1 {
        let gaps = zone(Encoding::Gaps, least - 1, 0, width_of(greatest - least + 1));
        let gaps_bytes = packed_bytes(values.len(), gaps.width);
        if gaps_bytes < bytes {
            (best, bytes) = (gaps, gaps_bytes);
        }
    }
    if let Some((base, slope, spread)) = line_through(values) {
        let line = zone(Encoding::Line, base, slope, width_of(spread));
        let line_bytes = packed_bytes(values.len(), line.width);
        if line_bytes < bytes {
            (best, bytes) = (line, line_bytes);
        }
    }
    let runs = values.chunk_by(|a, b| a == b).count();
    let run_width = width_of(greatest - floor);
    let run_bytes = packed_bytes(runs, ROW_BITS) + packed_bytes(runs, run_width);
    // Runs have to be searched, so they must save something.
    if run_bytes < bytes / 2 {
        best = zone(Encoding::Runs, floor, runs as u32, run_width);
        let mut end = 0;
        let lasts = values.chunk_by(|a, b| a == b).map(|run| {
            end += run.len() as u64;
            end - 1
        });
        pack(lasts, ROW_BITS, out);
        let firsts = values.chunk_by(|a, b| a == b).filter_map(<[u64]>::first);
        pack(firsts.map(|value| value - floor), run_width, out);
        return best;
    }
    let (base, slope) = (best.base, u64::from(best.slope));
    let rows = (0u64..).zip(values);
    match best.encoding {
        Encoding::Gaps => pack(
            values.iter().map(|value| value.saturating_sub(base)),
            best.width,
            out,
        ),
        _ => pack(
            rows.map(|(row, value)| value.wrapping_sub(base).wrapping_sub(slope * row)),
            best.width,
            out,
        ),
    }
    best
}

/// Base, slope and greatest distance of the line from the first value to the last, of values that
/// ascend.
fn line_through(values: &[u64]) -> Option<(u64, u32, u64)> {
    let (first, last) = (*values.first()?, *values.last()?);
    if !values.is_sorted() || last == first {
        return None;
    }
    let slope = u32::try_from((last - first) / (values.len() as u64 - 1)).ok()?;
    let distance = |(row, value): (i128, &u64)| i128::from(*value) - i128::from(slope) * row;
    let distances = || (0i128..).zip(values).map(distance);
    let (low, high) = (distances().min()?, distances().max()?);
    Some((low as u64, slope, u64::try_from(high - low).ok()?))
}

/// A column in the bytes of a file. Copying it copies a slice and a number.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    bytes: &'a [u8],
    rows: u64,
    /// Where the directory begins.
    directory: usize,
}

/// One block, its entry checked.
#[derive(Debug, Clone, Copy)]
struct Block<'a> {
    zone: Zone,
    rows: usize,
    /// From its first byte on, past its end too.
    bytes: &'a [u8],
}

impl<'a> Column<'a> {
    /// The column that `bytes` hold, all of them. Takes constant time.
    ///
    /// # Errors
    /// [`Damage`] if they are too short for the rows that they say they have.
    pub fn new(bytes: &'a [u8]) -> Result<Column<'a>, Damage> {
        let damaged = || Damage::new("column", bytes.len());
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
        })
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
    /// [`Damage`] if there is no such block, or its entry makes no sense.
    pub fn zone(&self, block: usize) -> Result<Zone, Damage> {
        Ok(self.block(block)?.zone)
    }

    fn block(&self, index: usize) -> Result<Block<'a>, Damage> {
        let at = self
            .directory
            .saturating_add(index.saturating_mul(ENTRY_BYTES));
        self.read_block(index, at)
            .ok_or(Damage::new("directory of a column", at))
    }

    fn read_block(&self, index: usize, at: usize) -> Option<Block<'a>> {
        let entry = self.bytes.get(at..)?.first_chunk::<ENTRY_BYTES>()?;
        let left = self.rows.checked_sub((index * BLOCK_ROWS) as u64)?;
        let rows = left.min(BLOCK_ROWS as u64) as usize;
        let offset = usize::try_from(le::u64_at(entry, 0)?).ok()?;
        let zone = Zone {
            base: le::u64_at(entry, 8)?,
            least: le::u64_at(entry, 16)?,
            greatest: le::u64_at(entry, 24)?,
            slope: le::u32_at(entry, 32)?,
            zeros: u32::from(u16::from_le_bytes([entry[36], entry[37]])),
            encoding: Encoding::decode(entry[38])?,
            width: u32::from(entry[39]),
        };
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
    /// [`Damage`] if there is no such row, or its block makes no sense.
    pub fn get(&self, row: u64) -> Result<u64, Damage> {
        if row >= self.rows {
            return Err(Damage::new("row of a column", self.directory));
        }
        let block = self.block((row / BLOCK_ROWS as u64) as usize)?;
        Ok(block.get(row as usize % BLOCK_ROWS))
    }

    /// By how much the next row's value is greater than that of a row; 0 if it is less.
    ///
    /// # Errors
    /// As [`get`](Self::get), of either row.
    pub fn step(&self, row: u64) -> Result<u64, Damage> {
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
    pub fn read(&self, row: u64, out: &mut [u64]) -> Result<(), Damage> {
        let (mut row, mut out) = (row, out);
        while !out.is_empty() {
            let block = self.block((row / BLOCK_ROWS as u64) as usize)?;
            let start = row as usize % BLOCK_ROWS;
            let count = block.rows.saturating_sub(start).min(out.len());
            if count == 0 {
                return Err(Damage::new("row of a column", self.directory));
            }
            let (now, later) = out.split_at_mut(count);
            block.read(start, now);
            (row, out) = (row + count as u64, later);
        }
        Ok(())
    }

    /// Replaces `out` by the value of each of `rows`. Quick where neighbours are of one block.
    ///
    /// # Errors
    /// As [`get`](Self::get); `out` then holds anything.
    pub fn gather(&self, rows: &[u32], out: &mut Vec<u64>) -> Result<(), Damage> {
        out.clear();
        for rows in by_block(rows) {
            let block = self.block_of(rows)?;
            let inside = rows.iter().map(|row| *row as usize % BLOCK_ROWS);
            if !block.has(rows) {
                return Err(Damage::new("row of a column", self.directory));
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
    fn block_of(&self, rows: &[u32]) -> Result<Block<'a>, Damage> {
        self.block(rows.first().map_or(0, |row| *row as usize / BLOCK_ROWS))
    }

    /// How many values are below `wanted`, of a column whose values ascend. Reads a few blocks.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn lower_bound(&self, wanted: u64) -> Result<u64, Damage> {
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
    /// [`Damage`] if a block makes no sense.
    pub fn scan(&self, range: RangeInclusive<u64>) -> Result<Vec<u64>, Damage> {
        let mut bits = Vec::with_capacity(self.blocks() * (BLOCK_ROWS / 64));
        for index in 0..self.blocks() {
            self.block(index)?.scan(&range, &mut bits);
        }
        Ok(bits)
    }

    /// How many values, or runs, a [scan](Self::scan) looks at: those of blocks that the zone map
    /// can't decide.
    ///
    /// # Errors
    /// [`Damage`] if an entry of the directory makes no sense.
    pub fn scan_cost(&self, range: &RangeInclusive<u64>) -> Result<u64, Damage> {
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

    /// Keeps in `set` the rows whose values are in `range`; 0 never is. Reads blocks in which `set`
    /// has rows that the zone map can't decide.
    ///
    /// # Errors
    /// [`Damage`] if a block makes no sense; `set` is then as it was.
    pub fn retain(&self, range: &RangeInclusive<u64>, set: &mut DocSet) -> Result<(), Damage> {
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

/// Appends the rows that are wanted, of which `is_wanted` says one after the other. Without
/// branches: it is often a coin's toss.
fn keep(rows: &[u32], is_wanted: impl Iterator<Item = bool>, kept: &mut Vec<u32>) {
    let mut end = kept.len();
    kept.resize(end + rows.len(), 0);
    for (row, is_wanted) in rows.iter().zip(is_wanted) {
        if let Some(to) = kept.get_mut(end) {
            *to = *row;
        }
        end += usize::from(is_wanted);
    }
    kept.truncate(end);
}

/// Rows, in pieces of one block each.
fn by_block(rows: &[u32]) -> impl Iterator<Item = &[u32]> {
    let block = |row: u32| row as usize / BLOCK_ROWS;
    rows.chunk_by(move |a, b| block(*a) == block(*b))
}

fn is_in(value: u64, range: &RangeInclusive<u64>) -> bool {
    value != 0 && range.contains(&value)
}

impl Zone {
    /// Whether all rows, or none, are in a range; `None` if the rows must be looked at.
    fn decides(&self, range: &RangeInclusive<u64>) -> Option<bool> {
        let apart = self.greatest < *range.start() || self.least > *range.end();
        if apart || self.greatest == 0 || range.is_empty() {
            return Some(false);
        }
        let all = self.zeros == 0 && range.contains(&self.least) && range.contains(&self.greatest);
        all.then_some(true)
    }
}

impl Block<'_> {
    /// Whether its values are all its base and a packed number.
    fn is_frame(&self) -> bool {
        self.zone.encoding == Encoding::Line && self.zone.slope == 0
    }

    /// Whether it has all these rows of the column.
    fn has(&self, rows: &[u32]) -> bool {
        rows.iter()
            .all(|row| (*row as usize % BLOCK_ROWS) < self.rows)
    }

    /// Appends the rows, all of this block, whose values are in a range: by their packed numbers.
    fn keep_of_frame(&self, rows: &[u32], range: &RangeInclusive<u64>, kept: &mut Vec<u32>) {
        let (low, span) = self.numbers_in(range);
        let numbers = rows
            .iter()
            .map(|row| self.number(*row as usize % BLOCK_ROWS));
        keep(
            rows,
            numbers.map(|number| number.wrapping_sub(low) <= span),
            kept,
        );
    }

    fn line(&self, row: usize, number: u64) -> u64 {
        let slope = u64::from(self.zone.slope).wrapping_mul(row as u64);
        self.zone.base.wrapping_add(slope).wrapping_add(number)
    }

    fn gap(&self, number: u64) -> u64 {
        match number {
            0 => 0,
            _ => self.zone.base.wrapping_add(number),
        }
    }

    /// The packed number of a row.
    #[inline]
    fn number(&self, row: usize) -> u64 {
        get(self.bytes, self.zone.width, row)
    }

    #[inline]
    fn get(&self, row: usize) -> u64 {
        match self.zone.encoding {
            Encoding::Line => self.line(row, self.number(row)),
            Encoding::Gaps => self.gap(self.number(row)),
            Encoding::Runs => self.run_of(row).1,
        }
    }

    /// The rows and the value of the run that a row is in.
    fn run_of(&self, row: usize) -> (std::ops::Range<usize>, u64) {
        let last = |run: usize| get(self.bytes, ROW_BITS, run) as usize;
        let (mut low, mut high) = (0, self.zone.slope as usize - 1);
        while low < high {
            let middle = (low + high) / 2;
            match last(middle) < row {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let start = low.checked_sub(1).map_or(0, |before| last(before) + 1);
        (start..last(low) + 1, self.run_value(low))
    }

    fn run_value(&self, run: usize) -> u64 {
        let values = packed_bytes(self.zone.slope as usize, ROW_BITS);
        let bytes = self.bytes.get(values..).unwrap_or_default();
        self.zone
            .base
            .wrapping_add(get(bytes, self.zone.width, run))
    }

    /// The runs, as their rows and their value; whatever the bytes are, they follow each other and
    /// end at the last row.
    fn runs(&self) -> impl Iterator<Item = (std::ops::Range<usize>, u64)> {
        let (count, mut start) = (self.zone.slope as usize, 0);
        (0..count).map(move |run| {
            let end = match run + 1 == count {
                true => self.rows,
                false => get(self.bytes, ROW_BITS, run) as usize + 1,
            };
            let rows = start..end.clamp(start, self.rows);
            start = rows.end;
            (rows, self.run_value(run))
        })
    }

    /// Fills `out` with the values from `start` on; there are as many rows.
    fn read(&self, start: usize, out: &mut [u64]) {
        match self.zone.encoding {
            Encoding::Line => {
                unpack(self.bytes, self.zone.width, start, out);
                let slope = u64::from(self.zone.slope);
                let mut line = self.line(start, 0);
                for value in out {
                    *value = value.wrapping_add(line);
                    line = line.wrapping_add(slope);
                }
            }
            Encoding::Gaps => {
                unpack(self.bytes, self.zone.width, start, out);
                for value in out {
                    *value = self.gap(*value);
                }
            }
            Encoding::Runs => {
                for (rows, value) in self.runs() {
                    let from = rows.start.max(start) - start;
                    let to = rows.end.max(start) - start;
                    let to = to.min(out.len());
                    out.get_mut(from..to).unwrap_or_default().fill(value);
                }
            }
        }
    }

    /// Appends the bits of the rows in `range`, 64 at a time.
    fn scan(&self, range: &RangeInclusive<u64>, bits: &mut Vec<u64>) {
        let words = self.rows.div_ceil(64);
        let start = bits.len();
        match (self.zone.decides(range), self.zone.encoding) {
            (Some(false), _) => bits.resize(start + words, 0),
            (Some(true), _) => {
                bits.resize(start + words, u64::MAX);
                if let Some(last) = bits.last_mut().filter(|_| !self.rows.is_multiple_of(64)) {
                    *last = u64::MAX >> (64 - self.rows % 64);
                }
            }
            (None, Encoding::Runs) => {
                bits.resize(start + words, 0);
                let found = self.runs().filter(|(_, value)| is_in(*value, range));
                for row in found.flat_map(|(rows, _)| rows) {
                    if let Some(word) = bits.get_mut(start + row / 64) {
                        *word |= 1 << (row % 64);
                    }
                }
            }
            (None, _) => {
                let mut group = [0; GROUP];
                let (low, span) = self.numbers_in(range);
                for first in (0..self.rows).step_by(GROUP) {
                    let at = first / 8 * self.zone.width as usize;
                    let bytes = self.bytes.get(at..).unwrap_or_default();
                    let (width, high) = (self.zone.width, low.saturating_add(span));
                    let narrow = match self.zone.slope {
                        0 => group_in_range(bytes, width, low, high),
                        _ => None,
                    };
                    let found = narrow.unwrap_or_else(|| {
                        match self.zone.slope {
                            0 => unpack_group(bytes, width, &mut group),
                            _ => self.read(first, &mut group),
                        }
                        // One comparison does: what is below the range wraps around.
                        (0..).zip(&group).fold(0, |word, (at, number)| {
                            word | u64::from(number.wrapping_sub(low) <= span) << at
                        })
                    });
                    let past = first + GROUP > self.rows;
                    let mask = if past {
                        !(u64::MAX << (self.rows - first))
                    } else {
                        u64::MAX
                    };
                    bits.push(found & mask);
                }
            }
        }
    }

    /// The range as the least number and how much more the greatest is: of packed numbers, or of
    /// values of a slope. It is not decided by the zone, so some number is in it.
    fn numbers_in(&self, range: &RangeInclusive<u64>) -> (u64, u64) {
        let base = if self.zone.slope == 0 {
            self.zone.base
        } else {
            0
        };
        let low = (*range.start()).max(1).max(self.zone.least);
        let high = (*range.end()).min(self.zone.greatest);
        (low.wrapping_sub(base), high.wrapping_sub(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Values of every shape that an encoding is for, some blocks long.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        let any_length = 0usize..9_000;
        let shaped =
            (any_length, 0u32..6, any::<u64>(), 0u32..64).prop_map(|(rows, shape, seed, shift)| {
                let random = |row: usize| {
                    (row as u64 + seed)
                        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                        .rotate_left(29)
                };
                let value = |row: usize| match shape {
                    0 => seed,
                    1 => (seed >> 2).saturating_add(random(row) >> shift >> 2),
                    2 => (seed >> 24) + row as u64 * (seed >> 44) + random(row) % 3,
                    3 => {
                        if random(row).is_multiple_of(3) {
                            0
                        } else {
                            (seed >> 1) + random(row) % 1000
                        }
                    }
                    4 => random(row / 700) >> shift,
                    _ => random(row),
                };
                (0..rows).map(value).collect()
            });
        prop_oneof![shaped, vec(0u64..3, 0..300), vec(any::<u64>(), 0..70)]
    }

    fn encoded(values: &[u64]) -> Vec<u8> {
        let (mut writer, mut bytes) = (ColumnWriter::new(), Vec::new());
        values
            .iter()
            .for_each(|value| writer.push(*value, &mut bytes));
        assert_eq!(writer.rows(), values.len() as u64);
        writer.finish(&mut bytes);
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn every_read_and_every_scan_says_what_was_written(
            values in values(), a: prop::sample::Index, b: prop::sample::Index, loose in any::<[u64; 2]>(), exact: bool,
        ) {
            let bytes = encoded(&values);
            prop_assert!(bytes.len() <= 8 + values.len().div_ceil(BLOCK_ROWS) * ENTRY_BYTES + 8 * values.len());
            let column = Column::new(&bytes).unwrap();
            prop_assert_eq!(column.rows(), values.len() as u64);
            prop_assert!(column.get(values.len() as u64).is_err());
            if values.is_empty() {
                return Ok(());
            }
            let (mut from, mut to) = (a.index(values.len()), b.index(values.len()));
            let (mut low, mut high) = if exact { (values[from], values[to]) } else { (loose[0], loose[1]) };
            if from > to { (from, to) = (to, from) }
            if low > high { (low, high) = (high, low) }

            let mut some = vec![1; to - from];
            column.read(from as u64, &mut some).unwrap();
            prop_assert_eq!(&some, &values[from..to]);
            let rows: Vec<_> = (0..values.len() as u32).step_by(1 + from % 977).collect();
            column.gather(&rows, &mut some).unwrap();
            prop_assert!(rows.iter().map(|row| &values[*row as usize]).eq(&some));
            prop_assert_eq!(column.get(to as u64), Ok(values[to]));

            let wanted = |row: &u32| values[*row as usize] != 0 && (low..=high).contains(&values[*row as usize]);
            let expected: DocSet = (0..values.len() as u32).filter(wanted).collect();
            prop_assert_eq!(&DocSet::from_bits(&column.scan(low..=high).unwrap()), &expected);
            prop_assert!(column.scan_cost(&(low..=high)).unwrap() <= values.len() as u64);
            let some: DocSet = rows.iter().copied().collect();
            let mut kept = some.clone();
            column.retain(&(low..=high), &mut kept).unwrap();
            prop_assert_eq!(kept, &some & &expected);

            let mut sorted = values.clone();
            sorted.sort_unstable();
            let bytes = encoded(&sorted);
            let below = sorted.partition_point(|value| *value < low) as u64;
            prop_assert_eq!(Column::new(&bytes).unwrap().lower_bound(low), Ok(below));
        }

        #[test]
        fn bytes_that_are_no_column_are_refused_or_harmless(
            values in values(), damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), tail: bool, low: u64,
        ) {
            let mut bytes = encoded(&values);
            for (at, to) in damage {
                let last = bytes.len().min(300);
                let at = if tail { bytes.len() - 1 - at.index(last) } else { at.index(bytes.len()) };
                bytes[at] = to;
            }
            let Ok(column) = Column::new(&bytes) else { return Ok(()) };
            let mut set = DocSet::full(9_000);
            let _ = (column.scan(low..=u64::MAX), column.retain(&(low..=low), &mut set), column.lower_bound(low));
            let _ = (column.get(0), column.get(4_500), column.read(4_000, &mut [0; 200]), column.gather(&[0, 5_000], &mut Vec::new()));
        }
    }

    #[test]
    fn each_shape_takes_the_encoding_that_is_meant_for_it() {
        let bytes_of = |value: &dyn Fn(u64) -> u64| {
            let values: Vec<_> = (0..4096).map(value).collect();
            let bytes = encoded(&values);
            let zone = Column::new(&bytes).unwrap().zone(0).unwrap();
            (zone.encoding, bytes.len() - ENTRY_BYTES - FOOTER_BYTES)
        };
        assert_eq!(bytes_of(&|_| 7), (Encoding::Line, 0), "constant");
        assert_eq!(
            bytes_of(&|row| 1_000_000 + row),
            (Encoding::Line, 0),
            "a line"
        );
        assert_eq!(
            bytes_of(&|row| 1_000_000 + row * 77 % 128),
            (Encoding::Line, 7 * 512),
            "a frame"
        );
        assert_eq!(
            bytes_of(&|row| if row % 9 == 0 {
                0
            } else {
                1_000_000 + row * 77 % 100
            }),
            (Encoding::Gaps, 7 * 512)
        );
        assert_eq!(
            bytes_of(&|row| row / 1000 * 999_983 % 7 + 1),
            (Encoding::Runs, 8 + 2)
        );
    }
}
