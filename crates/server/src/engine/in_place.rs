//! Short reads that are done by the thread that drives their connection.
//!
//! To hand a read to another thread and to get its answer back takes two switches of threads, which
//! cost more CPU than most reads. Nobody knows beforehand how long a read takes. So it is expected
//! to be short where the last ones of its shape were.
//!
//! # Invariants
//! 1. A read is done in place only after a number of short ones of its shape in a row.
//! 2. One thread at least that drives connections does no read meanwhile.
//! 3. While no read in place ends within a tick, a thread is woken to drive connections. So a read
//!    that waits, for a disk say, makes others wait for two ticks at most.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::Handle;

use super::expected::Expected;
use super::shape::Shape;
use crate::slow::{Clock, Most, Took};

/// A read that takes more CPU is long: half a [`TICK`], as others may wait for it. To hand one over
/// takes some 30 µs. And so is one that ends later, which has waited for a disk or a lock. On a
/// busy machine each may wait for its processor.
const SHORT: Most = Most {
    cpu: Duration::from_millis(1),
    elapsed: Duration::from_millis(10),
};

/// The reads in place whose CPU time is measured after one of which nobody knows whether it was
/// short: its shape has become long, or it has waited for its processor.
const MEASURED: u32 = 64;

/// The short reads in a row after which the next one of their shape is done in place: at first,
/// and at the most.
const NEEDED: u16 = 8;
const NEEDED_MAX: u16 = 4096;

/// How often the reads that are done in place are looked at.
const TICK: Duration = Duration::from_millis(2);

/// The ticks without a read in place after which they are not looked at until the next one.
const QUIET_TICKS: u32 = 50;

/// See the module.
pub(super) struct InPlace {
    /// Whether reads are short.
    are_short: Expected,
    /// The next reads whose CPU time is measured.
    measured: AtomicU32,
    reads: Arc<Reads>,
    /// None if there can't be one: then nothing is done in place.
    watcher: OnceLock<Option<Thread>>,
}

/// The reads that are done in place.
#[derive(Default)]
struct Reads {
    running: AtomicUsize,
    ended: AtomicU64,
    /// The watcher sleeps until it is woken.
    is_asleep: AtomicBool,
    /// The watcher is to end.
    is_over: AtomicBool,
}

/// A read that is done in place, until this is dropped.
pub(super) struct Place<'a>(&'a InPlace);

impl InPlace {
    pub(super) fn new() -> InPlace {
        InPlace {
            are_short: Expected::new(NEEDED, NEEDED_MAX),
            measured: AtomicU32::new(0),
            reads: Arc::default(),
            watcher: OnceLock::new(),
        }
    }

    /// Whether a read of this shape is expected to be short enough.
    pub(super) fn expects_short(&self, shape: Shape) -> bool {
        self.are_short.of(shape)
    }

