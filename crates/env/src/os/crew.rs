//! [`Crew`]: threads that do the parts of one piece of work at once, beside the thread that has it.
//!
//! A query of 100 µs is shared by threads that sleep before and after, so what counts is what it
//! costs to wake one. A pool of rayon is no choice: its threads look for more work before they
//! sleep again, which took 90 µs of CPU for each query.

use parking_lot::{Condvar, Mutex};
use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread;

/// It takes files of the system to tell.
static CORES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));

/// One thread a core, started with the first work. They are shared by all who have work.
///
/// # Invariants
/// 1. No work waits for a thread that is busy with other work: parts for which none is free are
///    done by the thread that has the work.
/// 2. A thread calls what work has borrowed only while [`Crew::run_all`] of that work runs.
#[derive(Debug, Default)]
pub(super) struct Crew {
    helpers: OnceLock<Arc<Helpers>>,
}

/// What the threads of a crew share.
#[derive(Debug)]
struct Helpers {
    queue: Mutex<Queue>,
    /// Notified for each request, and when the crew ends.
    requested: Condvar,
}

#[derive(Debug)]
struct Queue {
    /// One for each thread that is claimed and has not begun, the oldest first.
    requests: VecDeque<Request>,
    /// Threads that sleep and for which there is no request.
    free: usize,
    ended: bool,
}

/// The help of one thread is wanted with some work.
struct Request {
    work: Arc<Work>,
    /// Does parts of the work until none is left. It is called only while the work is open.
    help: &'static (dyn Fn() + Sync),
}

/// How far the helpers of some work are.
#[derive(Debug, Default)]
struct Work {
    open: Mutex<Open>,
    /// Notified when no helper is left.
    done: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    /// Requests that have not ended: while there are any, the work stays borrowed.
    helpers: usize,
    /// What the first part that panicked on a helper said.
    panic: Option<Box<dyn Any + Send>>,
}

impl Crew {
    /// How many parts are done at once.
    pub(super) fn cores() -> usize {
        *CORES
    }

    /// Does all parts of some work, at least the first one on this thread; returns when all are
    /// done.
    ///
    /// # Panics
    /// If a part does, once no thread is at another one.
    pub(super) fn run_all(&self, count: usize, part: &(dyn Fn(usize) + Sync)) {
        if count < 2 {
            return (0..count).for_each(part);
        }
        let next = AtomicUsize::new(1);
        let do_others = || {
            loop {
                match next.fetch_add(1, Ordering::Relaxed) {
                    number if number < count => part(number),
                    _ => return,
                }
            }
        };
        let shared = self.helpers().request(count - 1, &do_others);
        part(0);
        do_others();
        if let Some(panic) = shared.end() {
            resume_unwind(panic);
        }
    }

    fn helpers(&self) -> &Arc<Helpers> {
        self.helpers.get_or_init(|| Helpers::start(Crew::cores()))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if let Some(helpers) = self.helpers.get() {
            helpers.queue.lock().ended = true;
            helpers.requested.notify_all();
        }
    }
}

impl Helpers {
    /// Starts threads; fewer, or none, where the system refuses.
    fn start(count: usize) -> Arc<Helpers> {
        let helpers = Arc::new(Helpers {
            queue: Mutex::new(Queue {
                requests: VecDeque::with_capacity(count),
                free: 0,
                ended: false,
            }),
            requested: Condvar::new(),
        });
        for number in 0..count {
            let named = thread::Builder::new().name(format!("quire-query-{number}"));
            let of_thread = Arc::clone(&helpers);
            if named.spawn(move || of_thread.help()).is_err() {
                break;
            }
            helpers.queue.lock().free += 1;
        }
        helpers
    }

    /// What a thread does until the crew ends.
    fn help(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(Request { work, help }) = queue.requests.pop_front() {
                drop(queue);
                let result = catch_unwind(AssertUnwindSafe(help));
                queue = self.queue.lock();
                // First: who has the work may want help with more as soon as this is done.
                queue.free += 1;
                work.note_end(1, result.err());
            } else if queue.ended {
                return;
            } else {
                self.requested.wait(&mut queue);
            }
        }
    }

    /// Has `help` called by up to `count` threads, as many as are free.
    fn request<'a>(&'a self, count: usize, help: &'a (dyn Fn() + Sync)) -> Shared<'a> {
        // SAFETY: `help` is called by a thread that has a request only, and each request is counted
        // by `Work::open`. `Shared` borrows `help`, and when it is dropped it takes those back that
        // have not begun, and waits for the others. It is not leaked: only `Crew::run_all` has it,
        // as a local variable.
        #[allow(
            unsafe_code,
            reason = "threads that stay can't be given what is borrowed otherwise; \
                      to start one for each query costs twice as much"
        )]
        let help: &'static (dyn Fn() + Sync) = unsafe { std::mem::transmute(help) };
        let work = Arc::new(Work::default());
        let mut queue = self.queue.lock();
        let claimed = count.min(queue.free);
        queue.free -= claimed;
        work.open.lock().helpers = claimed;
        let request = || Request {
            work: Arc::clone(&work),
            help,
        };
        queue
            .requests
            .extend(std::iter::repeat_with(request).take(claimed));
        drop(queue);
        (0..claimed).for_each(|_| {
            self.requested.notify_one();
        });
        Shared {
            helpers: self,
            work,
        }
    }
}

/// Work that is shared with helpers; they have ended when it is dropped.
struct Shared<'a> {
    helpers: &'a Helpers,
    work: Arc<Work>,
}

impl Shared<'_> {
    /// Waits until no helper is left. Returns what one that panicked said.
    fn end(self) -> Option<Box<dyn Any + Send>> {
        self.wait();
        self.work.open.lock().panic.take()
    }

    fn wait(&self) {
        if self.work.open.lock().helpers == 0 {
            return;
        }
        let mut queue = self.helpers.queue.lock();
        let before = queue.requests.len();
        queue
            .requests
            .retain(|request| !Arc::ptr_eq(&request.work, &self.work));
        let withdrawn = before - queue.requests.len();
        queue.free += withdrawn;
        drop(queue);
        self.work.note_end(withdrawn, None);
        let mut open = self.work.open.lock();
        while open.helpers > 0 {
            self.work.done.wait(&mut open);
        }
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        self.wait();
    }
}

impl Work {
    /// Notes that requests have ended.
    fn note_end(&self, requests: usize, panic: Option<Box<dyn Any + Send>>) {
        let mut open = self.open.lock();
        open.helpers -= requests;
        if open.panic.is_none() {
            open.panic = panic;
        }
        if open.helpers == 0 {
            self.done.notify_one();
        }
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").finish_non_exhaustive()
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
        assert_eq!(crew.helpers().queue.lock().free, Crew::cores());
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
