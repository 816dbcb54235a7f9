//! [`ColumnWriter`]: rows become blocks, each in the encoding that takes fewest bytes.

use super::zone::{BLOCK_ROWS, ENTRY_BYTES, Encoding, ROW_BITS, Zone};
use crate::packed::{pack, packed_bytes, width_of};

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

    /// Adds rows; appends each block to `out` that is full.
    pub fn extend(&mut self, values: &[u64], out: &mut Vec<u8>) {
        let mut left = values;
        while !left.is_empty() {
            let room = BLOCK_ROWS - self.waiting.len();
            let (now, later) = left.split_at(room.min(left.len()));
            self.waiting.extend_from_slice(now);
            self.rows += now.len() as u64;
            if self.waiting.len() == BLOCK_ROWS {
                self.end_block(out);
            }
            left = later;
        }
    }

    /// Appends the rest of the column to `out`: the last block and the directory.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        if !self.waiting.is_empty() {
            self.end_block(out);
        }
        assert!(
            self.directory.len() as u64
                == self.rows.div_ceil(BLOCK_ROWS as u64) * ENTRY_BYTES as u64,
            "the directory has an entry for each block"
        );
        out.extend_from_slice(&self.directory);
        out.extend_from_slice(&self.rows.to_le_bytes());
    }

    fn end_block(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        assert!(
            self.waiting.len() <= BLOCK_ROWS,
            "a block has at most 4,096 rows"
        );
        let zone = encode_block(&self.waiting, out);
        assert!(
            zone.least <= zone.greatest,
            "a zone's least value is not above its greatest"
        );
        assert!(
            zone.zeros as usize <= self.waiting.len(),
            "zeros are rows of the block"
        );
        zone.encode(self.written, &mut self.directory);
        self.written += (out.len() - start) as u64;
        self.waiting.clear();
    }
}

/// Appends the block of `values`, 1 to 4,096, to `out`, in the encoding that takes fewest bytes.
fn encode_block(values: &[u64], out: &mut Vec<u8>) -> Zone {
    let (mut least, mut greatest, mut zeros, mut runs) = (u64::MAX, 0, 0, 1);
    let mut last = values.first().copied().unwrap_or(0);
    for value in values {
        // Zero is no value: less one, it is above all others.
        least = least.min(value.wrapping_sub(1));
        greatest = greatest.max(*value);
        zeros += usize::from(*value == 0);
        runs += usize::from(*value != last);
        last = *value;
    }
    let least = if zeros == values.len() { 0 } else { least + 1 };
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
