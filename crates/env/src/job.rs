//! Background work: jobs, their classes, and gates to wait for what they change.

use std::fmt;
use std::time::Duration;

/// A piece of background work: runs once, to completion, on a background thread (or inside the
/// simulator's loop).
pub type Job = Box<dyn FnOnce() + Send + 'static>;

/// What kind of background work a [`Job`] is; each class has threads of its own, so that none
/// starves another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobClass {
    /// Writing memtables out: what frees memory. Also short timed duties such as a timed log sync.
    Flush,
    /// Merging runs and rewriting segments: what frees disk and speeds reads.
    Compaction,
}

/// A condition variable that the simulator can drive: waiting lets background jobs run.
pub trait Gate: Send + Sync + fmt::Debug {
    /// Says that something changed; every waiter looks again.
    fn notify(&self);
    /// Returns true as soon as `ready` does (looked at first, then after each `notify`), or false
    /// when `timeout` has passed. The caller holds no lock that `ready` or a background job takes.
    /// Under simulation, due jobs are run between looks, and the clock moves to the next one's time
    /// when none is due.
    fn wait_until(&self, ready: &mut dyn FnMut() -> bool, timeout: Duration) -> bool;
}
