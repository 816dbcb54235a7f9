//! Tally: a count that many threads add to.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Lines that threads are spread over.
const LINES: usize = 16;

/// A cache line, with the next one, which processors fetch along with it, left free.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// A count to which threads add without waiting for each other: each adds in a place that it shares with few.
#[derive(Debug, Default)]
pub struct Tally([Line; LINES]);

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LINE: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed) % LINES);
}

impl Tally {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        if let Some(Line(line)) = self.0.get(LINE.get()) {
            line.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// What was added so far.
    pub fn sum(&self) -> u64 {
        self.0
            .iter()
            .map(|line| line.0.load(Ordering::Relaxed))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_threads() {
        let tally = Tally::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| tally.add(3)));
            }
        });
        assert_eq!(tally.sum(), 4 * 3 * 10_000);
    }
}
