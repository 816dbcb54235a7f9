//! [`Crew`]: threads that do the parts of one piece of work at once, beside the thread that has it.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{LazyLock, OnceLock};
use std::thread;

/// It takes files of the system to tell.
static CORES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// One thread a core, started with the first work. They are shared by all who have work.
#[derive(Debug, Default)]
pub(super) struct Crew {
    /// None if they could not be started.
    threads: OnceLock<Option<ThreadPool>>,
}

impl Crew {
    /// How many parts are done at once.
    pub(super) fn cores() -> usize {
        *CORES
    }

    /// Does all parts of some work, the first one on this thread; returns when all are done.
    pub(super) fn run_all(&self, count: usize, part: &(dyn Fn(usize) + Sync)) {
        let threads = self.threads.get_or_init(|| {
            let builder = ThreadPoolBuilder::new().num_threads(Crew::cores());
            let named = builder.thread_name(|number| format!("quire-query-{number}"));
            named.build().ok()
        });
        let Some(threads) = threads.as_ref().filter(|_| count > 1) else {
            return (0..count).for_each(part);
        };
        threads.in_place_scope(|scope| {
            for number in 1..count {
                scope.spawn(move |_| part(number));
            }
            part(0);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

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
