//! Filter: a blocked Bloom filter over a table's keys, cut into pages.
//!
//! # Layout
//! The filter is an array of lines of 64 bytes (512 bits): one cache line each. Its pages in a file
//! hold 16 lines (1 KiB; in files of version 1, 64 lines), the last one what is left, and each is a
//! frame of its own, so that a page can be kept or dropped alone. Small pages let the pager tell
//! keys apart: of a tenth of the bytes it made more than of pages of 4 KiB.
//!
//! A key's hash is XXH3-64 (seed 0). Its upper half, times the number of lines, divided by 2^32, is
//! its line. Its lower half h gives the bits in that line: bit h >> 23, then h = h × 0x9e3779b9 mod
//! 2^32 and again, as often as the properties say. Bit n of a line is bit n % 8 of byte n / 8.
//!
//! Source: Putze, Sanders, Singler 2007, "Cache-, hash- and space-efficient Bloom filters".

use crate::pager::Line;
use quire_seeded::{Bug, seeded};
use quire_sync::atomic::{AtomicU64, Ordering};

/// Bytes of a line.
pub(crate) const LINE_BYTES: usize = 64;
/// Lines of a page.
const PAGE_LINES: u32 = 16;
/// Lines of a page in files of version 1.
const PAGE_LINES_1: u32 = 64;

/// A filter probes no more bits than this.
pub(crate) const PROBES_MAX: u32 = 16;

/// The hash by which a filter knows a key.
pub(crate) fn hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// The least bits per key, up to `most`, of which a filter lets no more than this part of absent
/// keys through; 0 if it may be all of them.
pub(crate) fn bits_per_key(false_positives: f64, most: u32) -> u32 {
    if false_positives >= 1.0 {
        return 0;
    }
    let is_enough = |bits: &u32| false_positive_rate(*bits) <= false_positives;
    (1..most).find(is_enough).unwrap_or(most)
}

/// Which part of absent keys a filter with this number of bits per key lets through: that of a line
/// of n keys, as often as lines have n.
fn false_positive_rate(bits_per_key: u32) -> f64 {
    let line_bits = 8.0 * LINE_BYTES as f64;
    let keys_of_line = line_bits / f64::from(bits_per_key);
    let probes = f64::from(probes(bits_per_key));
    // Poisson's law; lines that are far fuller are too few to tell.
    let mut lines = (-keys_of_line).exp();
    let mut rate = 0.0;
    for keys in 0..4 * LINE_BYTES as u32 * 8 {
        let is_clear = (1.0 - 1.0 / line_bits).powf(probes * f64::from(keys));
        rate += lines * (1.0 - is_clear).powf(probes);
        lines *= keys_of_line / f64::from(keys + 1);
    }
    rate
}

/// The best number of probes is ln 2 × bits per key; a blocked filter gains nothing from the last
/// of them.
fn probes(bits_per_key: u32) -> u32 {
    (bits_per_key * 69 / 100).clamp(1, PROBES_MAX)
}

/// The shape of a filter; of no lines, there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) lines: u32,
    pub(crate) probes: u32,
    /// Lines of a page.
    page_lines: u32,
}

impl Shape {
    /// That of a filter in a file of format `version`.
    pub(crate) fn read(lines: u32, probes: u32, version: u32) -> Shape {
        let page_lines = match version {
            1 => PAGE_LINES_1,
            _ => PAGE_LINES,
        };
        Shape {
            lines,
            probes,
            page_lines,
        }
    }

    /// For `keys` keys at `bits_per_key`.
    pub(crate) fn of(keys: usize, bits_per_key: u32) -> Shape {
        let bits = keys as u64 * u64::from(bits_per_key);
        let lines = bits.div_ceil(8 * LINE_BYTES as u64);
        Shape {
            lines: u32::try_from(lines).unwrap_or(u32::MAX),
            probes: probes(bits_per_key),
            page_lines: PAGE_LINES,
        }
    }

    /// How many pages.
    pub(crate) fn pages(self) -> u32 {
        self.lines.div_ceil(self.page_lines)
    }

    /// Bytes of a whole page.
    pub(crate) fn whole_page_bytes(self) -> usize {
        LINE_BYTES * self.page_lines as usize
    }

    /// Bytes of the page numbered `page`.
    pub(crate) fn page_bytes(self, page: u32) -> usize {
        LINE_BYTES
            * self
                .lines
                .saturating_sub(page.saturating_mul(self.page_lines))
                .min(self.page_lines) as usize
    }

