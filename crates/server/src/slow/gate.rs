//! How many lines are written: at most [`LINES_MAX`] a second.

use std::time::Duration;

/// Lines a second.
const LINES_MAX: u64 = 20;

const SECOND: Duration = Duration::from_secs(1);

/// What was written in the present second, and left out since the last line.
#[derive(Debug, Default)]
pub(super) struct Gate {
    second_begun: Duration,
    written: u64,
    left_out: u64,
}

impl Gate {
    /// Whether a line may be written now, by the monotonic clock: then how many were left out since
    /// the last one.
    pub(super) fn pass(&mut self, now: Duration) -> Option<u64> {
        if now >= self.second_begun + SECOND {
            self.second_begun = now;
            self.written = 0;
        }
        if self.written == LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_bound_are_left_out_and_counted_in_the_next() {
        let mut gate = Gate::default();
        let mut pass = |millis| gate.pass(Duration::from_millis(millis));
        let first: Vec<_> = (0..100).map(|_| pass(500)).collect();
        assert_eq!(first.iter().flatten().count() as u64, LINES_MAX);
        assert_eq!(pass(999), None);
        assert_eq!(pass(1500), Some(101 - LINES_MAX));
        assert_eq!(pass(1501), Some(0));
    }
}
