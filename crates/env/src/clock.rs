//! [`Clock`]: time as the machine counts it.

use std::fmt;
use std::time::Duration;

/// The part of [`Env`](crate::Env) that waiting needs.
pub(crate) trait Clock: Send + Sync + fmt::Debug {
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
    /// Sleeps.
    fn sleep(&self, duration: Duration);
}
