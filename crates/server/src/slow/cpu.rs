//! The CPU time of a request: that of the threads that read, search and write for it. Threads that
//! help a search of many partitions are not counted, nor is taking the request apart.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

tokio::task_local! {
    static OF_REQUEST: CpuTime;
}

/// See the module. A clone counts for the same request.
#[derive(Debug, Clone, Default)]
pub(crate) struct CpuTime(Arc<Spent>);

#[derive(Debug, Default)]
struct Spent {
    nanos: AtomicU64,
    /// Turns of threads that ended, and that run.
    done: AtomicU64,
    running: AtomicU64,
}

impl CpuTime {
    /// Does `work` for the request: what [`counted`] is done meanwhile is its own.
    pub(crate) async fn of<T>(&self, work: impl Future<Output = T>) -> T {
        OF_REQUEST.scope(self.clone(), work).await
    }

    /// What was counted so far.
    pub(crate) fn spent(&self) -> Duration {
        Duration::from_nanos(self.0.nanos.load(Ordering::Relaxed))
    }

    /// How many turns of threads ended, and how many run.
    pub(crate) fn threads(&self) -> (u64, u64) {
        let Spent { done, running, .. } = &*self.0;
        (
            done.load(Ordering::Relaxed),
            running.load(Ordering::Relaxed),
        )
    }
}

/// A turn of a thread, which runs until this is dropped.
struct Turn(CpuTime);

impl Turn {
    fn begin(of: CpuTime) -> Turn {
        of.0.running.fetch_add(1, Ordering::Relaxed);
        Turn(of)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Spent { done, running, .. } = &*self.0.0;
        done.fetch_add(1, Ordering::Relaxed);
        running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How long work took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    /// From its beginning to its end.
    pub(crate) elapsed: Duration,
    /// Of its thread; none if that is not known, but that it is no more than `elapsed`.
    pub(crate) cpu: Option<Duration>,
}

/// The longest time that work may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
}

impl Took {
    /// Whether it took neither more CPU nor longer than this; none if that is not known.
    pub(crate) fn is_within(self, most: Most) -> Option<bool> {
        if self.elapsed > most.elapsed {
            return Some(false);
        }
        match self.cpu {
            Some(cpu) => Some(cpu <= most.cpu),
            None => (self.elapsed <= most.cpu).then_some(true),
        }
    }
}

/// How the CPU time of work is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// By the clock of the thread: two calls of the system, which take as long as a small read.
    Thread,
    /// It is not known. The time that passes is no less: of short work that says enough.
    Wall,
}

/// Work that counts for the request that has it done, on whatever thread, and how long it took.
pub(crate) fn counted<T>(clock: Clock, work: impl FnOnce() -> T) -> impl FnOnce() -> (T, Took) {
    let of_request = OF_REQUEST.try_with(CpuTime::clone).ok();
    move || {
        let begun = Instant::now();
        let cpu = (clock == Clock::Thread).then(of_thread);
        let turn = of_request.map(Turn::begin);
        let done = work();
        let elapsed = begun.elapsed();
        let cpu = cpu.map(|cpu| of_thread().saturating_sub(cpu));
        if let Some(turn) = turn {
            let nanos = cpu.unwrap_or(elapsed).as_nanos();
            let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
            turn.0.0.nanos.fetch_add(nanos, Ordering::Relaxed);
        }
        (done, Took { elapsed, cpu })
    }
}

/// The CPU time of this thread.
fn of_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
