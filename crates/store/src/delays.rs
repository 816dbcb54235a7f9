//! How long things took, counted by size: a histogram that costs two additions a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets, in microseconds. What took longer than the last is in none of them.
pub const DELAY_BOUNDS_MICROS: [u64; 12] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 10_000_000,
];

/// Counts of delays. Any number of threads add to it.
#[derive(Debug, Default)]
pub struct Delays {
    /// By bucket; the last is for what is longer than all bounds.
    counts: [AtomicU64; DELAY_BOUNDS_MICROS.len() + 1],
    micros: AtomicU64,
}

impl Delays {
    /// Counts one.
    pub fn note(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        let bucket = DELAY_BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// How many there were of each bucket, the last of those longer than all bounds.
    pub fn counts(&self) -> Vec<u64> {
        let counts = self.counts.iter();
        counts.map(|count| count.load(Ordering::Relaxed)).collect()
    }

    /// Their sum in microseconds.
    pub fn micros(&self) -> u64 {
        self.micros.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_delay_is_counted_under_the_least_bound_that_holds_it() {
        let delays = Delays::default();
        for micros in [0, 250, 251, 2_500, 10_000_000, 10_000_001] {
            delays.note(Duration::from_micros(micros));
        }
        assert_eq!(delays.counts(), [2, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(delays.micros(), 20_003_002);
    }
}
