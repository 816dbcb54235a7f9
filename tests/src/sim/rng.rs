//! Random numbers from a seed: always the same for the same seed, so that a seed names a history.

use std::ops::RangeInclusive;

/// SplitMix64.
///
/// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of the range.
    pub(crate) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (first, last) = range.into_inner();
        match (last - first).checked_add(1) {
            Some(count) => first + self.next() % count,
            None => self.next(),
        }
    }

    /// True with a chance of 1 in `n`.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    /// One of these.
    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.within(0..=choices.len() as u64 - 1) as usize]
    }

    /// An index, drawn with these weights. One of them must be above 0.
    pub(crate) fn weighted(&mut self, weights: impl Iterator<Item = u64> + Clone) -> usize {
        let mut left = self.within(1..=weights.clone().sum());
        for (index, weight) in weights.enumerate() {
            match left.checked_sub(weight) {
                Some(rest) if rest > 0 => left = rest,
                _ => return index,
            }
        }
        unreachable!("no weight is heavier than their sum")
    }
}
