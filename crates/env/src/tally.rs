//! Tally: a count that many threads add to.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Cache lines that belong to one thread each, for the first threads.
const LINES_OWN: usize = 16;
/// Cache lines that the later threads share.
const LINES_SHARED: usize = 16;

/// A cache line. The next line stays unused, because processors fetch it too.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// A count to which threads add without waiting for each other: each adds in a line of its own, or
/// in one that it shares with few others.
#[derive(Debug, Default)]
pub struct Tally {
    own: [Line; LINES_OWN],
    shared: [Line; LINES_SHARED],
}

static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed));
}

impl Tally {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        let thread = THREAD.get();
        if let Some(Line(line)) = self.own.get(thread) {
            // No other thread writes to it. An atomic addition would keep the processor from
            // starting what comes next.
            let before = line.load(Ordering::Relaxed);
            line.store(before.wrapping_add(count), Ordering::Relaxed);
        } else if let Some(Line(line)) = self.shared.get(thread % LINES_SHARED) {
            line.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// The sum of all additions.
    pub fn sum(&self) -> u64 {
        let lines = self.own.iter().chain(&self.shared);
        lines.map(|line| line.0.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_threads() {
        let tally = Tally::default();
        let threads = 2 * LINES_OWN;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..10_000).for_each(|_| tally.add(3)));
            }
        });
        assert_eq!(tally.sum(), threads as u64 * 3 * 10_000);
    }
}