    /// The line where a key of this hash has its bits.
    pub(crate) fn line(self, hash: u64) -> u32 {
        (((hash >> 32) * u64::from(self.lines)) >> 32) as u32
    }

    /// The page of the file where a line is, and the line in that page.
    pub(crate) fn place(self, line: u32) -> (u32, usize) {
        (line / self.page_lines, (line % self.page_lines) as usize)
    }

    /// The bits of a key of this hash: each by its word, and in that.
    fn bits(self, hash: u64) -> impl Iterator<Item = (usize, u64)> {
        let mut hash = hash as u32;
        (0..self.probes).map(move |_| {
            let bit = hash >> 23;
            hash = hash.wrapping_mul(0x9e37_79b9);
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    /// Whether a key of this hash, which has its bits in `line`, may be in the table.
    pub(crate) fn may_hold(self, line: &Line, hash: u64) -> bool {
        // All bits are looked at: they lie in one line, and whether one is there can't be guessed.
        self.bits(hash).fold(true, |all, (word, bit)| {
            let found = line.get(word).map(|word| word.load(Ordering::Relaxed));
            all & found.is_none_or(|found| found & bit != 0)
        })
    }

    /// The filter of these hashes: all its lines.
    pub(crate) fn build(self, hashes: &[u64]) -> Vec<u8> {
        let mut words = vec![0; self.lines as usize * LINE_BYTES / 8];
        for &hash in hashes {
            let start = self.line(hash) as usize * LINE_BYTES / 8;
            for (word, bit) in self.bits(hash).skip(seeded(Bug::FilterBitMissing).into()) {
                if let Some(found) = words.get_mut(start + word) {
                    *found |= bit;
                }
            }
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }
}

/// A line of a filter's bytes, as [`Shape::may_hold`] takes it.
pub(crate) fn line_of(filter: &[u8], line: u32) -> Option<Line> {
    let bytes: &[u8; LINE_BYTES] = filter.get(line as usize * LINE_BYTES..)?.first_chunk()?;
    let mut words = bytes.as_chunks::<8>().0.iter().copied();
    Some(std::array::from_fn(|_| {
        AtomicU64::new(u64::from_le_bytes(words.next().unwrap_or_default()))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positives(shape: Shape, filter: &[u8], keys: std::ops::Range<u32>) -> usize {
        let absent = keys.map(|key| hash(&key.to_be_bytes()));
        absent
            .filter(|&hash| shape.may_hold(&line_of(filter, shape.line(hash)).unwrap(), hash))
            .count()
    }

    #[test]
    fn a_filter_lets_as_many_through_as_its_bits_say() {
        assert_eq!(
            [1.0, 0.02, 0.01, 1e-12].map(|rate| bits_per_key(rate, 64)),
            [0, 9, 10, 64]
        );
        for rate in [0.3, 0.1, 0.02, 0.01, 0.003] {
            let hashes: Vec<_> = (0..40_000u32).map(|key| hash(&key.to_be_bytes())).collect();
            let shape = Shape::of(hashes.len(), bits_per_key(rate, 64));
            let filter = shape.build(&hashes);
            let wrong = positives(shape, &filter, 40_000..240_000) as f64 / 200_000.0;
            // Bits are whole ones: the rate may be better by what one of them does.
            assert!((0.5 * rate..1.1 * rate).contains(&wrong), "{rate}: {wrong}");
        }
    }

    #[test]
    fn every_key_is_found_and_few_others() {
        for (bits, limit) in [(1, 10_000), (5, 1_500), (10, 150), (16, 40), (64, 10)] {
            for keys in [1u32, 50, 51, 52, 3_000, 20_000] {
                let hashes: Vec<_> = (0..keys).map(|key| hash(&key.to_be_bytes())).collect();
                let shape = Shape::of(hashes.len(), bits);
                let filter = shape.build(&hashes);
                assert_eq!(
                    filter.len(),
                    (0..shape.pages())
                        .map(|page| shape.page_bytes(page))
                        .sum::<usize>()
                );
                assert_eq!(
                    positives(shape, &filter, 0..keys),
                    keys as usize,
                    "{bits} bits, {keys} keys"
                );
                let wrong = positives(shape, &filter, keys..keys + 10_000);
                assert!(
                    wrong <= limit,
                    "{bits} bits, {keys} keys: {wrong} of 10,000"
                );
            }
        }
    }
}
