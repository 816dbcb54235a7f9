//! The compaction limiter of a disk: how many compactions write to it at once, and how fast.
//!
//! Both are as set. Else one runs at a time on a disk whose reads take milliseconds, and two on
//! others; a hard disk is taken for slow until its reads are measured. And the rate halves while
//! reads take over twice the time that they take without compactions, and grows again after that.
//! It stays above twice the rate at which all else is written: slower compactions would never end,
//! and reads would have ever more runs to look at.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Limits of a disk's compactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MergeLimits {
    /// How many run at once, 1 to 16; found by measuring if none.
    pub count: Option<u64>,
    /// Whether reads are taken for slow until they are measured.
    pub seeks: bool,
    /// Bytes per second that they write in all; found by measuring if none.
    pub rate_bytes: Option<u64>,
}

/// A disk whose reads take this long has to seek.
const SEEK: Duration = Duration::from_millis(2);
/// Reads that are faster came from memory.
const FROM_MEMORY: Duration = Duration::from_micros(50);
/// The rate changes this often at most.
const CHANGE_EVERY: Duration = Duration::from_millis(100);
const RATE_MIN: u64 = 1 << 20;
/// Where the rate begins once it is limited; past this it is not.
const RATE_MAX: u64 = 1 << 30;

/// As many run at once where that is not set.
const COUNT_MAX: u64 = 2;
/// As many may be set: each has a thread.
const COUNT_LIMIT: u64 = 16;

impl MergeLimits {
    /// The most compactions that these limits let run at once.
    pub fn most(&self) -> usize {
        self.count.unwrap_or(COUNT_MAX).clamp(1, COUNT_LIMIT) as usize
    }
}

#[derive(Debug, Default)]
struct State {
    running: u64,
    /// Called when one ends.
    waiting: Vec<Again>,
    /// Means of what reads took without compactions, and beside some.
    idle: Option<Duration>,
    busy: Option<Duration>,
    /// What was found by measuring.
    rate: Option<u64>,
    changed: Duration,
    /// Bytes written otherwise when it was last changed.
    written: u64,
    /// When all that was admitted is written, at the rate.
    free_at: Duration,
}

struct Again(Box<dyn FnOnce() + Send>);

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Again")
    }
}

/// The compactions of one disk.
#[derive(Debug)]
pub(crate) struct Merges {
    limits: MergeLimits,
    state: Mutex<State>,
    /// Bytes that logs and flushes have written.
    written: AtomicU64,
}

/// A compaction that runs.
#[derive(Debug)]
pub struct MergePermit(Arc<Merges>);

impl MergePermit {
    pub(super) fn begin(
        merges: &Arc<Merges>,
        again: Box<dyn FnOnce() + Send>,
    ) -> Option<MergePermit> {
        let mut state = merges.state.lock();
        if state.running < merges.count_max(&state) {
            state.running += 1;
            return Some(MergePermit(Arc::clone(merges)));
        }
        state.waiting.push(Again(again));
        None
    }
}

impl Drop for MergePermit {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        debug_assert!(state.running > 0, "a permit is given back once");
        state.running -= 1;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for again in waiting {
            (again.0)();
        }
    }
}

impl Merges {
    pub(super) fn new(limits: MergeLimits) -> Merges {
        Merges {
            limits,
            state: Mutex::default(),
            written: AtomicU64::new(0),
        }
    }

    /// Notes that a log or a flush writes this much.
    pub(super) fn note_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    fn count_max(&self, state: &State) -> u64 {
        let measured = match state.idle.or(state.busy) {
            Some(latency) if latency < SEEK => COUNT_MAX,
            None if !self.limits.seeks => COUNT_MAX,
            _ => 1,
        };
        self.limits.count.unwrap_or(measured).clamp(1, COUNT_LIMIT)
    }

    /// Notes how long a read took.
    pub(super) fn note_read(&self, took: Duration, now: Duration) {
        if took < FROM_MEMORY {
            return;
        }
        let mut state = self.state.lock();
        let mean =
            |before: Option<Duration>| Some(before.map_or(took, |mean| (mean * 7 + took) / 8));
        if state.running == 0 {
            state.idle = mean(state.idle);
            return;
        }
        state.busy = mean(state.busy);
        if now.saturating_sub(state.changed) >= CHANGE_EVERY
            && let (Some(idle), Some(busy)) = (state.idle, state.busy)
        {
            let seconds = now.saturating_sub(state.changed).as_secs_f64();
            let written = self.written.load(Ordering::Relaxed);
            let others = written.saturating_sub(state.written) as f64 / seconds;
            (state.changed, state.written) = (now, written);
            state.rate = next_rate(state.rate, idle, busy, others as u64);
        }
    }