    /// Begins a read of this shape in place; none if it is to be done by another thread.
    pub(super) fn begin(&self, shape: Shape) -> Option<Place<'_>> {
        if !self.expects_short(shape) {
            return None;
        }
        let driving = Handle::try_current().ok()?;
        let others = driving.metrics().num_workers().saturating_sub(1);
        let reads = &self.reads;
        let begun = reads
            .running
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |running| {
                (running < others).then_some(running + 1)
            });
        begun.ok()?;
        let place = Place(self);
        let watcher = self.watcher.get_or_init(|| watch(reads, driving));
        let watcher = watcher.as_ref()?;
        if reads.is_asleep.swap(false, Ordering::SeqCst) {
            watcher.unpark();
        }
        Some(place)
    }

    /// How the CPU time of the next read in place is found.
    pub(super) fn clock(&self) -> Clock {
        let left = self.measured.load(Ordering::Relaxed);
        if left == 0 {
            return Clock::Wall;
        }
        // Where two take the same one, one more is measured.
        self.measured.store(left - 1, Ordering::Relaxed);
        Clock::Thread
    }

    /// Notes how long a read of this shape took, in place or not.
    pub(super) fn note(&self, shape: Shape, took: Took) {
        match took.is_within(SHORT) {
            Some(is_short) => self.are_short.note(shape, is_short),
            None => self.measured.store(MEASURED, Ordering::Relaxed),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let reads = &self.0.reads;
        reads.running.fetch_sub(1, Ordering::SeqCst);
        reads.ended.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for InPlace {
    fn drop(&mut self) {
        self.reads.is_over.store(true, Ordering::SeqCst);
        if let Some(Some(watcher)) = self.watcher.get() {
            watcher.unpark();
        }
    }
}

/// Starts the thread that looks after the reads in place; none if it can't be started.
fn watch(reads: &Arc<Reads>, driving: Handle) -> Option<Thread> {
    let reads = Arc::clone(reads);
    let watcher = thread::Builder::new().name("in-place".to_owned());
    match watcher.spawn(move || reads.watch(&driving)) {
        Ok(watcher) => Some(watcher.thread().clone()),
        Err(error) => {
            tracing::warn!(%error, "no thread for short reads: each is done by another thread");
            None
        }
    }
}

impl Reads {
    fn watch(&self, driving: &Handle) {
        let (mut ended_before, mut quiet) = (0, 0);
        while !self.is_over.load(Ordering::SeqCst) {
            if quiet >= QUIET_TICKS {
                self.is_asleep.store(true, Ordering::SeqCst);
                // A read that began before this was set does not wake it.
                if self.running.load(Ordering::SeqCst) == 0 && !self.is_over.load(Ordering::SeqCst)
                {
                    thread::park();
                }
                self.is_asleep.store(false, Ordering::SeqCst);
                quiet = 0;
            }
            thread::park_timeout(TICK);
            let is_running = self.running.load(Ordering::SeqCst) > 0;
            let ended = self.ended.load(Ordering::Relaxed);
            let has_ended = std::mem::replace(&mut ended_before, ended) != ended;
            quiet = match is_running || has_ended {
                true => 0,
                false => quiet + 1,
            };
            if is_running && !has_ended {
                // A thread that is woken to do this drives connections afterwards.
                driving.spawn(async {});
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_which_it_is_not_known_whether_it_was_short_has_the_next_ones_measured() {
        let (in_place, shape) = (InPlace::new(), Shape::of("get", "things"));
        let took = |millis: u64, cpu: Option<u64>| Took {
            elapsed: Duration::from_millis(millis),
            cpu: cpu.map(Duration::from_millis),
        };
        for _ in 0..NEEDED {
            in_place.note(shape, took(1, None));
        }
        assert!(in_place.expects_short(shape));
        assert_eq!(in_place.clock(), Clock::Wall);
        // It may have waited for its processor.
        in_place.note(shape, took(5, None));
        assert!(in_place.expects_short(shape));
        assert_eq!(in_place.clock(), Clock::Thread);
        in_place.note(shape, took(5, Some(1)));
        assert!(in_place.expects_short(shape));
        in_place.note(shape, took(5, Some(4)));
        assert!(!in_place.expects_short(shape));
        for _ in 1..MEASURED {
            assert_eq!(in_place.clock(), Clock::Thread);
        }
        assert_eq!(in_place.clock(), Clock::Wall);
    }

    #[test]
    fn a_read_that_ends_late_is_long_whatever_its_cpu_time_is() {
        let (in_place, shape) = (InPlace::new(), Shape::of("get", "things"));
        let took = |elapsed| Took { elapsed, cpu: None };
        for _ in 0..NEEDED {
            in_place.note(shape, took(Duration::ZERO));
        }
        assert!(in_place.expects_short(shape));
        in_place.note(shape, took(SHORT.elapsed * 2));
        assert!(!in_place.expects_short(shape));
    }
}
