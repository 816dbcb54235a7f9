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
    /// Of its thread.
    pub(crate) cpu: Duration,
}

impl Took {
    /// Whether it took neither more CPU nor longer than this.
    pub(crate) fn is_within(self, most: Took) -> bool {
        self.cpu <= most.cpu && self.elapsed <= most.elapsed
    }
}

/// Work that counts for the request that has it done, on whatever thread, and how long it took.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> (T, Took) {
    let of_request = OF_REQUEST.try_with(CpuTime::clone).ok();
    move || {
        let (begun, cpu) = (Instant::now(), of_thread());
        let turn = of_request.map(Turn::begin);
        let done = work();
        let took = Took {
            elapsed: begun.elapsed(),
            cpu: of_thread().saturating_sub(cpu),
        };
        if let Some(turn) = turn {
            let nanos = u64::try_from(took.cpu.as_nanos()).unwrap_or(u64::MAX);
            turn.0.0.nanos.fetch_add(nanos, Ordering::Relaxed);
        }
        (done, took)
    }
}

/// The CPU time of this thread.
fn of_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
