//! The real and the simulated machine, tested against one contract; and what only one of them has.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod conformance;
mod crash;
mod disks;
mod faults;
mod os;
mod reads;
mod simulated;
