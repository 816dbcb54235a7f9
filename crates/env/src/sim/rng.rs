//! The random numbers of the simulator: small, fast, and the same for ever for the same seed.

/// SplitMix64.
///
/// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
#[derive(Debug, Clone)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One of `0..=max`.
    pub(super) fn up_to(&mut self, max: usize) -> usize {
        match (max as u64).checked_add(1) {
            Some(count) => (self.next() % count) as usize,
            None => self.next() as usize,
        }
    }

    /// True with a chance of 1 in `n`.
    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            for (byte, random) in chunk.iter_mut().zip(self.next().to_le_bytes()) {
                *byte = random;
            }
        }
    }
}
