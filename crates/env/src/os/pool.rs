//! Background threads: each class of jobs has a queue ordered by due time, and a few threads that
//! take jobs from it.
//!
//! # Invariants
//! 1. Jobs of a class start in order of their due time; those with the same due time, in order of
//!    arrival.
//! 2. Threads share only the queue, never the [`OsEnv`](super::OsEnv), so dropping the `OsEnv` ends
//!    them.
//! 3. A job that panics ends itself only: the panic is reported by the process's hook, the thread
//!    goes on.

use super::busy_poll;
use crate::{Error, Job, JobClass, Result};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Threads for flushes: two, so that a timed log sync does not wait behind a long flush.
const FLUSH_THREADS: usize = 2;
/// Threads for compactions: two, so that the many small merges get past a large one; more would
/// take cores and disk from writers and readers.
const COMPACTION_THREADS: usize = 2;
/// Threads for what follows from records: a merge of gigabytes must not hold it up.
const DERIVE_THREADS: usize = 2;

/// The threads of one machine. Dropped, it forgets the jobs that have not started and waits for
/// those that have.
#[derive(Debug)]
pub(super) struct Pool {
    flush: Workers,
    compaction: Workers,
    derive: Workers,
}

/// The threads of one class of jobs.
#[derive(Debug)]
struct Workers {
    name: &'static str,
    queue: Arc<Queue>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Pool {
    /// Starts all threads.
    pub(super) fn start() -> Result<Pool> {
        let pool = Pool {
            flush: Workers::new("flush"),
            compaction: Workers::new("compact"),
            derive: Workers::new("derive"),
        };
        pool.flush.grow(FLUSH_THREADS)?;
        pool.compaction.grow(COMPACTION_THREADS)?;
        pool.derive.grow(DERIVE_THREADS)?;
        Ok(pool)
    }

    /// Starts threads of `class` until there are `count` of them.
    pub(super) fn grow(&self, class: JobClass, count: usize) -> Result<()> {
        self.workers(class).grow(count)
    }

    /// Runs `job` on a thread of `class`, not before `after` has passed.
    pub(super) fn schedule(&self, class: JobClass, after: Duration, job: Job) {
        self.workers(class).queue.push(after, job);
    }

    fn workers(&self, class: JobClass) -> &Workers {
        match class {
            JobClass::Flush => &self.flush,
            JobClass::Compaction => &self.compaction,
            JobClass::Derive => &self.derive,
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let classes = [&mut self.flush, &mut self.compaction, &mut self.derive];
        // None of them goes on with new jobs while another is waited for.
        for workers in &classes {
            workers.queue.close();
        }
        for thread in classes
            .into_iter()
            .flat_map(|workers| workers.threads.get_mut().drain(..))
        {
            // The last user of the machine may be a job: its own thread can't wait for itself, and
            // ends after it.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

impl Workers {
    fn new(name: &'static str) -> Workers {
        Workers {
            name,
            queue: Queue::new(),
            threads: Mutex::default(),
        }
    }

    /// Starts threads until there are `count` of them.
    fn grow(&self, count: usize) -> Result<()> {
        let mut threads = self.threads.lock();
        while threads.len() < count {
            let name = format!("quire-{}-{}", self.name, threads.len());
            let queue = Arc::clone(&self.queue);
            let builder = thread::Builder::new().name(name.clone());
            let started = builder.spawn(move || queue.work());
            threads.push(started.map_err(|e| Error::io("start thread", Path::new(&name), e))?);
        }
        Ok(())
    }
}

/// Jobs by due time. The key's second part is the order of arrival.
#[derive(Default)]
struct Waiting {
    jobs: BTreeMap<(Duration, u64), Job>,
    arrived: u64,
    closed: bool,
}

struct Queue {
    start: Instant,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("waiting", &self.waiting.lock().jobs.len())
            .finish()
    }
}

impl Queue {
    fn new() -> Arc<Queue> {
        Arc::new(Queue {
            start: Instant::now(),
            waiting: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    fn push(&self, after: Duration, job: Job) {
        let due = self.start.elapsed().saturating_add(after);
        let mut waiting = self.waiting.lock();
        let arrived = waiting.arrived;
        waiting.arrived += 1;
        waiting.jobs.insert((due, arrived), job);
        drop(waiting);
        // One thread is enough: it takes the job, or waits until its time.
        self.changed.notify_one();
    }

    /// Drops the jobs that have not started, and ends the threads.
    fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        let forgotten = std::mem::take(&mut waiting.jobs);
        drop(waiting);
        self.changed.notify_all();
        // After the lock is released: what a job owns may do anything when it is dropped.
        drop(forgotten);
    }

    fn work(&self) {
        while let Some(job) = self.next() {
            let _core = busy_poll::begin_job();
            // A job that panics concerns only itself: locks here do not poison, and it shares
            // nothing with this thread.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(job));
        }
    }

    /// The next job, when it is due; `None` when the queue is closed.
    fn next(&self) -> Option<Job> {
        let mut waiting = self.waiting.lock();
        while !waiting.closed {
            let Some(&(due, _)) = waiting.jobs.keys().next() else {
                self.changed.wait(&mut waiting);
                continue;
            };
            let left = due.saturating_sub(self.start.elapsed());
            if left.is_zero() {
                debug_assert!(
                    due <= self.start.elapsed(),
                    "no job starts before it is due"
                );
                return waiting.jobs.pop_first().map(|(_, job)| job);
            }
            self.changed.wait_for(&mut waiting, left);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn jobs_start_in_order_of_due_time_then_of_arrival() {
        let queue = Queue::new();
        let (sender, receiver) = mpsc::channel();
        let job = |number: u32| -> Job {
            let sender = sender.clone();
            Box::new(move || sender.send(number).unwrap())
        };
        queue.push(Duration::from_millis(40), job(4));
        queue.push(Duration::from_millis(20), job(3));
        queue.push(Duration::ZERO, job(1));
        queue.push(Duration::ZERO, job(2));
        queue.push(Duration::MAX, job(5));
        for _ in 0..4 {
            queue.next().unwrap()();
        }
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert!(queue.start.elapsed() >= Duration::from_millis(40));
        queue.close();
        assert!(queue.next().is_none(), "a closed queue ends its threads");
    }

    #[test]
    fn sooner_job_wakes_a_thread_that_waits_for_a_later_one() {
        let queue = Queue::new();
        queue.push(Duration::from_secs(3600), Box::new(|| ()));
        thread::scope(|scope| {
            let taken = thread::Builder::new().spawn_scoped(scope, || queue.next().is_some());
            thread::sleep(Duration::from_millis(20));
            queue.push(Duration::ZERO, Box::new(|| ()));
            assert!(taken.unwrap().join().unwrap());
        });
        assert!(queue.start.elapsed() < Duration::from_secs(60));
    }
}
