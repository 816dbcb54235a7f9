//! [`Crew`]: threads that do the parts of one piece of work at once, beside the thread that has it.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::thread;

/// It takes files of the system to tell.
static CORES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// One thread a core, started with the first work. They are shared by all who have work.
///
/// # Invariants
/// 1. No work waits for a thread that is busy with other work: parts for which none is free are
///    done by the thread that has the work.
#[derive(Debug, Default)]
pub(super) struct Crew {
    /// None if they could not be started.
    threads: OnceLock<Option<ThreadPool>>,
    /// How many of them are busy, or are about to be.
    busy: AtomicUsize,
}

/// Threads that are busy until this is dropped.
struct Busy<'a>(&'a AtomicUsize);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Crew {
    /// How many parts are done at once.
    pub(super) fn cores() -> usize {
        *CORES
    }

    /// Does all parts of some work, at least the first one on this thread; returns when all are
    /// done.
    pub(super) fn run_all(&self, count: usize, part: &(dyn Fn(usize) + Sync)) {
        let threads = self.threads.get_or_init(|| {
            let builder = ThreadPoolBuilder::new().num_threads(Crew::cores());
            let named = builder.thread_name(|number| format!("quire-query-{number}"));
            named.build().ok()
        });
        let Some(threads) = threads.as_ref().filter(|_| count > 1) else {
            return (0..count).for_each(part);
        };
        let next = AtomicUsize::new(1);
        let do_others = || {
            loop {
                match next.fetch_add(1, Ordering::Relaxed) {
                    number if number < count => part(number),
                    _ => return,
                }
            }
        };
        threads.in_place_scope(|scope| {
            for _ in 1..count {
                let Some(busy) = self.take_free() else {
                    break;
                };
                scope.spawn(|_| {
                    let _busy = busy;
                    do_others();
                });
            }
            part(0);
            do_others();
        });
    }

    /// A thread that is free; none if all are busy.
    fn take_free(&self) -> Option<Busy<'_>> {
        let is_free = |busy| (busy < Crew::cores()).then_some(busy + 1);
        let taken = self
            .busy
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_free);
        taken.is_ok().then(|| Busy(&self.busy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn no_work_waits_for_threads_that_are_busy_with_other_work() {
        let crew = Crew::default();
        // All threads, that of the work, and this one.
        let (began, ends) = (
            Barrier::new(Crew::cores() + 2),
            Barrier::new(Crew::cores() + 2),
        );
        thread::scope(|scope| {
            scope.spawn(|| {
                crew.run_all(Crew::cores() + 1, &|_| {
                    began.wait();
                    ends.wait();
                });
            });
            began.wait();
            let done = AtomicUsize::new(0);
            crew.run_all(10, &|_| {
                done.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(done.into_inner(), 10);
            ends.wait();
        });
        assert_eq!(crew.busy.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn parts_are_done_once_by_any_number_of_callers() {
        let crew = Crew::default();
        thread::scope(|scope| {
            for count in 0..20 {
                let crew = &crew;
                let work = move || {
                    let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                    crew.run_all(count, &|part| {
                        done[part].fetch_add(1, Ordering::Relaxed);
                    });
                    assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1));
                };
                thread::Builder::new().spawn_scoped(scope, work).unwrap();
            }
        });
    }

    #[test]
    fn a_part_that_panics_ends_the_work_and_not_the_threads() {
        let crew = Crew::default();
        let failing = std::panic::AssertUnwindSafe(|| {
            crew.run_all(4, &|part| assert!(part != 2, "this part fails"));
        });
        assert!(std::panic::catch_unwind(failing).is_err());
        let done = AtomicUsize::new(0);
        crew.run_all(4, &|_| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.into_inner(), 4);
    }
}
