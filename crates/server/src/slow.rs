//! The log of slow requests: what took long, who sent it, and how it was executed, as lines of
//! JSON.
//!
//! # Invariants
//! 1. No request waits for it, and the lines a second are bounded: those left out are counted in
//!    the next line.
//! 2. A line has no secret: of a token it has the name. It has the beginning of a search's body.

mod cpu;
mod gate;
mod log;

pub(crate) use cpu::{Clock, CpuTime, Most, Took, counted};
pub use log::SlowLog;
pub(crate) use log::SlowRequest;
