//! Background work: jobs, their classes, and gates to wait for their effects.

use std::fmt;
use std::time::Duration;

/// A piece of background work. It runs once, to completion, on a background thread (or in the loop
/// of the simulator).
pub type Job = Box<dyn FnOnce() + Send + 'static>;

/// The kind of background work that a [`Job`] does. Each class has its own threads, so that none
/// starves another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobClass {
    /// Writing memtables, which frees memory; also short timed duties such as a timed log sync.
    Flush,
    /// Merging runs and rewriting segments, which frees disk space and speeds up reads.
    Compaction,
    /// Bringing what follows from records, as a search index, up to what was written: short steps,
    /// for which writers wait if they come too late.
    Derive,
}

/// A condition variable that the simulator can drive: waiting lets background jobs run.
pub trait Gate: Send + Sync + fmt::Debug {
    /// Reports a change: every waiter checks again.
    fn notify(&self);
    /// Returns true as soon as `ready` does, or false when `timeout` has passed. `ready` is called
    /// first, then after each `notify`. The caller holds no lock that `ready` or a background job
    /// takes. Under simulation, due jobs run between these calls, and the clock moves to the time
    /// of the next job when none is due.
    fn wait_until(&self, ready: &mut dyn FnMut() -> bool, timeout: Duration) -> bool;
}
