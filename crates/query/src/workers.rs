//! [`Workers`]: threads that share the shards of a query.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls a function with each number below a count, some at once, and returns when all calls have.
pub type RunAll<'a> = &'a (dyn Fn(usize, &(dyn Fn(usize) + Sync)) + Sync);

/// Threads that a query may use beside its own.
#[derive(Clone, Copy)]
pub struct Workers<'a> {
    count: usize,
    run_all: RunAll<'a>,
    nanos_min: u64,
}

/// Less work than this is not shared, in nanoseconds: waking a thread and joining what it found
/// takes tens of microseconds.
const SHARED_NANOS_MIN: u64 = 400_000;

impl<'a> Workers<'a> {
    /// `count` calls of `run_all` run at once; none if that is one.
    #[must_use]
    pub fn new(count: usize, run_all: RunAll<'a>) -> Option<Workers<'a>> {
        (count > 1).then_some(Workers {
            count,
            run_all,
            nanos_min: SHARED_NANOS_MIN,
        })
    }

    /// Whatever little work there is, it is shared: for tests.
    #[must_use]
    pub fn always(self) -> Workers<'a> {
        Workers {
            nanos_min: 0,
            ..self
        }
    }

    /// Whether work of about this many nanoseconds is to be shared.
    #[must_use]
    pub fn are_worth(&self, nanos: u64) -> bool {
        nanos >= self.nanos_min
    }

    /// How many tasks share this many items.
    fn tasks(&self, items: usize) -> usize {
        self.count.min(items)
    }

    /// The memory that each of the tasks which share this many items may hold, of `bytes` in all:
    /// while a state is joined, what it has is there twice.
    #[must_use]
    pub fn memory_each(&self, items: usize, bytes: usize) -> usize {
        bytes / (self.tasks(items) + 1)
    }

    /// Shares items among tasks: each takes the item of its own number, and then the next one until
    /// none is left. What they return.
    pub fn share<T: Send + Sync>(
        &self,
        items: usize,
        task: &(dyn Fn(&mut dyn Iterator<Item = usize>) -> T + Sync),
    ) -> Vec<T> {
        let tasks = self.tasks(items);
        let next = AtomicUsize::new(tasks);
        let done: Vec<OnceLock<T>> = (0..tasks).map(|_| OnceLock::new()).collect();
        (self.run_all)(tasks, &|at| {
            let others = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|item| *item < items);
            let result = task(&mut std::iter::once(at).chain(std::iter::from_fn(others)));
            if let Some(done) = done.get(at) {
                done.get_or_init(|| result);
            }
        });
        let done: Vec<T> = done.into_iter().filter_map(OnceLock::into_inner).collect();
        assert!(done.len() == tasks, "each task ran");
        done
    }
}