    /// How long a compaction waits before it writes `bytes`.
    pub(super) fn wait_for(&self, bytes: u64, now: Duration) -> Duration {
        let mut state = self.state.lock();
        let Some(rate) = self.limits.rate_bytes.or(state.rate) else {
            return Duration::ZERO;
        };
        let begin = state.free_at.max(now);
        let seconds = bytes as f64 / rate.max(1) as f64;
        state.free_at = begin + Duration::from_secs_f64(seconds.min(3600.0));
        begin.saturating_sub(now)
    }

    pub(super) fn figures(&self) -> (u64, Option<u64>) {
        let state = self.state.lock();
        (state.running, self.limits.rate_bytes.or(state.rate))
    }
}

/// The next rate, by how long reads take without compactions and beside them, and by the bytes per
/// second that are written otherwise.
fn next_rate(rate: Option<u64>, idle: Duration, busy: Duration, others: u64) -> Option<u64> {
    if busy > idle * 2 {
        let least = others.saturating_mul(2).max(RATE_MIN);
        return Some((rate.unwrap_or(RATE_MAX) / 2).max(least));
    }
    let grown = rate.map(|rate| rate + rate / 8);
    grown.filter(|rate| *rate < RATE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    const MIB: u64 = 1 << 20;

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn rate_halves_while_reads_are_slow_and_grows_again() {
        for (rate, idle, busy, others, expected) in [
            (None, 10, 20, 0, None),
            (None, 10, 21, 0, Some(512 * MIB)),
            (Some(8 * MIB), 10, 30, 0, Some(4 * MIB)),
            (Some(MIB), 10, 30, 0, Some(MIB)),
            (Some(8 * MIB), 10, 12, 0, Some(9 * MIB)),
            (Some(1000 * MIB), 10, 12, 0, None),
            // What is written has to be compacted.
            (Some(8 * MIB), 10, 30, 3 * MIB, Some(6 * MIB)),
            (Some(MIB), 10, 30, 30 * MIB, Some(60 * MIB)),
            (Some(MIB), 10, 12, 30 * MIB, Some(MIB + MIB / 8)),
        ] {
            assert_eq!(
                next_rate(rate, millis(idle), millis(busy), others),
                expected,
                "{rate:?}"
            );
        }
    }

    #[test]
    fn writes_of_compactions_keep_to_the_rate() {
        let merges = Merges::new(MergeLimits {
            rate_bytes: Some(10 * MIB),
            ..MergeLimits::default()
        });
        let waits: Vec<_> = [0, 0, 100, 5000]
            .map(|now| merges.wait_for(MIB, millis(now)))
            .into();
        assert_eq!(waits, [0, 100, 100, 0].map(millis));
        let unlimited = Merges::new(MergeLimits::default());
        assert_eq!(unlimited.wait_for(1 << 40, millis(0)), Duration::ZERO);
    }

    #[test]
    fn one_that_is_refused_is_called_once_another_ends_and_slow_disks_run_one() {
        let merges = Arc::new(Merges::new(MergeLimits::default()));
        let called = Arc::new(AtomicU64::new(0));
        let begin = || {
            let called = Arc::clone(&called);
            let again = Box::new(move || {
                called.fetch_add(1, Ordering::Relaxed);
            });
            MergePermit::begin(&merges, again)
        };
        let (one, two) = (begin().unwrap(), begin().unwrap());
        assert!(begin().is_none() && begin().is_none());
        drop(one);
        assert_eq!(called.load(Ordering::Relaxed), 2, "both are called");
        drop(two);
        merges.note_read(millis(9), millis(1));
        let one = begin().unwrap();
        assert!(begin().is_none(), "reads take milliseconds, so one runs");
        drop(one);
        assert_eq!((merges.figures().0, called.load(Ordering::Relaxed)), (0, 3));
    }
}
